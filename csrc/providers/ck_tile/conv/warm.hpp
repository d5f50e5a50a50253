// A small kernel of each direction for the precompiled header of the device pass: see
// ../gemm/warm.hpp.
#pragma once

#include "kernel.hpp"

namespace ckdisp::tile {

constexpr ConvKey warm_conv_key(Family family) {
  constexpr bool rdna = is_rdna(kDeviceArch);
  ConvKey made{};
  made.family = family;
  made.provider = Provider::ck_tile;
  made.arch = kDeviceArch;
  made.dtype_in = made.dtype_wei = made.dtype_out = Dtype::fp16;
  made.dtype_acc = Dtype::fp32;
  made.layout = ConvLayout::nhwgc;
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
  made.specialization = ConvSpecialization::default_;
  made.vector[0] = made.vector[1] = made.vector[2] = 8;
  made.groups_to_merge = made.num_wave_groups = made.block_per_cu = 1;
  return made;
}
template <Family family>
struct WarmConvKey {
  static constexpr ConvKey key = warm_conv_key(family);
};
template <Family family>
using WarmConv = Kernel<WarmConvKey<family>>;
template <Family family>
using WarmConvArgs = typename WarmConv<family>::CkArgs;

template <Family family>
__device__ void warm_conv(const WarmConvArgs<family>& args) {
  typename WarmConv<family>::template Ck<true, TailNumber::Full, false>{}(args);
}

inline __device__ void warm(const WarmConvArgs<Family::conv_fwd>& fwd,
                            const WarmConvArgs<Family::conv_bwd_data>& data,
                            const WarmConvArgs<Family::conv_bwd_weight>& weight) {
  warm_conv<Family::conv_fwd>(fwd);
  warm_conv<Family::conv_bwd_data>(data);
  warm_conv<Family::conv_bwd_weight>(weight);
}

}  // namespace ckdisp::tile
