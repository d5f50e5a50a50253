// What the rest of ckdisp asks of the runtime of one kind of GPU: HIP, CUDA.
#pragma once

#include <ckdisp/device.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace ckdisp::detail {

// Calls throw DeviceError when the runtime's call fails, which names that call, its error and what
// to do. But for list(), they are for devices that list() has shown; those that speak of no device
// are for the one that is current. `device` is always a device number.
class GpuRuntime {
 public:
  virtual ~GpuRuntime() = default;

  virtual DeviceKind kind() const noexcept = 0;
  virtual const char* name() const noexcept = 0;        // "HIP runtime"
  virtual const char* short_name() const noexcept = 0;  // "HIP"
  // Loads the runtime, if it is not; why it cannot be used, empty when it can.
  virtual const char* why_not() const noexcept = 0;
  // The devices that the runtime shows. None: `why` says why.
  virtual std::vector<Device> list(std::string* why) const = 0;

  // Makes a device current in this thread. False when it was; else leave() puts back what was.
  virtual bool enter(int device, void** before) const = 0;
  virtual void leave(void* before) const noexcept = 0;

  virtual void* allocate(std::size_t bytes, int device) const = 0;
  virtual void free(void* memory) const noexcept = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes, Copy kind, int device) const = 0;
  virtual void copy_async(void* to, const void* from, std::size_t bytes, Copy kind, void* stream,
                          int device) const = 0;
  virtual void fill_async(void* memory, unsigned char value, std::size_t bytes, void* stream,
                          int device) const = 0;
  virtual void synchronize(int device) const = 0;

  virtual void* new_stream(int device) const = 0;
  virtual void free_stream(void* stream) const noexcept = 0;
  // `why`: what the work is waited for, behind the name of the call; may be empty.
  virtual void wait_for_stream(void* stream, int device, const char* why) const = 0;
  virtual void wait_for_event(void* stream, void* event, int device) const = 0;
  // Whether what is put on the stream becomes part of a graph and does not run now.
  virtual bool is_capturing(void* stream, int device) const = 0;

  virtual void* new_event(int device) const = 0;
  virtual void free_event(void* event) const noexcept = 0;
  virtual void record(void* event, void* stream, int device) const = 0;
  virtual void synchronize_event(void* event, int device) const = 0;
  virtual bool is_done(void* event, int device) const = 0;
  virtual double milliseconds(void* start, void* stop, int device) const = 0;
};

const GpuRuntime& hip_gpus();
const GpuRuntime& cuda_gpus();

}  // namespace ckdisp::detail
