// A small kernel of each direction for the precompiled header of the device pass: see
// ../gemm/warm.hpp.
#pragma once

#include "../small_key.hpp"
#include "kernel.hpp"

namespace ckdisp::tile {

constexpr ConvKey warm_conv_key(Family family) {
  ConvKey made = small_key<ConvKey>(family);
  made.dtype_in = made.dtype_wei = made.dtype_out = Dtype::fp16;
  made.layout = ConvLayout::nhwgc;
  made.specialization = ConvSpecialization::default_;
  made.vector[0] = made.vector[1] = made.vector[2] = 8;
  made.groups_to_merge = 1;
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
