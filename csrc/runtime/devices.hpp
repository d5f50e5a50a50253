// The devices of all runtimes as the rest of ckdisp uses them: looked up once, by number.
#pragma once

#include <ckdisp/abi.hpp>
#include <ckdisp/device.hpp>

#include <optional>
#include <string>
#include <vector>

#include "gpu_runtime.hpp"

namespace ckdisp::detail {

struct DeviceRecord {
  Device facts;
  std::optional<Arch> arch;  // none for one that the arch table lacks
};

struct DeviceList {
  std::vector<DeviceRecord> devices;
  std::string what;  // "no HIP runtime", "no device" or the like; empty when there are devices
  std::string why;   // the same at length, with what to do
};

// What is here of one kind. Asks the runtime until there are devices, which then stay the same.
DeviceList device_list(DeviceKind kind);
// The same of all `kinds`.
DeviceList device_list(const std::vector<DeviceKind>& kinds);
// Throws DeviceError when the device is not here.
const DeviceRecord& device_record(int device);
// "device 0 is gfx942, CUDA device 0 is sm_90a".
std::string listing(const std::vector<DeviceRecord>& devices);

// The runtime of a kind; throws DeviceError when there is none, or none after a fork.
const GpuRuntime& runtime_of(DeviceKind kind);
// That of the kind of a device.
const GpuRuntime& runtime_of(int device);
// The same for destructors: null instead.
const GpuRuntime* live_runtime(int device) noexcept;

// Makes a device current in this thread for as long as the object lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  const GpuRuntime* operator->() const { return &runtime_; }

 private:
  const GpuRuntime& runtime_;
  void* before_ = nullptr;  // what to go back to
  bool changed_ = false;
};

// Whether code built for `features` (null, or ":xnack-:sramecc+") runs on `target`, an arch with
// its features. A feature that `target` leaves open is off when `exact`, else anything goes.
bool features_fit(const char* features, const std::string& target, bool exact);

}  // namespace ckdisp::detail
