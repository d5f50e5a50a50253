// Words that the runtimes of all kinds of GPUs use in their messages.
#pragma once

#include <ckdisp/device.hpp>

#include <string>

#include "gpu_runtime.hpp"

namespace ckdisp::detail {

inline std::string on(int device) { return " on " + device_text(device); }

inline std::string sized(const char* call, std::size_t bytes, int device) {
  return std::string(call) + " of " + std::to_string(bytes) + " bytes" + on(device);
}

inline std::string copying(const char* call, std::size_t bytes, Copy kind, int device) {
  const char* where = kind == Copy::host_to_device   ? "to the device"
                      : kind == Copy::device_to_host ? "to the host"
                                                     : "within the device";
  return std::string(call) + " of " + std::to_string(bytes) + " bytes " + where + on(device);
}

// "hipErrorFake (2): made up"; names and texts may be null.
inline std::string error_text(const char* name, int error, const char* text) {
  return std::string(name != nullptr ? name : "an unknown error") + " (" + std::to_string(error) +
         "): " + (text != nullptr ? text : "no description");
}

}  // namespace ckdisp::detail
