// The HIP runtime as the rest of ckdisp uses it: every call checked, the devices looked up once.
#pragma once

#include <ckdisp/abi.hpp>
#include <ckdisp/device.hpp>

#include <optional>
#include <string>
#include <vector>

#include "../device/hip_api.hpp"

namespace ckdisp::detail {

struct DeviceRecord {
  Device facts;
  std::optional<Arch> arch;  // none for one that the arch table lacks
};

struct DeviceList {
  std::vector<DeviceRecord> devices;
  const char* what;  // "no HIP runtime", "no device" or the like; empty when there are devices
  std::string why;   // the same at length, with what to do
};

// What is here. Asks HIP until there are devices, which then stay the same.
DeviceList device_list();
// Throws DeviceError when the device is not here.
const DeviceRecord& device_record(int index);
// "device 0 is gfx942, device 1 is gfx942".
std::string listing(const std::vector<DeviceRecord>& devices);

// The runtime's functions; throws DeviceError when there is no runtime, or none after a fork.
const hip::Api& hip_runtime();
// The same for destructors: null instead.
const hip::Api* live_runtime() noexcept;
// Throws DeviceError when `error` is one; `call` says what failed ("hipFree", or more words).
void check_hip(const hip::Api& api, int error, const std::string& call);

// Makes a device current in this thread for as long as the object lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  const hip::Api& api() const { return api_; }

 private:
  const hip::Api& api_;
  int before_ = -1;  // what to go back to; -1 when nothing changed
};

// Whether code built for `features` (null, or ":xnack-:sramecc+") runs on `target`, an arch with
// its features. A feature that `target` leaves open is off when `exact`, else anything goes.
bool features_fit(const char* features, const std::string& target, bool exact);

}  // namespace ckdisp::detail
