// Devices have numbers, by which calls name them: a kind and an index in one. C++17.
#pragma once

#include <cstdint>

namespace ckdisp {

// Whose runtime shows a device.
enum class DeviceKind : std::uint8_t {
  hip,   // AMD GPUs
  cuda,  // NVIDIA GPUs
};
inline constexpr DeviceKind kDeviceKinds[] = {DeviceKind::hip, DeviceKind::cuda};

// Of one kind, at most.
inline constexpr int kMaxDevices = 64;
inline constexpr int kDeviceNumbers = 128;  // of one kind, with those that no device has

// What calls take: HIP's index of an AMD GPU, CUDA's index of an NVIDIA GPU plus 128.
constexpr int device_number(DeviceKind kind, int index) {
  return static_cast<int>(kind) * kDeviceNumbers + index;
}
constexpr DeviceKind kind_of_device(int number) {
  return number < kDeviceNumbers ? DeviceKind::hip : DeviceKind::cuda;
}
// The index by which the runtime of its kind knows a device.
constexpr int index_of_device(int number) {
  return number < kDeviceNumbers ? number : number - kDeviceNumbers;
}

}  // namespace ckdisp
