// A small kernel that the precompiled header of the device pass instantiates and nothing emits:
// what it shares with the kernels of a unit, the compiler then loads instead of doing it again.
//
// One kernel does nearly all: with two more pipelines in it, units of the three pipelines took the
// same time.
#pragma once

#include "kernel.hpp"

namespace ckdisp::tile {

constexpr GemmKey warm_key() {
  constexpr bool rdna = is_rdna(kDeviceArch);
  GemmKey made{};
  made.family = Family::gemm_standard;
  made.provider = Provider::ck_tile;
  made.arch = kDeviceArch;
  made.dtype_a = made.dtype_b = made.dtype_c = made.dtype_d = Dtype::fp16;
  made.dtype_acc = Dtype::fp32;
  made.layout = Layout::rcr;
  made.tile[0] = made.tile[1] = 64;
  made.tile[2] = 32;
  made.wave[0] = rdna ? 4 : 2;
  made.wave[1] = 2;
  made.wave[2] = 1;
  made.warp[0] = made.warp[1] = rdna ? 16 : 32;
  made.warp[2] = rdna ? 16 : 8;
  made.pipeline = Pipeline::compv3;
  made.scheduler = Scheduler::intrawave;
  made.epilogue = Epilogue::cshuffle;
  made.pad_m = made.pad_n = made.pad_k = true;
  made.num_wave_groups = made.block_per_cu = 1;
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
