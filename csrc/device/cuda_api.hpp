// The CUDA driver, found and loaded when it is first asked for. Needs no CUDA headers and links
// against nothing, so that kernel libraries load on machines without it. C++17.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lazy_library.hpp"

namespace ckdisp::cuda {

// Values of CUresult, CUdevice_attribute, CUfunction_attribute, CUlaunchAttributeID, and flags.
inline constexpr int kSuccess = 0, kErrorInvalidValue = 1, kErrorOutOfMemory = 2,
                     kErrorNoDevice = 100, kErrorInvalidDevice = 101, kErrorNotReady = 600;
inline constexpr int kAttributeMultiprocessorCount = 16, kAttributeWarpSize = 10,
                     kAttributeComputeMajor = 75, kAttributeComputeMinor = 76;
inline constexpr int kFunctionMaxDynamicSharedBytes = 8;
inline constexpr unsigned kStreamNonBlocking = 1, kEventDefault = 0;
inline constexpr int kLaunchClusterDimension = 4;

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id;
  alignas(8) unsigned value[16];
};
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// Members have the C signatures of the cu* functions of their names, with handles and device
// pointers as void* and enumerations as int. Results are CUresult.
struct Api {
  int (*Init)(unsigned flags);
  int (*DriverGetVersion)(int* version);
  int (*DeviceGetCount)(int* count);
  int (*DeviceGet)(int* device, int index);
  int (*DeviceGetName)(char* name, int bytes, int device);
  int (*DeviceTotalMem)(std::size_t* bytes, int device);
  int (*DeviceGetAttribute)(int* value, int attribute, int device);
  int (*DevicePrimaryCtxRetain)(void** context, int device);
  int (*CtxGetCurrent)(void** context);
  int (*CtxPushCurrent)(void* context);
  int (*CtxPopCurrent)(void** context);
  int (*CtxSynchronize)();

  int (*MemAlloc)(void** memory, std::size_t bytes);
  int (*MemFree)(void* memory);
  int (*MemcpyHtoD)(void* to, const void* from, std::size_t bytes);
  int (*MemcpyDtoH)(void* to, const void* from, std::size_t bytes);
  int (*MemcpyDtoD)(void* to, const void* from, std::size_t bytes);
  int (*MemcpyHtoDAsync)(void* to, const void* from, std::size_t bytes, void* stream);
  int (*MemcpyDtoHAsync)(void* to, const void* from, std::size_t bytes, void* stream);
  int (*MemcpyDtoDAsync)(void* to, const void* from, std::size_t bytes, void* stream);
  int (*MemsetD8Async)(void* memory, unsigned char value, std::size_t bytes, void* stream);
  int (*MemsetD2D8Async)(void* memory, std::size_t pitch, unsigned char value, std::size_t width,
                         std::size_t height, void* stream);

  int (*StreamCreate)(void** stream, unsigned flags);
  int (*StreamDestroy)(void* stream);
  int (*StreamSynchronize)(void* stream);
  int (*StreamWaitEvent)(void* stream, void* event, unsigned flags);
  int (*StreamIsCapturing)(void* stream, int* status);

  int (*EventCreate)(void** event, unsigned flags);
  int (*EventDestroy)(void* event);
  int (*EventRecord)(void* event, void* stream);
  int (*EventSynchronize)(void* event);
  int (*EventQuery)(void* event);
  int (*EventElapsedTime)(float* milliseconds, void* start, void* stop);

  int (*ModuleLoadData)(void** module, const void* image);
  int (*ModuleUnload)(void* module);
  int (*ModuleGetFunction)(void** function, void* module, const char* name);
  int (*FuncSetAttribute)(void* function, int attribute, int value);
  int (*LaunchKernelEx)(const LaunchConfig* config, void* function, void** parameters,
                        void** extra);
  int (*OccupancyMaxActiveClusters)(int* clusters, void* function, const LaunchConfig* config);
  int (*TensorMapEncodeTiled)();  // called by its own signature
  int (*GetErrorName)(int error, const char** name);
  int (*GetErrorString)(int error, const char** text);

