// The functions of the CUDA runtime that CUTLASS's host code calls, over the driver: a kernel
// library links against neither. Hidden, so that no other library sees them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>

#include "../../../device/cuda_api.hpp"

#define CKDISP_OWN extern "C" [[gnu::weak, gnu::visibility("hidden")]]

CKDISP_OWN cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                        unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult* result) {
  const ckdisp::cuda::Api* const api = ckdisp::cuda::api();
  const bool known = api != nullptr && std::strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
  *function = known ? reinterpret_cast<void*>(api->TensorMapEncodeTiled) : nullptr;
  if (result != nullptr) {
    *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return known ? cudaSuccess : cudaErrorSymbolNotFound;
}
CKDISP_OWN cudaError_t cudaDriverGetVersion(int* version) {
  const ckdisp::cuda::Api* const api = ckdisp::cuda::api();
  return api != nullptr && api->DriverGetVersion(version) == 0 ? cudaSuccess
                                                               : cudaErrorInitializationError;
}
// Not asked: launches say how many multiprocessors there are.
CKDISP_OWN cudaError_t cudaGetDevice(int*) { return cudaErrorNotSupported; }
CKDISP_OWN cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int) {
  return cudaErrorNotSupported;
}

#undef CKDISP_OWN
