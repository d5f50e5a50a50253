// Scratch memory of the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

#include <ckdisp/errors.hpp>

namespace ckdisp::detail {

// Grows to the largest request and is kept, so that repeated calls allocate nothing.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { release(); }

  void* at_least(std::uint64_t bytes) {
    if (bytes <= size_) return data_;
    release();
    data_ = ::operator new(bytes, kAlignment, std::nothrow);
    if (data_ == nullptr) {
      throw DeviceError("cannot allocate " + std::to_string(bytes) +
                        " bytes of scratch memory; free memory or use fewer threads");
    }
    size_ = bytes;
    return data_;
  }

  static Workspace& of_thread() {
    thread_local Workspace workspace;
    return workspace;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};

  void release() {
    ::operator delete(data_, kAlignment);
    data_ = nullptr;
    size_ = 0;
  }

  void* data_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace ckdisp::detail
