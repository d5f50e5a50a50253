// A GEMM kernel for NVIDIA GPUs. A generated unit states its key and uses
// CKDISP_CUTLASS_GEMM_KERNEL.
//
// nvcc compiles the kernel of the key alone, into a cubin; the C++ compiler its entry in the kernel
// table, with the code of CUTLASS that makes the parameters of a launch. Both see the same types.
#pragma once

#if defined(__CUDACC__)
#include "gemm/device.hpp"
#else
#include "gemm/launch.hpp"
#include "host/table.hpp"
#endif

#define CKDISP_CUTLASS_GEMM_KERNEL CKDISP_CUTLASS_KERNEL
