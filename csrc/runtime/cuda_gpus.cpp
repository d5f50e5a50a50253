// NVIDIA GPUs, by the CUDA driver. Each device is used in its primary context, which PyTorch, CuPy
// and every program on the CUDA runtime use too.
#include <ckdisp/errors.hpp>

#include <array>
#include <atomic>

#include "../device/cuda_api.hpp"
#include "gpu_calls.hpp"

namespace ckdisp::detail {
namespace {

std::string words(const cuda::Api& api, int error) {
  const char *name = nullptr, *text = nullptr;
  (void)api.GetErrorName(error, &name);
  (void)api.GetErrorString(error, &text);
  return error_text(name, error, text);
}

const char* remedy(int error) {
  switch (error) {
    case cuda::kErrorOutOfMemory:
      return "free memory of the device (PyTorch: torch.cuda.empty_cache()), or split the problem";
    case cuda::kErrorNoDevice:
      return "look at `nvidia-smi`, at CUDA_VISIBLE_DEVICES, and at the permissions of "
             "/dev/nvidia*";
    case cuda::kErrorInvalidDevice:
      return "pass the number of a device that is here";
    case cuda::kErrorInvalidValue:
      return "check that pointers and streams belong to the device of the call";
    default:
      return "a kernel that ran before may have failed, since its errors show up in later calls; "
             "compute-sanitizer finds which";
  }
}

void check(const cuda::Api& api, int error, const std::string& call) {
  if (error == cuda::kSuccess) return;
  throw DeviceError(call + " failed with " + words(api, error) + "; " + remedy(error));
}

class CudaGpus final : public GpuRuntime {
 public:
  DeviceKind kind() const noexcept override { return DeviceKind::cuda; }
  const char* name() const noexcept override { return "CUDA driver"; }
  const char* short_name() const noexcept override { return "CUDA"; }
  const char* why_not() const noexcept override { return cuda::why_not(); }

  std::vector<Device> list(std::string* why) const override {
    const std::string shows_none =
        std::string("the CUDA driver (") + cuda::driver_path() + ") shows no device";
    int count = 0;
    const char* call = "cuInit";
    int error = api().Init(0);
    if (error == cuda::kSuccess) {
      call = "cuDeviceGetCount";
      error = api().DeviceGetCount(&count);
    }
    if (error != cuda::kSuccess) {
      *why = shows_none + ": " + call + " returned " + words(api(), error) + "; " + remedy(error);
      return {};
    }
    if (count <= 0) *why = shows_none + "; " + remedy(cuda::kErrorNoDevice);
    std::vector<Device> devices;
    for (int i = 0; i < count && i < kMaxDevices; ++i) devices.push_back(describe(i));
    return devices;
  }

  bool enter(int device, void** before) const override {
    void* const context = context_of(device);
    void* current = nullptr;
    check(api(), api().CtxGetCurrent(&current), "cuCtxGetCurrent");
    if (current == context) return false;
    check(api(), api().CtxPushCurrent(context), "cuCtxPushCurrent of " + device_text(device));
    *before = current;
    return true;
  }
  void leave(void*) const noexcept override {
    void* context = nullptr;
    (void)api().CtxPopCurrent(&context);
  }

  void* allocate(std::size_t bytes, int device) const override {
    void* memory = nullptr;
    check(api(), api().MemAlloc(&memory, bytes), sized("cuMemAlloc", bytes, device));
    return memory;
  }
  void free(void* memory) const noexcept override { (void)api().MemFree(memory); }
  void copy(void* to, const void* from, std::size_t bytes, Copy kind, int device) const override {
    const auto function = kind == Copy::host_to_device   ? api().MemcpyHtoD
                          : kind == Copy::device_to_host ? api().MemcpyDtoH
                                                         : api().MemcpyDtoD;
    check(api(), function(to, from, bytes), copying("cuMemcpy", bytes, kind, device));
  }
  void copy_async(void* to, const void* from, std::size_t bytes, Copy kind, void* stream,
                  int device) const override {
    const auto function = kind == Copy::host_to_device   ? api().MemcpyHtoDAsync
                          : kind == Copy::device_to_host ? api().MemcpyDtoHAsync
                                                         : api().MemcpyDtoDAsync;
    check(api(), function(to, from, bytes, stream), copying("cuMemcpyAsync", bytes, kind, device));
  }
  void fill_async(void* memory, unsigned char value, std::size_t bytes, void* stream,
                  int device) const override {
    check(api(), api().MemsetD8Async(memory, value, bytes, stream),
          sized("cuMemsetD8Async", bytes, device));
  }
  void synchronize(int device) const override {
    check(api(), api().CtxSynchronize(), "cuCtxSynchronize" + on(device));
  }

