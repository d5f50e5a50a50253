// The precompiled header of a grouped convolution unit, for either pass.
#include "providers/ck_tile/conv.hpp"

#if defined(__HIP_DEVICE_COMPILE__)
#include "providers/ck_tile/conv/warm.hpp"
#endif
