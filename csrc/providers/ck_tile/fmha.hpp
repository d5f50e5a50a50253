// A CK Tile attention kernel. A generated unit states its key and uses CKDISP_CK_TILE_FMHA_KERNEL.
// The two passes are those of a GEMM: see gemm.hpp.
#pragma once

#define CKDISP_CK_OP_HEADER "ck_tile/ops/fmha.hpp"

#if defined(__HIP_DEVICE_COMPILE__)
#include "fmha/device.hpp"
#else
#include "fmha/host/launch.hpp"
#include "host/table.hpp"
#define CKDISP_CK_TILE_FMHA_KERNEL CKDISP_CK_TILE_KERNEL
#endif
