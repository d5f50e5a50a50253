// The HIP runtime, found and loaded when it is first asked for. Needs no HIP headers and links
// against nothing, so that kernel libraries load on machines without ROCm. C++17.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lazy_library.hpp"

namespace ckdisp::hip {

// Values of hipError_t, hipMemcpyKind, stream and event flags, and hipDeviceAttribute_t.
inline constexpr int kSuccess = 0, kErrorInvalidValue = 1, kErrorOutOfMemory = 2,
                     kErrorNoDevice = 100, kErrorInvalidDevice = 101, kErrorNotReady = 600;
inline constexpr int kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3;
inline constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2;
inline constexpr int kAttributeMultiprocessorCount = 63, kAttributeWarpSize = 87;

// The start and the end of hipDeviceProp_tR0600 that are read here.
struct DeviceProperties {
  char name[256];
  unsigned char ids[28];
  std::size_t total_memory;
  std::size_t shared_memory_per_block;
  int registers_per_block;
  int wave_size;
  unsigned char between_1[76];
  int compute_units;
  unsigned char between_2[768];
  char arch[256];           // gcnArchName: "gfx942:sramecc+:xnack-"
  unsigned char rest[512];  // 56 bytes in ROCm 7, and room for more
};

struct PointerAttributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
  int is_managed;
  unsigned allocation_flags;
};

// Members have the C signatures of the hip* functions of their names, with handles as void* and
// enumerations as int. Results are hipError_t.
struct Api {
  int (*GetDeviceCount)(int* count);
  int (*GetDevice)(int* device);
  int (*SetDevice)(int device);
  int (*GetDeviceProperties)(DeviceProperties* properties, int device);
  int (*DeviceGetAttribute)(int* value, int attribute, int device);
  int (*DeviceSynchronize)();
  int (*RuntimeGetVersion)(int* version);

  int (*Malloc)(void** memory, std::size_t bytes);
  int (*Free)(void* memory);
  int (*MemGetInfo)(std::size_t* free, std::size_t* total);
  int (*Memcpy)(void* to, const void* from, std::size_t bytes, int kind);
  int (*MemcpyAsync)(void* to, const void* from, std::size_t bytes, int kind, void* stream);
  int (*MemsetAsync)(void* memory, int value, std::size_t bytes, void* stream);
  int (*Memset2DAsync)(void* memory, std::size_t pitch, int value, std::size_t width,
                       std::size_t height, void* stream);
  int (*PointerGetAttributes)(PointerAttributes* attributes, const void* pointer);

  int (*StreamCreateWithFlags)(void** stream, unsigned flags);
  int (*StreamDestroy)(void* stream);
  int (*StreamSynchronize)(void* stream);
  int (*StreamWaitEvent)(void* stream, void* event, unsigned flags);

  int (*EventCreateWithFlags)(void** event, unsigned flags);
  int (*EventDestroy)(void* event);
  int (*EventRecord)(void* event, void* stream);
  int (*EventSynchronize)(void* event);
  int (*EventQuery)(void* event);
  int (*EventElapsedTime)(float* milliseconds, void* start, void* stop);

