// The HIP runtime, found and loaded when it is first asked for. Needs no HIP headers and links
// against nothing, so that kernel libraries load on machines without ROCm. C++17.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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
};

namespace detail {

struct State {
  Api api{};
  bool loaded = false;
  char path[512] = "";
  char why[1024] = "";
};

inline void explain(State& state, const char* format, const char* a, const char* b) {
  const std::size_t used = std::strlen(state.why);
  std::snprintf(state.why + used, sizeof state.why - used, format, a, b);
}

// The first function that the library lacks; null when it has all.
inline const char* resolve(void* library, Api& api) {
  const char* missing = nullptr;
  const auto get = [&](auto& member, const char* symbol) {
    void* address = ::dlsym(library, symbol);
    if (address == nullptr && missing == nullptr) missing = symbol;
    std::memcpy(&member, &address, sizeof address);
  };
  get(api.GetDeviceCount, "hipGetDeviceCount");
  get(api.GetDevice, "hipGetDevice");
  get(api.SetDevice, "hipSetDevice");
  get(api.GetDeviceProperties, "hipGetDevicePropertiesR0600");
  get(api.DeviceGetAttribute, "hipDeviceGetAttribute");
  get(api.DeviceSynchronize, "hipDeviceSynchronize");
  get(api.RuntimeGetVersion, "hipRuntimeGetVersion");
  get(api.Malloc, "hipMalloc");
  get(api.Free, "hipFree");
  get(api.MemGetInfo, "hipMemGetInfo");
  get(api.Memcpy, "hipMemcpy");
  get(api.MemcpyAsync, "hipMemcpyAsync");
  get(api.MemsetAsync, "hipMemsetAsync");
  get(api.Memset2DAsync, "hipMemset2DAsync");
  get(api.PointerGetAttributes, "hipPointerGetAttributes");
  get(api.StreamCreateWithFlags, "hipStreamCreateWithFlags");
  get(api.StreamDestroy, "hipStreamDestroy");
  get(api.StreamSynchronize, "hipStreamSynchronize");
  get(api.StreamWaitEvent, "hipStreamWaitEvent");
  get(api.EventCreateWithFlags, "hipEventCreateWithFlags");
  get(api.EventDestroy, "hipEventDestroy");
  get(api.EventRecord, "hipEventRecord");
  get(api.EventSynchronize, "hipEventSynchronize");
  get(api.EventQuery, "hipEventQuery");
  get(api.EventElapsedTime, "hipEventElapsedTime");
  get(api.ModuleLoadData, "hipModuleLoadData");
  get(api.ModuleUnload, "hipModuleUnload");
  get(api.ModuleGetFunction, "hipModuleGetFunction");
  get(api.ModuleLaunchKernel, "hipModuleLaunchKernel");
  get(api.ModuleOccupancyMaxActiveBlocksPerMultiprocessor,
      "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor");
  get(api.GetErrorName, "hipGetErrorName");
  get(api.GetErrorString, "hipGetErrorString");
  get(api.GetLastError, "hipGetLastError");
  return missing;
}

// Tries one file. A candidate that is simply not there leaves no trace in the explanation unless
// it was `asked` for; one that is there and unusable does.
inline bool try_library(State& state, const char* name, int mode, bool asked) {
  void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | mode);
  if (library == nullptr) {
    const char* error = ::dlerror();
    if (error == nullptr) error = "unknown error";
    const std::size_t length = std::strlen(name);
    const bool absent = std::strncmp(error, name, length) == 0 &&
                        std::strstr(error + length, "No such file") != nullptr;
    if (asked || ((mode & RTLD_NOLOAD) == 0 && !absent)) {
      explain(state, "%s%s; ", error, "");
    }
    return false;
  }
  if (const char* missing = resolve(library, state.api)) {
    explain(state, "%s has no function %s, which ROCm 6.0 and later have; ", name, missing);
    return false;  // stays loaded: it may have been in the process before
  }
  std::snprintf(state.path, sizeof state.path, "%s", name);
  return state.loaded = true;
}

inline void search(State& state) {
  static constexpr const char* kNames[] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                           "libamdhip64.so"};
  if (const char* asked = std::getenv("CKDISP_HIP_RUNTIME"); asked != nullptr && *asked != '\0') {
    explain(state, "CKDISP_HIP_RUNTIME='%s' is no usable HIP runtime: ", asked, "");
    if (try_library(state, asked, 0, true)) return;
    explain(state, "correct or unset the variable%s%s", "", "");
    return;
  }
  for (const char* name : kNames) {  // what is in the process already: PyTorch brings its own
    if (try_library(state, name, RTLD_NOLOAD, false)) return;
  }
  for (const char* name : kNames) {
    if (try_library(state, name, 0, false)) return;
  }
  const char* const roots[] = {std::getenv("ROCM_PATH"), std::getenv("HIP_PATH"), "/opt/rocm"};
  for (const char* root : roots) {
    if (root == nullptr || *root == '\0') continue;
    for (const char* name : kNames) {
      char path[512];
      std::snprintf(path, sizeof path, "%s/lib/%s", root, name);
      if (try_library(state, path, 0, false)) return;
    }
  }
  explain(
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