  void* new_stream(int device) const override {
    void* stream = nullptr;
    check(api(), api().StreamCreate(&stream, cuda::kStreamNonBlocking),
          "cuStreamCreate" + on(device));
    return stream;
  }
  void free_stream(void* stream) const noexcept override { (void)api().StreamDestroy(stream); }
  void wait_for_stream(void* stream, int device, const char* why) const override {
    check(api(), api().StreamSynchronize(stream), "cuStreamSynchronize" + on(device) + why);
  }
  void wait_for_event(void* stream, void* event, int device) const override {
    check(api(), api().StreamWaitEvent(stream, event, 0), "cuStreamWaitEvent" + on(device));
  }
  bool is_capturing(void* stream, int device) const override {
    int status = 0;
    check(api(), api().StreamIsCapturing(stream, &status), "cuStreamIsCapturing" + on(device));
    return status != 0;
  }

  void* new_event(int device) const override {
    void* event = nullptr;
    check(api(), api().EventCreate(&event, cuda::kEventDefault), "cuEventCreate" + on(device));
    return event;
  }
  void free_event(void* event) const noexcept override { (void)api().EventDestroy(event); }
  void record(void* event, void* stream, int device) const override {
    check(api(), api().EventRecord(event, stream), "cuEventRecord" + on(device));
  }
  void synchronize_event(void* event, int device) const override {
    check(api(), api().EventSynchronize(event), "cuEventSynchronize" + on(device));
  }
  bool is_done(void* event, int device) const override {
    const int status = api().EventQuery(event);
    if (status == cuda::kErrorNotReady) return false;
    check(api(), status, "cuEventQuery" + on(device));
    return true;
  }
  double milliseconds(void* start, void* stop, int device) const override {
    float time = 0;
    check(api(), api().EventElapsedTime(&time, start, stop),
          "cuEventElapsedTime (of events that are recorded and done)" + on(device));
    return time;
  }

 private:
  static const cuda::Api& api() noexcept { return *cuda::api(); }

  static int attribute(int which, int device) {
    int value = 0;
    check(api(), api().DeviceGetAttribute(&value, which, device),
          "cuDeviceGetAttribute of CUDA device " + std::to_string(device));
    return value;
  }

  static Device describe(int index) {
    const std::string of = " of CUDA device " + std::to_string(index);
    char name[256] = "";
    std::size_t bytes = 0;
    int device = 0;
    check(api(), api().DeviceGet(&device, index), "cuDeviceGet" + of);
    check(api(), api().DeviceGetName(name, sizeof name, device), "cuDeviceGetName" + of);
    check(api(), api().DeviceTotalMem(&bytes, device), "cuDeviceTotalMem" + of);
    name[sizeof name - 1] = '\0';
    const int major = attribute(cuda::kAttributeComputeMajor, device);
    // With an a, for code that uses what one arch alone has: Hopper's matrix instructions.
    const std::string arch = "sm_" + std::to_string(major) +
                             std::to_string(attribute(cuda::kAttributeComputeMinor, device)) +
                             (major >= 9 ? "a" : "");
    return {index,
            name,
            arch,
            arch,
            attribute(cuda::kAttributeMultiprocessorCount, device),
            attribute(cuda::kAttributeWarpSize, device),
            bytes,
            DeviceKind::cuda,
            device_number(DeviceKind::cuda, index)};
  }

  // The primary context of a device, made on first use and then kept.
  void* context_of(int device) const {
    const int index = index_of_device(device);
    std::atomic<void*>& slot = contexts_[static_cast<std::size_t>(index)];
    if (void* const known = slot.load()) return known;
    int handle = 0;
    void* context = nullptr;
    check(api(), api().DeviceGet(&handle, index), "cuDeviceGet of " + device_text(device));
    check(api(), api().DevicePrimaryCtxRetain(&context, handle),
          "cuDevicePrimaryCtxRetain of " + device_text(device));
    slot = context;
    return context;
  }

  mutable std::array<std::atomic<void*>, kMaxDevices> contexts_{};
};

}  // namespace

const GpuRuntime& cuda_gpus() {
  static const CudaGpus gpus;
  return gpus;
}

}  // namespace ckdisp::detail
