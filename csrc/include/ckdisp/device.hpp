// GPUs: what is here, memory, copies, streams and events. C++17.
//
// AMD GPUs are used through the HIP runtime, NVIDIA GPUs through the CUDA driver; each is loaded by
// the first of these calls that needs it and never before. A machine may have either, both or none.
// Each call to them is checked: DeviceError names the call, its error and what to do. A process
// made by fork() after its parent had used a device cannot use one of its kind, and the error says
// so.
//
// Where a function takes a device, it is a device number: see device_kind.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <ckdisp/device_kind.hpp>

namespace ckdisp {

struct Device {
  int index;           // that of its runtime
  std::string name;    // "AMD Instinct MI300X"
  std::string arch;    // "gfx942", "sm_90a"
  std::string target;  // the arch with its features: "gfx942:sramecc+:xnack-"
  int compute_units;   // NVIDIA: multiprocessors
  int wave_size;       // NVIDIA: threads of a warp
  std::uint64_t memory_bytes;
  DeviceKind kind;
  int number;  // what calls take
};

// The devices that HIP and CUDA show to this process, AMD GPUs first.
std::vector<Device> devices();
// Why devices() is empty, in words; empty when it is not.
std::string why_no_devices();
// Throws DeviceError that says which devices there are, or why there is none.
Device device(int number);
// A device as messages name it: "device 1", "CUDA device 0".
std::string device_text(int number);

// Memory of one device, freed when the object goes. Freeing waits for work that uses the memory.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes, int device = 0);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  int device() const { return device_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = 0;
};

class Event;

// A queue of work on one device. It does not wait for the default stream.
class Stream {
 public:
  explicit Stream(int device = 0);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;

  void* handle() const { return handle_; }  // for Launch::stream; a hipStream_t or CUstream
  int device() const { return device_; }
  // Until all work put here so far is done; throws when some of it failed.
  void synchronize() const;
  // Later work of this stream comes after the event.
  void wait(const Event& event) const;

 private:
  void* handle_ = nullptr;
  int device_ = 0;
};

// A point in a stream's work, with its time.
class Event {
 public:
  explicit Event(int device = 0);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  void* handle() const { return handle_; }  // a hipEvent_t or CUevent
  int device() const { return device_; }
  // Behind the work that `stream`, the handle of one of the device, holds now.
  void record(void* stream = nullptr) const;
  void synchronize() const;
  bool done() const;
  // Between two recorded events that are done.
  static double milliseconds(const Event& start, const Event& stop);

 private:
  void* handle_ = nullptr;
  int device_ = 0;
};

enum class Copy { host_to_device = 1, device_to_host = 2, device_to_device = 3 };

// Copies and returns when it is done.
void copy(void* to, const void* from, std::size_t bytes, Copy kind, int device = 0);
// Puts a copy on `stream`. Host memory must stay as it is until the stream is done.
void copy_async(void* to, const void* from, std::size_t bytes, Copy kind, void* stream,
                int device = 0);
// Puts a memset on `stream`.
void fill_async(void* memory, unsigned char value, std::size_t bytes, void* stream, int device = 0);
// Until all work of a device is done; throws when some of it failed.
void synchronize(int device = 0);
// The same for one stream, by its handle; null is the default stream.
void synchronize_stream(void* stream, int device = 0);
// Later work of the stream `later` comes after all that `earlier`, another one, holds now.
void order_streams(void* earlier, void* later, int device = 0);

// Frees the scratch memory that dispatchers keep for each stream, after waiting for its use. Good
// before a stream is destroyed, and when memory is short; later calls take new memory.
void free_device_workspaces();

}  // namespace ckdisp
