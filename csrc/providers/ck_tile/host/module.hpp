// Code objects and kernels on devices: loaded on first use, then found without a lock.
#pragma once

#include <cstring>
#include <mutex>
#include <string>

#include "../../../device/hip_api.hpp"
#include "../../signature.hpp"

namespace ckdisp::tile {

// What the object of one kernel holds: see embed.S.
struct Code {
  const unsigned char* image;
  void** modules;   // kMaxDevices modules of the image, null until loaded
  const char* key;  // name of the key's type
};

namespace {

inline bool failed(const hip::Api& api, Refusal* refusal, const char* what, int error) {
  const char* name = api.GetErrorName(error);
  const char* text = api.GetErrorString(error);
  api.GetLastError();  // the runtime keeps it for the next caller to ask
  return refuse(refusal, Reason::failed, "%s failed with %s (%d): %s", what,
                name != nullptr ? name : "an unknown error", error, text != nullptr ? text : "");
}

// The module of `code` on the current device, whose index is `device`; null with a refusal.
inline void* module_of(const hip::Api& api, const Code& code, int device, Refusal* refusal) {
  void** const slot = &code.modules[device];
  void* module = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
  if (module != nullptr) return module;
  static constinit std::mutex mutex;
  const std::lock_guard lock(mutex);
  module = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
  if (module != nullptr) return module;
  if (const int error = api.ModuleLoadData(&module, code.image); error != hip::kSuccess) {
    failed(api, refusal, "loading the code object (hipModuleLoadData)", error);
    return nullptr;
  }
  // Units of other objects have another mutex, and kernels of a group share their module.
  void* other = nullptr;
  if (!__atomic_compare_exchange_n(slot, &other, module, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    api.ModuleUnload(module);
    module = other;
  }
  return module;
}

// The mangled name of ckdisp_run<key, hot_loop, tail, atomic>: see run.hpp.
inline std::string kernel_name(const char* key, bool hot_loop, int tail, bool atomic) {
  const auto flag = [](bool value) { return value ? "Lb1E" : "Lb0E"; };
  return "_Z10ckdisp_runI" + std::to_string(std::strlen(key)) + key + flag(hot_loop) + "Li" +
         std::to_string(tail) + "E" + flag(atomic) + "EvN6ckdisp4tile6KernelIT_E4ArgsE";
}

// The mangled name of ckdisp_convert<key>.
inline std::string convert_name(const char* key) {
  return "_Z14ckdisp_convertI" + std::to_string(std::strlen(key)) + key +
         "EvN6ckdisp4tile7ConvertIT_E4ArgsE";
}

}  // namespace
}  // namespace ckdisp::tile
