// The precompiled header of a GEMM unit, for either pass.
#include "providers/ck_tile/gemm.hpp"

#if defined(__HIP_DEVICE_COMPILE__)
#include "providers/ck_tile/gemm/warm.hpp"
#endif
