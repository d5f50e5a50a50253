// Cubins and their kernels on devices: loaded on first use, then found without a lock.
#pragma once

#include <mutex>

#include "../../../device/cuda_api.hpp"
#include "../../signature.hpp"

namespace ckdisp::sm90 {

// What the object of one kernel holds: see embed.S.
struct Code {
  const unsigned char* image;
  void** modules;    // kMaxDevices modules of the image, null until loaded
  const char* name;  // of the kernel in it
};

// Set by the unit of the key: where its code is.
template <class Key>
struct CodeOf;

namespace {

inline bool failed(const cuda::Api& api, Refusal* refusal, const char* what, int error) {
  const char *name = nullptr, *text = nullptr;
  (void)api.GetErrorName(error, &name);
  (void)api.GetErrorString(error, &text);
  return refuse(refusal, Reason::failed, "%s failed with %s (%d): %s", what,
                name != nullptr ? name : "an unknown error", error, text != nullptr ? text : "");
}

// The driver, if it can be asked to use the device of `launch`; null with a refusal.
inline const cuda::Api* usable(const Launch& launch, Refusal* refusal) {
  const cuda::Api* const api = cuda::api();
  if (api == nullptr) {
    refuse(refusal, Reason::device, "%s", cuda::why_not());
    return nullptr;
  }
  if (launch.device < 0 || kind_of_device(launch.device) != DeviceKind::cuda) {
    refuse(refusal, Reason::device, "%d is no number of a CUDA device; these are %d and more",
           static_cast<int>(launch.device), device_number(DeviceKind::cuda, 0));
    return nullptr;
  }
  return api;
}

// The kernel of `code` on the device `index`, which is current, ready for launches with so much
// shared memory; null with a refusal.
inline void* load(const cuda::Api& api, const Code& code, int index, int shared_bytes,
                  Refusal* refusal) {
  static constinit std::mutex mutex;
  const std::lock_guard lock(mutex);
  void*& module = code.modules[index];
  if (module == nullptr) {
    if (const int error = api.ModuleLoadData(&module, code.image); error != cuda::kSuccess) {
      module = nullptr;
      failed(api, refusal, "loading the cubin (cuModuleLoadData)", error);
      return nullptr;
    }
  }
  void* function = nullptr;
  if (const int error = api.ModuleGetFunction(&function, module, code.name);
      error != cuda::kSuccess) {
    failed(api, refusal, "finding the kernel in its cubin (cuModuleGetFunction)", error);
    return nullptr;
  }
  if (const int error =
          api.FuncSetAttribute(function, cuda::kFunctionMaxDynamicSharedBytes, shared_bytes);
      error != cuda::kSuccess) {
    failed(api, refusal, "giving the kernel its shared memory (cuFuncSetAttribute)", error);
    return nullptr;
  }
  return function;
}

}  // namespace
}  // namespace ckdisp::sm90
