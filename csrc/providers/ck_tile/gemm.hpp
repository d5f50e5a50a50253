// A CK Tile GEMM kernel. A generated unit states its key and uses CKDISP_CK_TILE_GEMM_KERNEL.
//
// The device pass compiles the kernels of the key, the host pass its entry in the kernel table.
// The two are separate objects: see embed.S for how the code gets into the library.
#pragma once

#if defined(__HIP_DEVICE_COMPILE__)
#include "device.hpp"
#include "gemm/kernel.hpp"
#else
#include "gemm/host/cost.hpp"
#include "gemm/host/launch.hpp"
#include "host/table.hpp"
#endif

#define CKDISP_CK_TILE_GEMM_KERNEL CKDISP_CK_TILE_KERNEL
