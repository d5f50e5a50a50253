// The device pass of a unit: the kernel of its key, under the name of the kernel's table.
#pragma once

#include <cutlass/numeric_conversion.h>

#include "tma_kernel.hpp"
#include "unaligned_kernel.hpp"

#define CKDISP_CUTLASS_KERNEL(symbol, Key)                                                \
  extern "C" __global__ void __launch_bounds__(ckdisp::sm90::Kernel<Key>::threads, 1)     \
      symbol(__grid_constant__ const typename ckdisp::sm90::Kernel<Key>::Params params) { \
    extern __shared__ __align__(128) char shared[];                                       \
    ckdisp::sm90::Kernel<Key>::run(params, shared);                                       \
  }
