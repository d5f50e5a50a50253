// A small kernel that the precompiled header of the device pass instantiates and nothing emits:
// what it shares with the kernels of a unit, the compiler then loads instead of doing it again.
//
// One kernel does nearly all: with two more pipelines in it, units of the three pipelines took the
// same time.
#pragma once

#include "../small_key.hpp"
#include "kernel.hpp"

namespace ckdisp::tile {

constexpr GemmKey warm_key() {
  GemmKey made = small_key<GemmKey>(Family::gemm_standard);
  made.dtype_a = made.dtype_b = made.dtype_c = made.dtype_d = Dtype::fp16;
  made.layout = Layout::rcr;
  made.pad_m = made.pad_n = made.pad_k = true;
  return made;
}
struct WarmKey {
  static constexpr GemmKey key = warm_key();
};

inline __device__ void warm() {
  typename Kernel<WarmKey>::template Ck<true, TailNumber::Full, false>{}(
      typename Kernel<WarmKey>::CkArgs{});
}

}  // namespace ckdisp::tile
