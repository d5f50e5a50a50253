// A CK Tile grouped convolution kernel. A generated unit states its key and uses
// CKDISP_CK_TILE_CONV_KERNEL. The two passes are those of a GEMM: see gemm.hpp.
#pragma once

#define CKDISP_CK_OP_HEADER "ck_tile/ops/grouped_convolution.hpp"

#if defined(__HIP_DEVICE_COMPILE__)
#include "conv/kernel.hpp"
#include "device.hpp"
#else
#include "conv/host/cost.hpp"
#include "conv/host/launch.hpp"
#include "host/table.hpp"
#endif

#define CKDISP_CK_TILE_CONV_KERNEL CKDISP_CK_TILE_KERNEL
