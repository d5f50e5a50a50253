// What a convolution key means on a CPU: the GEMM that it is, in the roles of A, B and C.
#pragma once

#include "../epilogue.hpp"

namespace ckdisp::cpu {
namespace {

constexpr GemmKey gemm_of(const ConvKey& conv) {
  const bool forward = conv.family == Family::conv_fwd;
  const bool weight = conv.family == Family::conv_bwd_weight;
  GemmKey key{};
  key.family = Family::gemm_standard;
  key.provider = conv.provider;
  key.arch = conv.arch;
  key.dtype_a = forward ? conv.dtype_in : conv.dtype_out;
  key.dtype_b = weight ? conv.dtype_in : conv.dtype_wei;
  key.dtype_c = forward ? conv.dtype_out : weight ? conv.dtype_wei : conv.dtype_in;
  key.dtype_d = key.dtype_c;
  key.dtype_acc = conv.dtype_acc;
  key.layout = forward ? Layout::rcr : weight ? Layout::crr : Layout::rrr;
  for (int i = 0; i < 3; ++i) {
    key.tile[i] = conv.tile[i];
    key.wave[i] = conv.wave[i];
    key.warp[i] = conv.warp[i];
  }
  if (weight) key.warp[2] = 1;  // sums over pixels take them one by one
  key.pipeline = Pipeline::packed;
  key.pad_m = key.pad_n = key.pad_k = true;
  key.num_wave_groups = conv.num_wave_groups;
  key.block_per_cu = conv.block_per_cu;
  return key;
}

// The kernel of that GEMM, for Traits and everything built on them.
template <class Conv>
struct Core {
  static constexpr GemmKey key = gemm_of(Conv::key);
};

constexpr Index product(const std::int64_t (&sizes)[kMaxSpatial]) {
  return sizes[0] * sizes[1] * sizes[2];
}
// Pixels of all images, of the input and of the output, and positions of a filter.
constexpr Index in_pixels(const ConvProblemData& p) { return p.n * product(p.in); }
constexpr Index out_pixels(const ConvProblemData& p) { return p.n * product(p.out); }
constexpr Index filter_taps(const ConvProblemData& p) { return product(p.filter); }

}  // namespace
}  // namespace ckdisp::cpu
