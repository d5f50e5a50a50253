// A CUDA driver without GPUs, for tests: memory is the host's, work is done at once, every call is
// noted. FAKE_CUDA_DEVICES lists compute capabilities ("90,80"); without it there are none.
// FAKE_CUDA_FAIL names one function and the error that it returns ("cuMemAlloc_v2:2").
// FAKE_CUDA_CAPTURING: every stream is being captured.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int kNoDevice = 100;

std::mutex mutex;
std::string calls;
thread_local std::vector<void*> contexts;  // the current one last

void* context_of(int device) {
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(0x100 + device));
}

std::vector<int> devices() {
  std::vector<int> out;
  const char* given = std::getenv("FAKE_CUDA_DEVICES");
  for (const char* at = given != nullptr ? given : ""; *at != '\0';) {
    out.push_back(std::atoi(at));
    const char* comma = std::strchr(at, ',');
    at = comma != nullptr ? comma + 1 : "";
  }
  return out;
}

// Notes a call, and says which error it has to return.
int note(const char* name, std::uint64_t argument = 0) {
  const std::lock_guard lock(mutex);
  const auto current =
      contexts.empty() ? -1 : reinterpret_cast<std::intptr_t>(contexts.back()) - 0x100;
  calls +=
      std::string(name) + " " + std::to_string(argument) + " @" + std::to_string(current) + "\n";
  const char* fail = std::getenv("FAKE_CUDA_FAIL");
  const std::size_t length = std::strlen(name);
  if (fail == nullptr || std::strncmp(fail, name, length) != 0 || fail[length] != ':') return 0;
  return std::atoi(fail + length + 1);
}

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))
#define NOTE(...) \
  if (const int error = note(__VA_ARGS__)) return error

// The calls since the last time, one a line: name, first number, device that was current.
FAKE const char* fake_cuda_calls() {
  static std::string shown;
  const std::lock_guard lock(mutex);
  shown.swap(calls);
  calls.clear();
  return shown.c_str();
}

FAKE int cuInit(unsigned) {
  NOTE("cuInit");
  return devices().empty() ? kNoDevice : 0;
}
FAKE int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
FAKE int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(devices().size());
  return note("cuDeviceGetCount");
}
FAKE int cuDeviceGet(int* device, int index) {
  *device = index;
  return note("cuDeviceGet", static_cast<std::uint64_t>(index));
}
FAKE int cuDeviceGetName(char* name, int bytes, int device) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "Fake NVIDIA %d", device);
  return 0;
}
FAKE int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 31;
  return 0;
}
FAKE int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int capability = devices().at(static_cast<std::size_t>(device));
  *value = attribute == 75   ? capability / 10
           : attribute == 76 ? capability % 10
           : attribute == 16 ? 132
                             : 32;
  return note("cuDeviceGetAttribute", static_cast<std::uint64_t>(attribute));
}
FAKE int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = context_of(device);
  return note("cuDevicePrimaryCtxRetain", static_cast<std::uint64_t>(device));
}
FAKE int cuCtxGetCurrent(void** context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return 0;
}
FAKE int cuCtxPushCurrent_v2(void* context) {
  contexts.push_back(context);
  return note("cuCtxPushCurrent_v2");
}
FAKE int cuCtxPopCurrent_v2(void** context) {
  *context = contexts.back();
  contexts.pop_back();
  return note("cuCtxPopCurrent_v2");
}
FAKE int cuCtxSynchronize() { return note("cuCtxSynchronize"); }

FAKE int cuMemAlloc_v2(void** block, std::size_t bytes) {
  NOTE("cuMemAlloc_v2", bytes);
  *block = std::malloc(bytes);
  return 0;
}
FAKE int cuMemFree_v2(void* block) {
  std::free(block);
  return note("cuMemFree_v2");
}
#define FAKE_COPY(name)                                          \
  FAKE int name(void* to, const void* from, std::size_t bytes) { \
    NOTE(#name, bytes);                                          \
    std::memcpy(to, from, bytes);                                \
    return 0;                                                    \
  }
#define FAKE_COPY_ASYNC(name)                                           \
  FAKE int name(void* to, const void* from, std::size_t bytes, void*) { \
    NOTE(#name, bytes);                                                 \
    std::memcpy(to, from, bytes);                                       \
    return 0;                                                           \
  }
FAKE_COPY(cuMemcpyHtoD_v2)
FAKE_COPY(cuMemcpyDtoH_v2)
FAKE_COPY(cuMemcpyDtoD_v2)
FAKE_COPY_ASYNC(cuMemcpyHtoDAsync_v2)
FAKE_COPY_ASYNC(cuMemcpyDtoHAsync_v2)
FAKE_COPY_ASYNC(cuMemcpyDtoDAsync_v2)
FAKE int cuMemsetD8Async(void* to, unsigned char value, std::size_t bytes, void*) {
  NOTE("cuMemsetD8Async", bytes);
  std::memset(to, value, bytes);
  return 0;
}

FAKE int cuStreamCreate(void** stream, unsigned flags) {
  *stream = reinterpret_cast<void*>(std::uintptr_t{0x2000});
  return note("cuStreamCreate", flags);
}
FAKE int cuStreamDestroy_v2(void*) { return note("cuStreamDestroy_v2"); }
FAKE int cuStreamSynchronize(void*) { return note("cuStreamSynchronize"); }
FAKE int cuStreamWaitEvent(void*, void*, unsigned) { return note("cuStreamWaitEvent"); }
FAKE int cuStreamIsCapturing(void*, int* status) {
  *status = std::getenv("FAKE_CUDA_CAPTURING") != nullptr;
  return note("cuStreamIsCapturing");
}

FAKE int cuEventCreate(void** event, unsigned flags) {
  NOTE("cuEventCreate", flags);
  *event = new double(0);
  return 0;
}
FAKE int cuEventDestroy_v2(void* event) {
  delete static_cast<double*>(event);
  return note("cuEventDestroy_v2");
}
FAKE int cuEventRecord(void* event, void*) {
  static double time = 0;
  *static_cast<double*>(event) = time += 2.5;
  return note("cuEventRecord");
}
FAKE int cuEventSynchronize(void*) { return note("cuEventSynchronize"); }
FAKE int cuEventQuery(void*) { return note("cuEventQuery"); }
FAKE int cuEventElapsedTime(float* time, void* start, void* stop) {
  *time = static_cast<float>(*static_cast<double*>(stop) - *static_cast<double*>(start));
  return note("cuEventElapsedTime");
}

// No kernel of these tests is one of a device.
#define FAKE_UNUSED(name) \
  FAKE int name() { return note(#name); }
FAKE_UNUSED(cuMemsetD2D8Async)
FAKE_UNUSED(cuModuleLoadData)
FAKE_UNUSED(cuModuleUnload)
FAKE_UNUSED(cuModuleGetFunction)
FAKE_UNUSED(cuFuncSetAttribute)
FAKE_UNUSED(cuLaunchKernelEx)
FAKE_UNUSED(cuOccupancyMaxActiveClusters)
FAKE_UNUSED(cuTensorMapEncodeTiled)

FAKE int cuGetErrorName(int error, const char** name) {
  *name = error == kNoDevice ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_FAKE";
  return 0;
}
FAKE int cuGetErrorString(int, const char** text) {
  *text = "made up for a test";
  return 0;
}
