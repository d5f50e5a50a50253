// A HIP runtime without GPUs, for tests: memory is the host's, work is done at once, every call is
// noted. FAKE_HIP_DEVICES lists architectures ("gfx942:xnack-,gfx1100"); without it there are none.
// FAKE_HIP_FAIL names one function and the error that it returns ("hipMalloc:2").
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int kNoDevice = 100, kInvalidDevice = 101, kInvalidValue = 1, kOutOfMemory = 2;

std::mutex mutex;
std::string calls;
std::map<void*, int> memory;  // block -> device
thread_local int current = 0;

std::vector<std::string> devices() {
  std::vector<std::string> out;
  const char* given = std::getenv("FAKE_HIP_DEVICES");
  std::string text = given != nullptr ? given : "";
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    out.push_back(text.substr(0, comma));
    text = comma == std::string::npos ? "" : text.substr(comma + 1);
  }
  return out;
}

// Notes a call, and says which error it has to return.
int note(const char* name, std::uint64_t argument = 0) {
  const std::lock_guard lock(mutex);
  calls +=
      std::string(name) + " " + std::to_string(argument) + " @" + std::to_string(current) + "\n";
  const char* fail = std::getenv("FAKE_HIP_FAIL");
  const std::size_t length = std::strlen(name);
  if (fail == nullptr || std::strncmp(fail, name, length) != 0 || fail[length] != ':') return 0;
  return std::atoi(fail + length + 1);
}

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))
#define NOTE(...) \
  if (const int error = note(__VA_ARGS__)) return error

// The calls since the last time, one a line: name, first number, device that was current.
FAKE const char* fake_hip_calls() {
  static std::string shown;
  const std::lock_guard lock(mutex);
  shown.swap(calls);
  calls.clear();
  return shown.c_str();
}
FAKE int fake_hip_blocks() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(memory.size());
}

FAKE int hipGetDeviceCount(int* count) {
  NOTE("hipGetDeviceCount");
  *count = static_cast<int>(devices().size());
  return *count > 0 ? 0 : kNoDevice;
}
FAKE int hipGetDevice(int* device) {
  *device = current;
  return note("hipGetDevice");
}
FAKE int hipSetDevice(int device) {
  NOTE("hipSetDevice", static_cast<std::uint64_t>(device));
  if (device < 0 || static_cast<std::size_t>(device) >= devices().size()) return kInvalidDevice;
  current = device;
  return 0;
}
FAKE int hipGetDevicePropertiesR0600(char* properties, int device) {
  NOTE("hipGetDevicePropertiesR0600", static_cast<std::uint64_t>(device));
  const std::string arch = devices().at(static_cast<std::size_t>(device));
  const std::uint64_t bytes = std::uint64_t{1} << 30;
  const int wave = arch.rfind("gfx9", 0) == 0 ? 64 : 32, units = 38;
  std::snprintf(properties, 256, "Fake GPU %d", device);
  std::memcpy(properties + 288, &bytes, sizeof bytes);
  std::memcpy(properties + 308, &wave, sizeof wave);
  std::memcpy(properties + 388, &units, sizeof units);
  std::snprintf(properties + 1160, 256, "%s", arch.c_str());
  return 0;
}
FAKE int hipDeviceGetAttribute(int* value, int attribute, int) {
  NOTE("hipDeviceGetAttribute", static_cast<std::uint64_t>(attribute));
  *value = 38;
  return 0;
}
FAKE int hipDeviceSynchronize() { return note("hipDeviceSynchronize"); }
FAKE int hipRuntimeGetVersion(int* version) {
  *version = 70000000;
  return note("hipRuntimeGetVersion");
}

FAKE int hipMalloc(void** block, std::size_t bytes) {
  NOTE("hipMalloc", bytes);
  *block = std::malloc(bytes);
  if (*block == nullptr) return kOutOfMemory;
  const std::lock_guard lock(mutex);
  memory[*block] = current;
  return 0;
}
FAKE int hipFree(void* block) {
  NOTE("hipFree");
  const std::lock_guard lock(mutex);
  if (memory.erase(block) == 0) return kInvalidValue;
  std::free(block);
  return 0;
}
FAKE int hipMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 30;
  return note("hipMemGetInfo");
}
FAKE int hipMemcpy(void* to, const void* from, std::size_t bytes, int) {
  NOTE("hipMemcpy", bytes);
  std::memcpy(to, from, bytes);
  return 0;
}
FAKE int hipMemcpyAsync(void* to, const void* from, std::size_t bytes, int, void*) {
  NOTE("hipMemcpyAsync", bytes);
  std::memcpy(to, from, bytes);
  return 0;
}
FAKE int hipMemsetAsync(void* to, int value, std::size_t bytes, void*) {
  NOTE("hipMemsetAsync", bytes);
  std::memset(to, value, bytes);
  return 0;
}
FAKE int hipMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width,
                          std::size_t height, void*) {
  NOTE("hipMemset2DAsync", pitch);
  for (std::size_t i = 0; i < height; ++i) {
    std::memset(static_cast<char*>(to) + i * pitch, value, width);
  }
  return 0;
}
FAKE int hipPointerGetAttributes(void*, const void* pointer) {
  return note("hipPointerGetAttributes", number(pointer));
}

FAKE int hipStreamCreateWithFlags(void** stream, unsigned flags) {
  NOTE("hipStreamCreateWithFlags", flags);
  static std::uintptr_t next = 0x1000;
  const std::lock_guard lock(mutex);
  *stream = reinterpret_cast<void*>(next += 16);
  return 0;
}
FAKE int hipStreamDestroy(void* stream) { return note("hipStreamDestroy", number(stream)); }
FAKE int hipStreamSynchronize(void* stream) { return note("hipStreamSynchronize", number(stream)); }
FAKE int hipStreamWaitEvent(void* stream, void*, unsigned) {
  return note("hipStreamWaitEvent", number(stream));
}

FAKE int hipEventCreateWithFlags(void** event, unsigned flags) {
  NOTE("hipEventCreateWithFlags", flags);
  *event = new double(0);
  return 0;
}
FAKE int hipEventDestroy(void* event) {
  delete static_cast<double*>(event);
  return note("hipEventDestroy");
}
FAKE int hipEventRecord(void* event, void* stream) {
  NOTE("hipEventRecord", number(stream));
  static double time = 0;
  *static_cast<double*>(event) = time += 1.5;
  return 0;
}
FAKE int hipEventSynchronize(void*) { return note("hipEventSynchronize"); }
FAKE int hipEventQuery(void*) { return note("hipEventQuery"); }
FAKE int hipEventElapsedTime(float* time, void* start, void* stop) {
  NOTE("hipEventElapsedTime");
  *time = static_cast<float>(*static_cast<double*>(stop) - *static_cast<double*>(start));
  return 0;
}

// No kernel of these tests is one of a device.
FAKE int hipModuleLoadData(void**, const void*) { return note("hipModuleLoadData"); }
FAKE int hipModuleUnload(void*) { return note("hipModuleUnload"); }
FAKE int hipModuleGetFunction(void**, void*, const char*) { return note("hipModuleGetFunction"); }
FAKE int hipModuleLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, void*, void**, void**) {
  return note("hipModuleLaunchKernel");
}
FAKE int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int*, void*, int, std::size_t) {
  return note("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor");
}

FAKE const char* hipGetErrorName(int error) {
  return error == kNoDevice ? "hipErrorNoDevice" : "hipErrorFake";
}
FAKE const char* hipGetErrorString(int error) {
  return error == kNoDevice ? "no ROCm-capable device is detected" : "made up for a test";
}
FAKE int hipGetLastError() { return 0; }
