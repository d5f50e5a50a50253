#include "devices.hpp"

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

namespace ckdisp::detail {
namespace {

// What is known of the devices of one kind.
struct Known {
  // Once the runtime has shown some. Never freed: kernels may run while the process ends.
  std::atomic<const std::vector<DeviceRecord>*> devices{nullptr};
  std::atomic<bool> left_behind_by_fork{false};
  std::mutex mutex;
};

Known& known(DeviceKind kind) {
  static Known all[std::size(kDeviceKinds)];
  return all[static_cast<std::size_t>(kind)];
}

const GpuRuntime& gpus(DeviceKind kind) {
  return kind == DeviceKind::hip ? hip_gpus() : cuda_gpus();
}

std::string forked(DeviceKind kind) {
  return std::string("this process was made by fork() after its parent had used a GPU, and ") +
         gpus(kind).short_name() +
         " does not work in such a process; start it by another method (multiprocessing: "
         "'spawn'), or fork before the first use of a GPU";
}

void watch_device_forks() {
  const auto in_child = [] {
    for (const DeviceKind kind : kDeviceKinds) {
      if (known(kind).devices.load() != nullptr) known(kind).left_behind_by_fork = true;
    }
  };
  static const int registered = ::pthread_atfork(nullptr, nullptr, in_child);
  (void)registered;  // without memory for it, forks go unnoticed
}

DeviceRecord record_of(Device device) {
  DeviceRecord out{std::move(device), std::nullopt};
  for (std::size_t i = 0; i < EnumNames<Arch>::size; ++i) {
    if (out.facts.arch == EnumNames<Arch>::values[i]) out.arch = static_cast<Arch>(i);
  }
  return out;
}

DeviceList found(DeviceKind kind, const std::vector<DeviceRecord>& devices) {
  if (known(kind).left_behind_by_fork) return {{}, "no device after fork()", forked(kind)};
  return {devices, "", ""};
}

}  // namespace

DeviceList device_list(DeviceKind kind) {
  Known& here = known(kind);
  if (const auto* devices = here.devices.load()) return found(kind, *devices);
  const std::lock_guard lock(here.mutex);
  if (const auto* devices = here.devices.load()) return found(kind, *devices);
  const GpuRuntime& runtime = gpus(kind);
  if (*runtime.why_not() != '\0') {
    return {{}, std::string("no ") + runtime.name(), runtime.why_not()};
  }
  std::string why;
  auto devices = std::make_unique<std::vector<DeviceRecord>>();
  try {
    for (Device& device : runtime.list(&why)) devices->push_back(record_of(std::move(device)));
  } catch (const DeviceError& error) {
    return {{}, "no device that answers", error.what()};
  }
  if (devices->empty()) return {{}, "no device", why};
  watch_device_forks();
  here.devices = devices.get();
  return found(kind, *devices.release());
}

DeviceList device_list(const std::vector<DeviceKind>& kinds) {
  DeviceList all;
  for (const DeviceKind kind : kinds) {
    DeviceList some = device_list(kind);
    all.devices.insert(all.devices.end(), some.devices.begin(), some.devices.end());
    if (some.devices.empty()) {
      all.what += (all.what.empty() ? "" : ", ") + some.what;
      all.why += (all.why.empty() ? "" : "; ") + some.why;
    }
  }
  if (!all.devices.empty()) all.what = all.why = "";
  return all;
}

std::string listing(const std::vector<DeviceRecord>& devices) {
  std::string text;
  for (const DeviceRecord& device : devices) {
    text += std::string(text.empty() ? "" : ", ") + device_text(device.facts.number) + " is " +
            device.facts.arch;
  }
  return text;
}

const DeviceRecord& device_record(int device) {
  const DeviceKind kind = kind_of_device(device);
  const std::string none = "there is no " + device_text(device) + ": ";
  const auto* devices = known(kind).devices.load();
  if (devices == nullptr) {
    const DeviceList list = device_list(kind);
    devices = known(kind).devices.load();
    if (devices == nullptr) throw DeviceError(none + list.why);
  }
  if (known(kind).left_behind_by_fork) throw DeviceError(forked(kind));
  const int index = index_of_device(device);
  if (index >= 0 && static_cast<std::size_t>(index) < devices->size()) {
    return (*devices)[static_cast<std::size_t>(index)];
  }
  throw DeviceError(none + listing(*devices) + "; pass the index of one that is here");
}

const GpuRuntime& runtime_of(DeviceKind kind) {
  if (known(kind).left_behind_by_fork) throw DeviceError(forked(kind));
  const GpuRuntime& runtime = gpus(kind);
  if (*runtime.why_not() != '\0') {
    throw DeviceError(std::string("no device can be used: ") + runtime.why_not());
  }
  return runtime;
}

const GpuRuntime& runtime_of(int device) { return runtime_of(kind_of_device(device)); }

const GpuRuntime* live_runtime(int device) noexcept {
  const DeviceKind kind = kind_of_device(device);
  return known(kind).left_behind_by_fork || *gpus(kind).why_not() != '\0' ? nullptr : &gpus(kind);
}

CurrentDevice::CurrentDevice(int device) : runtime_(runtime_of(device)) {
  (void)device_record(device);
  changed_ = runtime_.enter(device, &before_);
}

CurrentDevice::~CurrentDevice() {
  if (changed_) runtime_.leave(before_);
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

namespace ckdisp {

std::string device_text(int number) {
  const DeviceKind kind = kind_of_device(number);
  const std::string text = "device " + std::to_string(index_of_device(number));
  return kind == DeviceKind::hip ? text : std::string(detail::gpus(kind).short_name()) + " " + text;
}

}  // namespace ckdisp
