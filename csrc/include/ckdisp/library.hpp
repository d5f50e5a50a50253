// Kernel libraries and the kernels in them. C++17.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ckdisp/abi.hpp>

namespace ckdisp {

class Library;

namespace detail {
struct LibraryRecord;
struct KernelRecord {
  const ckdisp_kernel* table;
  const LibraryRecord* library;
};
}  // namespace detail

// One kernel: a small value that is always valid, because a library stays loaded for the life of
// the process. (Unloading could pull a thread pool's code from under its sleeping threads.)
class Kernel {
 public:
  explicit Kernel(const detail::KernelRecord* record) : record_(record) {}

  const char* name() const { return record_->table->name; }
  Op op() const { return record_->table->op; }
  // The key of a kernel of that op.
  const GemmKey& gemm_key() const { return *static_cast<const GemmKey*>(record_->table->key); }
  const ConvKey& conv_key() const { return *static_cast<const ConvKey*>(record_->table->key); }
  const FmhaKey& fmha_key() const { return *static_cast<const FmhaKey*>(record_->table->key); }
  // visitor(key) with the key of the kernel's op.
  template <class Visitor>
  decltype(auto) visit_key(Visitor&& visitor) const {
    return op() == Op::gemm   ? visitor(gemm_key())
           : op() == Op::conv ? visitor(conv_key())
                              : visitor(fmha_key());
  }
  Arch arch() const {
    return visit_key([](const auto& key) { return key.arch; });
  }
  const ckdisp_kernel* table() const { return record_->table; }
  const detail::KernelRecord* record() const { return record_; }
  Library library() const;

  // The value of a key field as names write it ("fp16", "256x128x64", "true"); empty when the key
  // has no such field.
  std::optional<std::string> field(std::string_view name) const;
  // The key as a JSON object, equal to Python's KernelKey.to_dict().
  std::string key_json() const;

  friend bool operator==(Kernel a, Kernel b) { return a.table() == b.table(); }
  friend bool operator!=(Kernel a, Kernel b) { return !(a == b); }

 private:
  const detail::KernelRecord* record_;
};

// A loaded kernel library.
class Library {
 public:
  // Loads a shared object. Throws LibraryError when it is missing, unreadable, truncated, no
  // kernel library, of another ABI version or schema, or built for another machine.
  static Library load(const std::string& path);

  // A library that is linked into the program: pass ckdisp_library_<name>(). The table must live
  // as long as the process. Throws LibraryError like load().
  static Library linked(const ckdisp_library* table);

  const std::string& name() const;
  const std::string& path() const;  // empty for a linked library
  const char* build_info() const;   // JSON
  std::vector<Kernel> kernels() const;

  explicit Library(const detail::LibraryRecord* record) : record_(record) {}

 private:
  const detail::LibraryRecord* record_;
};

inline Library Kernel::library() const { return Library(record_->library); }

}  // namespace ckdisp
