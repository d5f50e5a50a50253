// What every launcher does: it finds the kernels of a unit on a device, and starts them.
#pragma once

#include "module.hpp"
#include "parts.hpp"

namespace ckdisp::tile {

// Set by the unit of the key: where its code is.
template <class Key>
struct CodeOf;

struct Grid {
  unsigned x, y, z;
};

namespace {

// The HIP runtime, if it can be asked to use the device of `launch`; null with a refusal.
inline const hip::Api* usable(const Launch& launch, Refusal* refusal) {
  const hip::Api* const api = hip::api();
  if (api == nullptr) {
    refuse(refusal, Reason::device, "%s", hip::why_not());
    return nullptr;
  }
  if (launch.device < 0 || launch.device >= kMaxDevices) {
    refuse(refusal, Reason::device, "%d is no index of a HIP device; it is 0 to %d",
           static_cast<int>(launch.device), kMaxDevices - 1);
    return nullptr;
  }
  return api;
}

inline bool pointer_fits(const char* name, const void* pointer, std::size_t bytes,
                         Refusal* refusal) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address != 0 && address % bytes == 0) return true;
  return refuse(refusal, Reason::alignment,
                "%s is at %p, the kernel needs a multiple of %zu that is not 0", name, pointer,
                bytes);
}

template <class Args>
bool start(const hip::Api& api, void* function, const Grid& grid, unsigned block, const Args& args,
           void* stream, Refusal* refusal) {
  std::size_t size = sizeof args;
  // HIP_LAUNCH_PARAM_BUFFER_POINTER, ..._SIZE, ..._END; the arguments are copied.
  void* extra[] = {reinterpret_cast<void*>(1), const_cast<Args*>(&args), reinterpret_cast<void*>(2),
                   &size, reinterpret_cast<void*>(3)};
  const int error = api.ModuleLaunchKernel(function, grid.x, grid.y, grid.z, block, 1, 1,
                                           /*shared_bytes=*/0, stream, nullptr, extra);
  return error == hip::kSuccess ||
         failed(api, refusal, "launching the kernel (hipModuleLaunchKernel)", error);
}

}  // namespace

template <class Key>
struct Functions {
  // The variant `index` of the key on a device; null with a refusal.
  static void* of_variant(const hip::Api& api, std::size_t index, int device, Refusal* refusal) {
    return find(api, &variants[index][device], device, refusal, [&] {
      const Variant variant = Variants<Key>::at(index);
      return kernel_name(CodeOf<Key>::value.key, variant.hot_loop, static_cast<int>(variant.tail),
                         variant.atomic);
    });
  }

  // The function in `slot`, else that called name(). Nothing is locked once it was found.
  template <class Name>
  static void* find(const hip::Api& api, void** slot, int device, Refusal* refusal,
                    const Name& name) {
    void* function = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (function != nullptr) return function;
    void* const module = module_of(api, CodeOf<Key>::value, device, refusal);
    if (module == nullptr) return nullptr;
    if (const int error = api.ModuleGetFunction(&function, module, name().c_str());
        error != hip::kSuccess) {
      failed(api, refusal, "finding the kernel in its code object (hipModuleGetFunction)", error);
      return nullptr;
    }
    __atomic_store_n(slot, function, __ATOMIC_RELEASE);
    return function;
  }

 private:
  static inline constinit void* variants[Variants<Key>::count][kMaxDevices] = {};
};

}  // namespace ckdisp::tile
