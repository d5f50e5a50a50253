#include <ckdisp/errors.hpp>
#include <ckdisp/library.hpp>

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "elf_check.hpp"
#include "key_fields.hpp"
#include "library_record.hpp"

namespace ckdisp {
namespace {

struct FileIdentity {
  dev_t device;
  ino_t inode;
  off_t size;
  timespec modified;

  bool same_file(const FileIdentity& o) const { return device == o.device && inode == o.inode; }
  bool same_content(const FileIdentity& o) const {
    return same_file(o) && size == o.size && modified.tv_sec == o.modified.tv_sec &&
           modified.tv_nsec == o.modified.tv_nsec;
  }
};

struct LoadedFile {
  FileIdentity identity;
  int version = 0;  // how often the file was replaced while this process ran
};

// Every library of the process. Never freed: kernels refer into it.
struct Loaded {
  std::mutex mutex;
  std::map<const ckdisp_library*, std::unique_ptr<detail::LibraryRecord>> by_table;
  std::map<std::string, LoadedFile> by_path;
};

Loaded& loaded() {
  static Loaded* all = new Loaded;
  return *all;
}

std::string hex(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::size_t key_size_of(Op op) {
  switch (op) {
    case Op::gemm:
      return sizeof(GemmKey);
    case Op::conv:
      return sizeof(ConvKey);
    case Op::fmha:
      return sizeof(FmhaKey);
  }
  return 0;
}

bool is_whole(const ckdisp_kernel* kernel) {
  return kernel != nullptr && kernel->size == sizeof(ckdisp_kernel) && kernel->key != nullptr &&
         kernel->key_size != 0 && kernel->key_size == key_size_of(kernel->op) &&
         kernel->name != nullptr && kernel->supports != nullptr && kernel->cost != nullptr &&
         kernel->workspace_size != nullptr && kernel->run != nullptr &&
         (kernel->needs_prepare == nullptr) == (kernel->prepare == nullptr) &&
         (kernel->needs_convert == nullptr) == (kernel->convert == nullptr);
}

// Why the table cannot be used; empty when it can.
std::string table_fault(const ckdisp_library* table) {
  const std::string rebuild = "; rebuild it with this version of ckdisp";
  if (table == nullptr) return "returned no kernel table" + rebuild;
  if (table->magic != kAbiMagic) {
    return "has no kernel table that ckdisp knows (magic " + hex(table->magic) + ", not " +
           hex(kAbiMagic) + ")" + rebuild;
  }
  if (table->abi_version != kAbiVersion) {
    return "was built for binary interface " + std::to_string(table->abi_version) +
           ", this ckdisp has " + std::to_string(kAbiVersion) + rebuild;
  }
  if (table->schema_hash != kSchemaHash) {
    return "was built for another schema of kernel keys (" + hex(table->schema_hash) +
           ", this ckdisp has " + hex(kSchemaHash) + ")" + rebuild;
  }
  if (table->size != sizeof(ckdisp_library) || table->name == nullptr ||
      table->build_info == nullptr || (table->kernel_count > 0 && table->kernels == nullptr)) {
    return "has a damaged kernel table" + rebuild;
  }
  for (std::uint32_t i = 0; i < table->kernel_count; ++i) {
    if (!is_whole(table->kernels[i])) {
      return "has a damaged entry for kernel " + std::to_string(i) + rebuild;
    }
  }
  return "";
}

// The one record of a table. The caller holds the lock.
const detail::LibraryRecord* record_of(const ckdisp_library* table, const std::string& path) {
  auto& slot = loaded().by_table[table];
  if (slot == nullptr) {
    slot = std::make_unique<detail::LibraryRecord>();
    slot->name = table->name;
    slot->path = path;
    slot->table = table;
    slot->kernels.reserve(table->kernel_count);
    for (std::uint32_t i = 0; i < table->kernel_count; ++i) {
      slot->kernels.push_back({table->kernels[i], slot.get()});
    }
  }
  return slot.get();
}

std::string absolute(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real != nullptr ? std::string(real.get()) : path;
}

// The name to hand to dlopen. The loader compares names before files, so a file that replaced one
// we loaded needs a spelling of its path that is new to it.
std::string loader_name(const std::string& path, const FileIdentity& identity) {
  LoadedFile& known = loaded().by_path.try_emplace(path, LoadedFile{identity, 0}).first->second;
  if (!known.identity.same_content(identity)) {
    if (known.identity.same_file(identity)) {
      throw LibraryError("kernel library '" + path +
                         "' was overwritten in place after it was loaded; start a new process, or "
                         "replace the file by renaming a new one over it");
    }
    known.identity = identity;
    ++known.version;
  }
  std::string name = path;
  const std::size_t slash = name.rfind('/');
  if (slash != std::string::npos) {
    for (int i = 0; i < known.version; ++i) name.insert(slash, "/.");
  }
  return name;
}

}  // namespace

Library Library::load(const std::string& given) {
  const std::string path = absolute(given);
  const std::string what = "kernel library '" + path + "' ";
  if (const std::string fault = elf_fault(path); !fault.empty()) throw LibraryError(what + fault);
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) throw LibraryError(what + "cannot be read");
  const FileIdentity identity{status.st_dev, status.st_ino, status.st_size, status.st_mtim};

  Loaded& all = loaded();
  const std::lock_guard lock(all.mutex);
  const std::string name = loader_name(path, identity);
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    throw LibraryError(what + "cannot be loaded: " + (reason != nullptr ? reason : "unknown") +
                       "; rebuild it on this machine");
  }
  const auto entry = reinterpret_cast<ckdisp_kernel_library_fn>(::dlsym(handle, kLibrarySymbol));
  if (entry == nullptr) {
    throw LibraryError(what + "exports no " + kLibrarySymbol +
                       "(): it is a shared library but holds no ckdisp kernels; build one with "
                       "`ckdisp generate` and `ckdisp build`");
  }
  const ckdisp_library* table = entry();
  if (const std::string fault = table_fault(table); !fault.empty()) {
    throw LibraryError(what + fault);
  }
  return Library(record_of(table, path));
}

Library Library::linked(const ckdisp_library* table) {
  if (const std::string fault = table_fault(table); !fault.empty()) {
    throw LibraryError("the linked kernel library " + fault);
  }
  Loaded& all = loaded();
  const std::lock_guard lock(all.mutex);
  return Library(record_of(table, ""));
}

const std::string& Library::name() const { return record_->name; }
const std::string& Library::path() const { return record_->path; }
const char* Library::build_info() const { return record_->table->build_info; }

std::vector<Kernel> Library::kernels() const {
  std::vector<Kernel> out;
  out.reserve(record_->kernels.size());
  for (const detail::KernelRecord& kernel : record_->kernels) out.emplace_back(&kernel);
  return out;
}

std::optional<std::string> Kernel::field(std::string_view name) const {
  std::optional<std::string> text;
  visit_key([&](const auto& key) {
    visit_fields(key, [&](std::string_view field, const auto& value) {
      if (field == name) text = field_text(value);
    });
  });
  return text;
}

std::string Kernel::key_json() const {
  json::List members;
  visit_key([&](const auto& key) {
    visit_fields(key, [&](std::string_view field, const auto& value) {
      members.add(field, field_json(value));
    });
  });
  return members.object();
}

}  // namespace ckdisp
