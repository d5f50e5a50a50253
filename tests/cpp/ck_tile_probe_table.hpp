// What tests ask of a kernel of the CK Tile provider beside its entry in the kernel table.
#pragma once

#include <cstdint>

#include <ckdisp/abi.hpp>

// How our check of random problems and CK's agree.
struct Agreement {
  int both;        // took the problem
  int neither;     // took it
  int unnamed;     // we had no reason of our own, and CK refused
  int too_strict;  // we refused for padding or alignment what CK takes
};

struct Probe {
  const ckdisp::ckdisp_kernel* kernel;  // null behind the last one
  int block_size;
  // Numbers of loops up to `most` for which CK picks another hot loop or tail than we do.
  int (*wrong_tails)(int most);
  void (*compare)(unsigned seed, int count, Agreement* result);
};

// The problem of a key but for its sizes and leading dimensions.
inline ckdisp::GemmProblemData problem_of(const ckdisp::GemmKey& key) {
  ckdisp::GemmProblemData p{};
  p.dtype_a = key.dtype_a;
  p.dtype_b = key.dtype_b;
  p.dtype_c = key.dtype_c;
  p.dtype_acc = key.dtype_acc;
  p.dtype_d = key.dtype_d;
  p.layout = key.layout;
  p.layout_d = key.layout_d;
  p.elementwise = key.elementwise;
  p.num_d = static_cast<std::uint8_t>(key.num_d);
  return p;
}
