// What tests ask of a grouped convolution kernel of the CK Tile provider beside its entry in the
// kernel table.
#pragma once

#include <cstddef>

#include <ckdisp/abi.hpp>

// What came of the random problems that a kernel was tried on.
struct Trials {
  int computed;     // taken, and the kernel's arguments made it the convolution that was asked for
  int wrong;        // taken, and they did not
  int refused;      // not taken
  int unnamed;      // of these, those for which CK alone had a reason
  char first[400];  // what was wrong first
};

struct Probe {
  const ckdisp::ckdisp_kernel* kernel;  // null behind the last one
  int block_size;
  std::size_t args_size;
  void (*try_problems)(unsigned seed, int count, Trials* result);
};

// The output of a problem whose input and filter are set.
inline void set_output(ckdisp::ConvProblemData* p) {
  for (int i = 0; i < ckdisp::kMaxSpatial; ++i) {
    const auto free =
        p->in[i] + p->left_pad[i] + p->right_pad[i] - p->dilation[i] * (p->filter[i] - 1) - 1;
    p->out[i] = free / p->stride[i] + 1;
  }
}

// The problem of a key but for its sizes.
inline ckdisp::ConvProblemData problem_of(const ckdisp::ConvKey& key) {
  ckdisp::ConvProblemData p{};
  p.family = key.family;
  p.layout = key.layout;
  p.dtype_in = key.dtype_in;
  p.dtype_wei = key.dtype_wei;
  p.dtype_out = key.dtype_out;
  p.dtype_acc = key.dtype_acc;
  return p;
}
