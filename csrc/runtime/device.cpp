// The public classes of devices: thin, with every call checked.
#include <ckdisp/device.hpp>
#include <ckdisp/errors.hpp>

#include <string>
#include <utility>

#include "hip.hpp"

namespace ckdisp {

using detail::check_hip;
using detail::CurrentDevice;

namespace {

std::string on(int device) { return " on device " + std::to_string(device); }

const char* copy_text(Copy kind) {
  switch (kind) {
    case Copy::host_to_device:
      return "to the device";
    case Copy::device_to_host:
      return "to the host";
    default:
      return "within the device";
  }
}

std::string copy_call(const char* call, std::size_t bytes, Copy kind, int device) {
  return std::string(call) + " of " + std::to_string(bytes) + " bytes " + copy_text(kind) +
         on(device);
}

}  // namespace

std::vector<Device> devices() {
  std::vector<Device> out;
  for (detail::DeviceRecord& record : detail::device_list().devices) {
    out.push_back(std::move(record.facts));
  }
  return out;
}

std::string why_no_devices() { return detail::device_list().why; }

Device device(int index) { return detail::device_record(index).facts; }

DeviceMemory::DeviceMemory(std::size_t bytes, int device) : bytes_(bytes), device_(device) {
  const CurrentDevice current(device);
  if (bytes == 0) return;
  check_hip(current.api(), current.api().Malloc(&data_, bytes),
            "hipMalloc of " + std::to_string(bytes) + " bytes" + on(device));
}

// Destructors cannot report: an error that stands shows up in the next checked call.
DeviceMemory::~DeviceMemory() {
  const hip::Api* api = data_ != nullptr ? detail::live_runtime() : nullptr;
  if (api != nullptr) (void)api->Free(data_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      device_(other.device_) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

Stream::Stream(int device) : device_(device) {
  const CurrentDevice current(device);
  check_hip(current.api(), current.api().StreamCreateWithFlags(&handle_, hip::kStreamNonBlocking),
            "hipStreamCreateWithFlags" + on(device));
}

Stream::~Stream() {
  const hip::Api* api = handle_ != nullptr ? detail::live_runtime() : nullptr;
  if (api != nullptr) (void)api->StreamDestroy(handle_);
}

Stream::Stream(Stream&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), device_(other.device_) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(device_, other.device_);
  return *this;
}

void Stream::synchronize() const {
  const CurrentDevice current(device_);
  check_hip(current.api(), current.api().StreamSynchronize(handle_),
            "hipStreamSynchronize" + on(device_));
}

void Stream::wait(const Event& event) const {
  const CurrentDevice current(device_);
  check_hip(current.api(), current.api().StreamWaitEvent(handle_, event.handle(), 0),
            "hipStreamWaitEvent" + on(device_));
}

Event::Event(int device) : device_(device) {
  const CurrentDevice current(device);
  check_hip(current.api(), current.api().EventCreateWithFlags(&handle_, 0),
            "hipEventCreateWithFlags" + on(device));
}

Event::~Event() {
  const hip::Api* api = handle_ != nullptr ? detail::live_runtime() : nullptr;
  if (api != nullptr) (void)api->EventDestroy(handle_);
}

Event::Event(Event&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), device_(other.device_) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(device_, other.device_);
  return *this;
}

void Event::record(void* stream) const {
  const CurrentDevice current(device_);
  check_hip(current.api(), current.api().EventRecord(handle_, stream),
            "hipEventRecord" + on(device_));
}

void Event::synchronize() const {
  const CurrentDevice current(device_);
  check_hip(current.api(), current.api().EventSynchronize(handle_),
            "hipEventSynchronize" + on(device_));
}

bool Event::done() const {
  const CurrentDevice current(device_);
  const int status = current.api().EventQuery(handle_);
  if (status == hip::kErrorNotReady) return false;
  check_hip(current.api(), status, "hipEventQuery" + on(device_));
  return true;
}

double Event::milliseconds(const Event& start, const Event& stop) {
  const CurrentDevice current(start.device_);
  float time = 0;
  check_hip(current.api(), current.api().EventElapsedTime(&time, start.handle_, stop.handle_),
            "hipEventElapsedTime (of events that are recorded and done)" + on(start.device_));
  return time;
}

void copy(void* to, const void* from, std::size_t bytes, Copy kind, int device) {
  const CurrentDevice current(device);
  check_hip(current.api(), current.api().Memcpy(to, from, bytes, static_cast<int>(kind)),
            copy_call("hipMemcpy", bytes, kind, device));
}

void copy_async(void* to, const void* from, std::size_t bytes, Copy kind, void* stream,
                int device) {
  const CurrentDevice current(device);
  check_hip(current.api(),
            current.api().MemcpyAsync(to, from, bytes, static_cast<int>(kind), stream),
            copy_call("hipMemcpyAsync", bytes, kind, device));
}

void fill_async(void* memory, unsigned char value, std::size_t bytes, void* stream, int device) {
  const CurrentDevice current(device);
  check_hip(current.api(), current.api().MemsetAsync(memory, value, bytes, stream),
            "hipMemsetAsync of " + std::to_string(bytes) + " bytes" + on(device));
}

void synchronize(int device) {
  const CurrentDevice current(device);
  check_hip(current.api(), current.api().DeviceSynchronize(), "hipDeviceSynchronize" + on(device));
}

}  // namespace ckdisp
