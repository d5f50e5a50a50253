#include "elf_check.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "elf_tables.hpp"
#include "seal.hpp"

namespace ckdisp {
namespace {

class File {
 public:
  // Does not wait for the writer of a pipe.
  explicit File(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool valid() const { return fd_ >= 0; }
  bool status(struct stat& out) const { return ::fstat(fd_, &out) == 0; }
  bool read(void* out, std::size_t size, std::uint64_t offset) const {
    return ::pread(fd_, out, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
  }

  // The file in memory, for as long as the view lives.
  class View {
   public:
    View(int fd, std::size_t size) : size_(size) {
      void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
      if (mapped != MAP_FAILED) data_ = static_cast<const unsigned char*>(mapped);
    }
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    ~View() {
      if (data_ != nullptr) ::munmap(const_cast<unsigned char*>(data_), size_);
    }
    const unsigned char* data() const { return data_; }

   private:
    const unsigned char* data_ = nullptr;
    std::size_t size_;
  };
  View view(std::uint64_t size) const { return {fd_, static_cast<std::size_t>(size)}; }

 private:
  int fd_;
};

constexpr int kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr int kOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#elif defined(__powerpc64__)
constexpr int kMachine = EM_PPC64;
#elif defined(__riscv)
constexpr int kMachine = EM_RISCV;
#else
constexpr int kMachine = EM_NONE;  // unknown here: left to the loader
#endif

bool inside(std::uint64_t offset, std::uint64_t bytes, std::uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

// Whether the bytes are those that were linked and, where that is not known, whether the loader can
// read its tables.
std::string damage(const File& file, std::uint64_t size) {
  const File::View view = file.view(size);
  if (view.data() == nullptr) return std::string("cannot be read: ") + std::strerror(errno);
  const std::string again = "; copy or build it again";
  const SealState state = seal_state(view.data(), size);
  if (state == SealState::whole) return "";
  if (state == SealState::damaged) {
    return "is damaged: its bytes are not those that were linked" + again;
  }
  const std::string table = table_fault_of(view.data(), size);
  return table.empty() ? "" : "is damaged: its " + table + " cannot be right" + again;
}

}  // namespace

std::string elf_fault(const std::string& path) {
  const File file(path);
  if (!file.valid()) {
    const std::string reason = std::strerror(errno);
    return errno == ENOENT ? "does not exist; check the path, or build it first with `ckdisp build`"
                           : "cannot be read: " + reason + "; check its permissions";
  }
  struct stat status;
  if (!file.status(status)) return std::string("cannot be read: ") + std::strerror(errno);
  if (!S_ISREG(status.st_mode)) return "is not a file; pass the path of the .so itself";
  const auto size = static_cast<std::uint64_t>(status.st_size);

  ElfW(Ehdr) header;
  unsigned char* ident = header.e_ident;
  if (!file.read(ident, EI_NIDENT, 0) || std::memcmp(ident, ELFMAG, SELFMAG) != 0) {
    return "is not a shared library (no ELF header); build it again";
  }
  if (ident[EI_CLASS] != kClass || ident[EI_DATA] != kOrder) {
    return "was built for another machine (word size or byte order); build it on this one";
  }
  const std::string truncated = "is truncated (" + std::to_string(size) +
                                " bytes are less than its headers say); copy or build it again";
  if (!file.read(&header, sizeof header, 0)) return truncated;
  if (kMachine != EM_NONE && header.e_machine != kMachine) {
    return "was built for another machine (ELF machine " + std::to_string(header.e_machine) +
           ", this one is " + std::to_string(kMachine) + "); build it on this one";
  }
  if (header.e_type != ET_DYN) return "is not a shared library but another kind of ELF file";
  if (!inside(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize, size) ||
      header.e_phentsize != sizeof(ElfW(Phdr))) {
    return truncated;
  }
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  if (!file.read(segments.data(), segments.size() * sizeof(ElfW(Phdr)), header.e_phoff)) {
    return truncated;
  }
  for (const auto& segment : segments) {
    const bool read = segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC;
    if (read && !inside(segment.p_offset, segment.p_filesz, size)) return truncated;
  }
  return kClass == ELFCLASS64 ? damage(file, size) : "";
}

}  // namespace ckdisp
