#include "device_workspace.hpp"

#include <ckdisp/device.hpp>
#include <ckdisp/errors.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "devices.hpp"

namespace ckdisp {
namespace detail {
namespace {

// hipStreamPerThread, CU_STREAM_PER_THREAD: one handle that means another stream in each thread.
void* const kStreamPerThread = reinterpret_cast<void*>(std::uintptr_t{2});

struct Key {
  int device;
  void* stream;
  std::thread::id thread;  // only for the stream of a thread

  bool operator<(const Key& o) const {
    if (device != o.device) return device < o.device;
    if (stream != o.stream) return std::less<>()(stream, o.stream);
    return thread < o.thread;
  }
};

struct Slot {
  std::mutex mutex;
  std::optional<DeviceMemory> memory;
};

struct Slots {
  std::mutex mutex;
  std::map<Key, std::unique_ptr<Slot>> all;
};

// Never freed: work may still run when the process ends, and HIP may be gone before static objects.
Slots& slots() {
  static auto* made = new Slots;
  return *made;
}

Slot& slot_of(int device, void* stream) {
  Key key{device, stream, {}};
  if (stream == kStreamPerThread) key.thread = std::this_thread::get_id();
  const std::lock_guard lock(slots().mutex);
  auto& slot = slots().all[key];
  if (slot == nullptr) slot = std::make_unique<Slot>();
  return *slot;
}

void wait_for(int device, void* stream) {
  runtime_of(device).wait_for_stream(stream, device, ", before its scratch memory changes,");
}

}  // namespace

DeviceWorkspace::DeviceWorkspace(int device, void* stream, std::uint64_t bytes) {
  Slot& slot = slot_of(device, stream);
  lock_ = std::unique_lock(slot.mutex);
  if (!slot.memory || slot.memory->bytes() < bytes) {
    if (runtime_of(device).is_capturing(stream, device)) {
      throw DeviceError("the call needs " + std::to_string(bytes) + " bytes of scratch memory on " +
                        device_text(device) +
                        ", and none can be taken while a graph is captured; make the same call "
                        "once on this stream before the capture");
    }
    if (slot.memory) wait_for(device, stream);  // work that was put there may still use it
    slot.memory.reset();
    slot.memory.emplace(bytes, device);
  }
  data_ = slot.memory->data();
}

}  // namespace detail

void free_device_workspaces() {
  detail::Slots& slots = detail::slots();
  const std::lock_guard all_locked(slots.mutex);
  for (auto& [key, slot] : slots.all) {
    const std::lock_guard locked(slot->mutex);
    if (!slot->memory) continue;
    // Not the stream alone, which may be gone.
    synchronize(key.device);
    slot->memory.reset();
  }
}

}  // namespace ckdisp