  void resolve(lazy::Resolver& get) {
    get(Init, "cuInit");
    get(DriverGetVersion, "cuDriverGetVersion");
    get(DeviceGetCount, "cuDeviceGetCount");
    get(DeviceGet, "cuDeviceGet");
    get(DeviceGetName, "cuDeviceGetName");
    get(DeviceTotalMem, "cuDeviceTotalMem_v2");
    get(DeviceGetAttribute, "cuDeviceGetAttribute");
    get(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    get(CtxGetCurrent, "cuCtxGetCurrent");
    get(CtxPushCurrent, "cuCtxPushCurrent_v2");
    get(CtxPopCurrent, "cuCtxPopCurrent_v2");
    get(CtxSynchronize, "cuCtxSynchronize");
    get(MemAlloc, "cuMemAlloc_v2");
    get(MemFree, "cuMemFree_v2");
    get(MemcpyHtoD, "cuMemcpyHtoD_v2");
    get(MemcpyDtoH, "cuMemcpyDtoH_v2");
    get(MemcpyDtoD, "cuMemcpyDtoD_v2");
    get(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
    get(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
    get(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
    get(MemsetD8Async, "cuMemsetD8Async");
    get(MemsetD2D8Async, "cuMemsetD2D8Async");
    get(StreamCreate, "cuStreamCreate");
    get(StreamDestroy, "cuStreamDestroy_v2");
    get(StreamSynchronize, "cuStreamSynchronize");
    get(StreamWaitEvent, "cuStreamWaitEvent");
    get(StreamIsCapturing, "cuStreamIsCapturing");
    get(EventCreate, "cuEventCreate");
    get(EventDestroy, "cuEventDestroy_v2");
    get(EventRecord, "cuEventRecord");
    get(EventSynchronize, "cuEventSynchronize");
    get(EventQuery, "cuEventQuery");
    get(EventElapsedTime, "cuEventElapsedTime");
    get(ModuleLoadData, "cuModuleLoadData");
    get(ModuleUnload, "cuModuleUnload");
    get(ModuleGetFunction, "cuModuleGetFunction");
    get(FuncSetAttribute, "cuFuncSetAttribute");
    get(LaunchKernelEx, "cuLaunchKernelEx");
    get(OccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters");
    get(TensorMapEncodeTiled, "cuTensorMapEncodeTiled");
    get(GetErrorName, "cuGetErrorName");
    get(GetErrorString, "cuGetErrorString");
  }
};

namespace detail {

using State = lazy::State<Api>;

inline void search(State& state) {
  static constexpr const char *kName = "libcuda.so.1", *kSince = "drivers for CUDA 12 and later";
  if (lazy::is_asked_for(state, "CKDISP_CUDA_DRIVER", "CUDA driver", kSince)) return;
  if (lazy::try_library(state, kName, 0, false, kSince)) return;
  lazy::explain(state,
                "no CUDA driver was found (libcuda.so.1, by the loader's path); install NVIDIA's "
                "driver, or name the file in CKDISP_CUDA_DRIVER%s%s",
                "", "");
}

// Hidden: every library that includes this has its own, whatever version it was built from.
[[gnu::visibility("hidden")]] inline const State& state() {
  static const State* const found = [] {
    auto* made = new State;  // never freed: threads may still use it while the process exits
    search(*made);
    return made;
  }();
  return *found;
}

}  // namespace detail

// The functions of the driver; null when there is none that can be used. The first call loads it,
// from whichever thread; nothing is loaded before.
inline const Api* api() noexcept { return detail::state().loaded ? &detail::state().api : nullptr; }

// Why api() is null, in words, with what to do; empty when it is not.
inline const char* why_not() noexcept { return detail::state().loaded ? "" : detail::state().why; }

// The name by which the driver was loaded; empty when there is none.
inline const char* driver_path() noexcept { return detail::state().path; }

}  // namespace ckdisp::cuda
