// The public classes of devices: thin, with every call checked.
#include <ckdisp/device.hpp>
#include <ckdisp/errors.hpp>

#include <iterator>
#include <string>
#include <utility>

#include "devices.hpp"

namespace ckdisp {

using detail::CurrentDevice;

namespace {

detail::DeviceList all_devices() {
  return detail::device_list({std::begin(kDeviceKinds), std::end(kDeviceKinds)});
}

}  // namespace

std::vector<Device> devices() {
  std::vector<Device> out;
  for (detail::DeviceRecord& record : all_devices().devices) {
    out.push_back(std::move(record.facts));
  }
  return out;
}

std::string why_no_devices() { return all_devices().why; }

Device device(int number) { return detail::device_record(number).facts; }

DeviceMemory::DeviceMemory(std::size_t bytes, int device) : bytes_(bytes), device_(device) {
  const CurrentDevice current(device);
  if (bytes != 0) data_ = current->allocate(bytes, device);
}

// Destructors cannot report: an error that stands shows up in the next checked call.
DeviceMemory::~DeviceMemory() {
  const auto* runtime = data_ != nullptr ? detail::live_runtime(device_) : nullptr;
  if (runtime != nullptr) runtime->free(data_);
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
  handle_ = current->new_stream(device);
}

Stream::~Stream() {
  const auto* runtime = handle_ != nullptr ? detail::live_runtime(device_) : nullptr;
  if (runtime != nullptr) runtime->free_stream(handle_);
}

Stream::Stream(Stream&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), device_(other.device_) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(device_, other.device_);
  return *this;
}

void Stream::synchronize() const { synchronize_stream(handle_, device_); }

void Stream::wait(const Event& event) const {
  CurrentDevice(device_)->wait_for_event(handle_, event.handle(), device_);
}

Event::Event(int device) : device_(device) {
  const CurrentDevice current(device);
  handle_ = current->new_event(device);
}

Event::~Event() {
  const auto* runtime = handle_ != nullptr ? detail::live_runtime(device_) : nullptr;
  if (runtime != nullptr) runtime->free_event(handle_);
}

Event::Event(Event&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), device_(other.device_) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(device_, other.device_);
  return *this;
}

void Event::record(void* stream) const { CurrentDevice(device_)->record(handle_, stream, device_); }

void Event::synchronize() const { CurrentDevice(device_)->synchronize_event(handle_, device_); }

bool Event::done() const { return CurrentDevice(device_)->is_done(handle_, device_); }

double Event::milliseconds(const Event& start, const Event& stop) {
  return CurrentDevice(start.device_)->milliseconds(start.handle_, stop.handle_, start.device_);
}

void copy(void* to, const void* from, std::size_t bytes, Copy kind, int device) {
  CurrentDevice(device)->copy(to, from, bytes, kind, device);
}

void copy_async(void* to, const void* from, std::size_t bytes, Copy kind, void* stream,
                int device) {
  CurrentDevice(device)->copy_async(to, from, bytes, kind, stream, device);
}

void fill_async(void* memory, unsigned char value, std::size_t bytes, void* stream, int device) {
  CurrentDevice(device)->fill_async(memory, value, bytes, stream, device);
}

void synchronize(int device) { CurrentDevice(device)->synchronize(device); }

void synchronize_stream(void* stream, int device) {
  CurrentDevice(device)->wait_for_stream(stream, device, "");
}

void order_streams(void* earlier, void* later, int device) {
  const Event event(device);
  event.record(earlier);
  CurrentDevice(device)->wait_for_event(later, event.handle(), device);
}

}  // namespace ckdisp
