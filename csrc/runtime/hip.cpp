#include "hip.hpp"

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

namespace ckdisp::detail {
namespace {

// The devices once HIP has shown some. Never freed: kernels may run while the process ends.
std::atomic<const std::vector<DeviceRecord>*> known_devices{nullptr};
std::atomic<bool> left_behind_by_fork{false};

constexpr const char* kForked =
    "this process was made by fork() after its parent had used a GPU, and HIP does not work in "
    "such "
    "a process; start it by another method (multiprocessing: 'spawn'), or fork before the first "
    "use "
    "of a GPU";

void watch_forks() {
  const auto in_child = [] {
    if (known_devices.load() != nullptr) left_behind_by_fork = true;
  };
  static const int registered = ::pthread_atfork(nullptr, nullptr, in_child);
  (void)registered;  // without memory for it, forks go unnoticed
}

std::string error_text(const hip::Api& api, int error) {
  const char* name = api.GetErrorName(error);
  const char* text = api.GetErrorString(error);
  return std::string(name != nullptr ? name : "an unknown error") + " (" + std::to_string(error) +
         "): " + (text != nullptr ? text : "no description");
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

DeviceRecord describe(const hip::Api& api, int index) {
  const auto properties = std::make_unique<hip::DeviceProperties>();
  std::memset(properties.get(), 0, sizeof *properties);
  check_hip(api, api.GetDeviceProperties(properties.get(), index),
            "hipGetDeviceProperties of device " + std::to_string(index));
  properties->name[sizeof properties->name - 1] = '\0';
  properties->arch[sizeof properties->arch - 1] = '\0';
  const std::string target = properties->arch;
  DeviceRecord out{{index, properties->name, target.substr(0, target.find(':')), target,
                    properties->compute_units, properties->wave_size, properties->total_memory},
                   std::nullopt};
  for (std::size_t i = 0; i < EnumNames<Arch>::size; ++i) {
    if (out.facts.arch == EnumNames<Arch>::values[i]) out.arch = static_cast<Arch>(i);
  }
  return out;
}

DeviceList found(const std::vector<DeviceRecord>& devices) {
  if (left_behind_by_fork) return {{}, "no device after fork()", kForked};
  return {devices, "", ""};
}

}  // namespace

DeviceList device_list() {
  if (const auto* devices = known_devices.load()) return found(*devices);
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const auto* devices = known_devices.load()) return found(*devices);
  const hip::Api* api = hip::api();
  if (api == nullptr) return {{}, "no HIP runtime", hip::why_not()};
  int count = 0;
  if (const int error = api->GetDeviceCount(&count); error != hip::kSuccess) {
    (void)api->GetLastError();  // so that it is not taken for that of a later call
    return {{},
            "no device",
            std::string("the HIP runtime (") + hip::runtime_path() +
                ") shows no device: hipGetDeviceCount returned " + error_text(*api, error) + "; " +
                remedy(error)};
  }
  if (count <= 0) {
    return {{},
            "no device",
            std::string("the HIP runtime (") + hip::runtime_path() + ") shows no device; " +
                remedy(hip::kErrorNoDevice)};
  }
  auto devices = std::make_unique<std::vector<DeviceRecord>>();
  try {
    for (int i = 0; i < count; ++i) devices->push_back(describe(*api, i));
  } catch (const DeviceError& error) {
    return {{}, "no device that answers", error.what()};
  }
  watch_forks();
  known_devices = devices.get();
  return found(*devices.release());
}

std::string listing(const std::vector<DeviceRecord>& devices) {
  std::string text;
  for (const DeviceRecord& device : devices) {
    text += std::string(text.empty() ? "" : ", ") + "device " + std::to_string(device.facts.index) +
            " is " + device.facts.arch;
  }
  return text;
}

const DeviceRecord& device_record(int index) {
  const auto* devices = known_devices.load();
  if (devices == nullptr) {
    const DeviceList list = device_list();
    devices = known_devices.load();
    if (devices == nullptr) {
      throw DeviceError("there is no device " + std::to_string(index) + ": " + list.why);
    }
  }
  if (left_behind_by_fork) throw DeviceError(kForked);
  if (index >= 0 && static_cast<std::size_t>(index) < devices->size()) {
    return (*devices)[static_cast<std::size_t>(index)];
  }
  throw DeviceError("there is no device " + std::to_string(index) + ": " + listing(*devices) +
                    "; pass the index of one that is here");
}

const hip::Api& hip_runtime() {
  if (left_behind_by_fork) throw DeviceError(kForked);
  const hip::Api* api = hip::api();
  if (api == nullptr) throw DeviceError(std::string("no device can be used: ") + hip::why_not());
  return *api;
}

const hip::Api* live_runtime() noexcept { return left_behind_by_fork ? nullptr : hip::api(); }

void check_hip(const hip::Api& api, int error, const std::string& call) {
  if (error == hip::kSuccess) return;
  (void)api.GetLastError();
  throw DeviceError(call + " failed with " + error_text(api, error) + "; " + remedy(error));
}

CurrentDevice::CurrentDevice(int device) : api_(hip_runtime()) {
  (void)device_record(device);
  int current = 0;
  check_hip(api_, api_.GetDevice(&current), "hipGetDevice");
  if (current == device) return;
  check_hip(api_, api_.SetDevice(device), "hipSetDevice to device " + std::to_string(device));
  before_ = current;
}

CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) (void)api_.SetDevice(before_);  // was current, so it can be again
}

bool features_fit(const char* features, const std::string& target, bool exact) {
  for (const char* at = features; at != nullptr && *at == ':';) {
    const char* end = std::strchr(at + 1, ':');
    const std::string wanted = end != nullptr ? std::string(at, end) : std::string(at);
    const std::string name = wanted.substr(0, wanted.size() - 1);
    const std::size_t place = target.find(name);
    const bool open = place == std::string::npos || place + name.size() >= target.size();
    const char has = open ? '-' : target[place + name.size()];
    if (!(open && !exact) && has != wanted.back()) return false;
    at = end;
  }
  return true;
}

}  // namespace ckdisp::detail
