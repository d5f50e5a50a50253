// Scratch memory on devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace ckdisp::detail {

// The scratch memory of one stream: work on a stream runs in order, so its calls can share memory.
// Held locked while a call puts its work on the stream, so that no other comes in between.
class DeviceWorkspace {
 public:
  // Takes the workspace of the stream; `device` is current. Throws DeviceError without memory.
  DeviceWorkspace(int device, void* stream, std::uint64_t bytes);

  void* data() const { return data_; }

 private:
  std::unique_lock<std::mutex> lock_;
  void* data_;
};

}  // namespace ckdisp::detail
