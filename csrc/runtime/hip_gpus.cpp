// AMD GPUs, by HIP.
#include <ckdisp/errors.hpp>

#include <cstring>
#include <memory>

#include "../device/hip_api.hpp"
#include "gpu_calls.hpp"

namespace ckdisp::detail {
namespace {

std::string words(const hip::Api& api, int error) {
  return error_text(api.GetErrorName(error), error, api.GetErrorString(error));
}

const char* remedy(int error) {
  switch (error) {
    case hip::kErrorOutOfMemory:
      return "free memory of the device (PyTorch: torch.cuda.empty_cache()), or split the problem";
    case hip::kErrorNoDevice:
      return "look at `rocminfo`, at HIP_VISIBLE_DEVICES, and at the permissions of /dev/kfd";
    case hip::kErrorInvalidDevice:
      return "pass the index of a device that is here";
    case hip::kErrorInvalidValue:
      return "check that pointers and streams belong to the device of the call";
    default:
      return "a kernel that ran before may have failed, since its errors show up in later calls; "
             "AMD_LOG_LEVEL=3 shows what HIP did";
  }
}

void check(const hip::Api& api, int error, const std::string& call) {
  if (error == hip::kSuccess) return;
  (void)api.GetLastError();  // so that it is not taken for that of a later call
  throw DeviceError(call + " failed with " + words(api, error) + "; " + remedy(error));
}

class HipGpus final : public GpuRuntime {
 public:
  DeviceKind kind() const noexcept override { return DeviceKind::hip; }
  const char* name() const noexcept override { return "HIP runtime"; }
  const char* short_name() const noexcept override { return "HIP"; }
  const char* why_not() const noexcept override { return hip::why_not(); }

  std::vector<Device> list(std::string* why) const override {
    const std::string shows_none =
        std::string("the HIP runtime (") + hip::runtime_path() + ") shows no device";
    int count = 0;
    if (const int error = api().GetDeviceCount(&count); error != hip::kSuccess) {
      (void)api().GetLastError();
      *why =
          shows_none + ": hipGetDeviceCount returned " + words(api(), error) + "; " + remedy(error);
      return {};
    }
    if (count <= 0) *why = shows_none + "; " + remedy(hip::kErrorNoDevice);
    std::vector<Device> devices;
    for (int i = 0; i < count; ++i) devices.push_back(describe(i));
    return devices;
  }

  bool enter(int device, void** before) const override {
    int current = 0;
    check(api(), api().GetDevice(&current), "hipGetDevice");
    if (current == index_of_device(device)) return false;
    check(api(), api().SetDevice(index_of_device(device)),
          "hipSetDevice to " + device_text(device));
    *before = reinterpret_cast<void*>(static_cast<std::intptr_t>(current));
    return true;
  }
  void leave(void* before) const noexcept override {
    // Was current, so it can be again.
    (void)api().SetDevice(static_cast<int>(reinterpret_cast<std::intptr_t>(before)));
  }

  void* allocate(std::size_t bytes, int device) const override {
    void* memory = nullptr;
    check(api(), api().Malloc(&memory, bytes), sized("hipMalloc", bytes, device));
    return memory;
  }
  void free(void* memory) const noexcept override { (void)api().Free(memory); }
  void copy(void* to, const void* from, std::size_t bytes, Copy kind, int device) const override {
    check(api(), api().Memcpy(to, from, bytes, static_cast<int>(kind)),
          copying("hipMemcpy", bytes, kind, device));
  }
  void copy_async(void* to, const void* from, std::size_t bytes, Copy kind, void* stream,
                  int device) const override {
    check(api(), api().MemcpyAsync(to, from, bytes, static_cast<int>(kind), stream),
          copying("hipMemcpyAsync", bytes, kind, device));
  }
  void fill_async(void* memory, unsigned char value, std::size_t bytes, void* stream,
                  int device) const override {
    check(api(), api().MemsetAsync(memory, value, bytes, stream),
          sized("hipMemsetAsync", bytes, device));
  }
  void synchronize(int device) const override {
    check(api(), api().DeviceSynchronize(), "hipDeviceSynchronize" + on(device));
  }

  void* new_stream(int device) const override {
    void* stream = nullptr;
    check(api(), api().StreamCreateWithFlags(&stream, hip::kStreamNonBlocking),
          "hipStreamCreateWithFlags" + on(device));
    return stream;
  }
  void free_stream(void* stream) const noexcept override { (void)api().StreamDestroy(stream); }
  void wait_for_stream(void* stream, int device, const char* why) const override {
    check(api(), api().StreamSynchronize(stream), "hipStreamSynchronize" + on(device) + why);
  }
  void wait_for_event(void* stream, void* event, int device) const override {
    check(api(), api().StreamWaitEvent(stream, event, 0), "hipStreamWaitEvent" + on(device));
  }
  bool is_capturing(void* stream, int device) const override {
    int status = 0;
    if (api().StreamIsCapturing == nullptr) return false;
    check(api(), api().StreamIsCapturing(stream, &status), "hipStreamIsCapturing" + on(device));
    return status != 0;
  }

  void* new_event(int device) const override {
    void* event = nullptr;
    check(api(), api().EventCreateWithFlags(&event, 0), "hipEventCreateWithFlags" + on(device));
    return event;
  }
  void free_event(void* event) const noexcept override { (void)api().EventDestroy(event); }
  void record(void* event, void* stream, int device) const override {
    check(api(), api().EventRecord(event, stream), "hipEventRecord" + on(device));
  }
  void synchronize_event(void* event, int device) const override {
    check(api(), api().EventSynchronize(event), "hipEventSynchronize" + on(device));
  }
  bool is_done(void* event, int device) const override {
    const int status = api().EventQuery(event);
    if (status == hip::kErrorNotReady) return false;
    check(api(), status, "hipEventQuery" + on(device));
    return true;
  }
  double milliseconds(void* start, void* stop, int device) const override {
    float time = 0;
    check(api(), api().EventElapsedTime(&time, start, stop),
          "hipEventElapsedTime (of events that are recorded and done)" + on(device));
    return time;
  }

 private:
  static const hip::Api& api() noexcept { return *hip::api(); }

  static Device describe(int index) {
    const auto properties = std::make_unique<hip::DeviceProperties>();
    std::memset(properties.get(), 0, sizeof *properties);
    check(api(), api().GetDeviceProperties(properties.get(), index),
          "hipGetDeviceProperties of device " + std::to_string(index));
    properties->name[sizeof properties->name - 1] = '\0';
    properties->arch[sizeof properties->arch - 1] = '\0';
    const std::string target = properties->arch;
    return {index,
            properties->name,
            target.substr(0, target.find(':')),
            target,
            properties->compute_units,
            properties->wave_size,
            properties->total_memory,
            DeviceKind::hip,
            device_number(DeviceKind::hip, index)};
  }
};

}  // namespace

const GpuRuntime& hip_gpus() {
  static const HipGpus gpus;
  return gpus;
}

}  // namespace ckdisp::detail
