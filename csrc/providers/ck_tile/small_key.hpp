// What the small kernels in precompiled headers have in common: see gemm/warm.hpp.
#pragma once

#include "arch.hpp"

namespace ckdisp::tile {

template <class Key>
constexpr Key small_key(Family family) {
  constexpr bool rdna = is_rdna(kDeviceArch);
  Key made{};
  made.family = family;
  made.provider = Provider::ck_tile;
  made.arch = kDeviceArch;
  made.dtype_acc = Dtype::fp32;
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
  made.num_wave_groups = made.block_per_cu = 1;
  return made;
}

}  // namespace ckdisp::tile
