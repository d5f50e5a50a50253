// The precompiled header of a grouped convolution unit, for either pass.
#include "providers/ck_tile/conv.hpp"

#if defined(__HIP_DEVICE_COMPILE__)
#include "providers/ck_tile/conv/warm.hpp"

namespace ckdisp::tile {
inline __device__ void warm() {
  warm_conv<Family::conv_fwd>();
  warm_conv<Family::conv_bwd_data>();
  warm_conv<Family::conv_bwd_weight>();
}
}  // namespace ckdisp::tile
#endif