  int (*ModuleLoadData)(void** module, const void* image);
  int (*ModuleUnload)(void* module);
  int (*ModuleGetFunction)(void** function, void* module, const char* name);
  int (*ModuleLaunchKernel)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, void* stream, void** parameters, void** extra);
  int (*ModuleOccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, void* function,
                                                         int block_size, std::size_t shared_bytes);

  const char* (*GetErrorName)(int error);
  const char* (*GetErrorString)(int error);
  int (*GetLastError)();

  // As the stream of a graph that is being captured says it; null in runtimes that cannot.
  int (*StreamIsCapturing)(void* stream, int* status);

  void resolve(lazy::Resolver& get) {
    get(GetDeviceCount, "hipGetDeviceCount");
    get(GetDevice, "hipGetDevice");
    get(SetDevice, "hipSetDevice");
    get(GetDeviceProperties, "hipGetDevicePropertiesR0600");
    get(DeviceGetAttribute, "hipDeviceGetAttribute");
    get(DeviceSynchronize, "hipDeviceSynchronize");
    get(RuntimeGetVersion, "hipRuntimeGetVersion");
    get(Malloc, "hipMalloc");
    get(Free, "hipFree");
    get(MemGetInfo, "hipMemGetInfo");
    get(Memcpy, "hipMemcpy");
    get(MemcpyAsync, "hipMemcpyAsync");
    get(MemsetAsync, "hipMemsetAsync");
    get(Memset2DAsync, "hipMemset2DAsync");
    get(PointerGetAttributes, "hipPointerGetAttributes");
    get(StreamCreateWithFlags, "hipStreamCreateWithFlags");
    get(StreamDestroy, "hipStreamDestroy");
    get(StreamSynchronize, "hipStreamSynchronize");
    get(StreamWaitEvent, "hipStreamWaitEvent");
    get(EventCreateWithFlags, "hipEventCreateWithFlags");
    get(EventDestroy, "hipEventDestroy");
    get(EventRecord, "hipEventRecord");
    get(EventSynchronize, "hipEventSynchronize");
    get(EventQuery, "hipEventQuery");
    get(EventElapsedTime, "hipEventElapsedTime");
    get(ModuleLoadData, "hipModuleLoadData");
    get(ModuleUnload, "hipModuleUnload");
    get(ModuleGetFunction, "hipModuleGetFunction");
    get(ModuleLaunchKernel, "hipModuleLaunchKernel");
    get(ModuleOccupancyMaxActiveBlocksPerMultiprocessor,
        "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor");
    get(GetErrorName, "hipGetErrorName");
    get(GetErrorString, "hipGetErrorString");
    get(GetLastError, "hipGetLastError");
    get.optional(StreamIsCapturing, "hipStreamIsCapturing");
  }
};

namespace detail {

using State = lazy::State<Api>;
inline constexpr const char* kSince = "ROCm 6.0 and later";

inline void search(State& state) {
  static constexpr const char* kNames[] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                           "libamdhip64.so"};
  if (lazy::is_asked_for(state, "CKDISP_HIP_RUNTIME", "HIP runtime", kSince)) return;
  for (const char* name : kNames) {  // what is in the process already: PyTorch brings its own
    if (lazy::try_library(state, name, RTLD_NOLOAD, false, kSince)) return;
  }
  for (const char* name : kNames) {
    if (lazy::try_library(state, name, 0, false, kSince)) return;
  }
  const char* const roots[] = {std::getenv("ROCM_PATH"), std::getenv("HIP_PATH"), "/opt/rocm"};
  for (const char* root : roots) {
    if (root == nullptr || *root == '\0') continue;
    for (const char* name : kNames) {
      char path[512];
      std::snprintf(path, sizeof path, "%s/lib/%s", root, name);
      if (lazy::try_library(state, path, 0, false, kSince)) return;
    }
  }
  lazy::explain(
      state,
      "no HIP runtime was found (libamdhip64.so.7 or .6, by the loader's path, below ROCM_PATH, "
      "HIP_PATH and /opt/rocm); install ROCm, or name the file in CKDISP_HIP_RUNTIME%s%s",
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

// The functions of the runtime; null when there is none that can be used. The first call loads it,
// from whichever thread; nothing is loaded before.
inline const Api* api() noexcept { return detail::state().loaded ? &detail::state().api : nullptr; }

// Why api() is null, in words, with what to do; empty when it is not.
inline const char* why_not() noexcept { return detail::state().loaded ? "" : detail::state().why; }

// The name by which the runtime was loaded; empty when there is none.
inline const char* runtime_path() noexcept { return detail::state().path; }

}  // namespace ckdisp::hip
