#include "elf_tables.hpp"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace ckdisp {
namespace {

constexpr std::uint64_t kPage = 4096;

struct Tables {
  const unsigned char* data;
  std::size_t size;
  std::vector<Elf64_Phdr> segments;
  std::map<std::int64_t, std::uint64_t> dynamic;
  std::uint64_t strings_size = 0;
  std::uint64_t symbols_used = 0;  // numbers below it are used

  std::uint64_t value(std::int64_t tag) const {
    const auto found = dynamic.find(tag);
    return found == dynamic.end() ? 0 : found->second;
  }
  bool has(std::int64_t tag) const { return dynamic.count(tag) != 0; }

  // The segment that holds `bytes` of memory at `address`; null if none does.
  const Elf64_Phdr* holder(std::uint64_t address, std::uint64_t bytes, bool in_file) const {
    for (const Elf64_Phdr& s : segments) {
      const std::uint64_t there = in_file ? s.p_filesz : s.p_memsz;
      if (s.p_type == PT_LOAD && s.p_vaddr <= address && bytes <= there &&
          address - s.p_vaddr <= there - bytes) {
        return &s;
      }
    }
    return nullptr;
  }

  // The bytes of the file at an address; null if they are not all there.
  const unsigned char* at(std::uint64_t address, std::uint64_t bytes) const {
    const Elf64_Phdr* s = holder(address, bytes, true);
    return s != nullptr ? data + s->p_offset + (address - s->p_vaddr) : nullptr;
  }

  template <class T>
  bool read(std::uint64_t address, T& out) const {
    const unsigned char* bytes = at(address, sizeof out);
    if (bytes != nullptr) std::memcpy(&out, bytes, sizeof out);
    return bytes != nullptr;
  }

  bool layout() const {
    std::uint64_t end = 0;
    for (const Elf64_Phdr& s : segments) {
      if (s.p_type != PT_LOAD) continue;
      if (s.p_memsz < s.p_filesz || s.p_vaddr < end || s.p_vaddr > std::uint64_t{1} << 46 ||
          s.p_memsz > std::uint64_t{1} << 40 || (s.p_vaddr - s.p_offset) % kPage != 0 ||
          (s.p_align > 1 && !std::has_single_bit(s.p_align)) || (s.p_flags & PF_R) == 0) {
        return false;
      }
      end = s.p_vaddr + s.p_memsz;
    }
    const auto inside = [&](const Elf64_Phdr& s) {
      switch (s.p_type) {
        case PT_DYNAMIC:
        case PT_NOTE:
        case PT_GNU_EH_FRAME: {
          if (s.p_filesz == 0) return true;
          const Elf64_Phdr* in = holder(s.p_vaddr, s.p_filesz, true);
          return in != nullptr && s.p_offset - in->p_offset == s.p_vaddr - in->p_vaddr;
        }
        case PT_TLS:
          return s.p_filesz <= s.p_memsz && s.p_memsz < std::uint64_t{1} << 32 &&
                 (s.p_align <= 1 || (std::has_single_bit(s.p_align) && s.p_align <= kPage)) &&
                 (s.p_filesz == 0 || holder(s.p_vaddr, s.p_filesz, true) != nullptr);
        case PT_GNU_RELRO:
          return holder(s.p_vaddr, 0, false) != nullptr && s.p_memsz < std::uint64_t{1} << 40;
        default:
          return true;
      }
    };
    return std::all_of(segments.begin(), segments.end(), inside);
  }

  bool read_dynamic() {
    const auto found = std::find_if(segments.begin(), segments.end(),
                                    [](const auto& s) { return s.p_type == PT_DYNAMIC; });
    if (found == segments.end()) return false;
    for (std::uint64_t i = 0;; ++i) {
      Elf64_Dyn entry;
      if ((i + 1) * sizeof entry > found->p_filesz) return false;  // without an end
      std::memcpy(&entry, data + found->p_offset + i * sizeof entry, sizeof entry);
      if (entry.d_tag == DT_NULL) break;
      dynamic[entry.d_tag] = entry.d_un.d_val;
      const bool names = entry.d_tag == DT_NEEDED || entry.d_tag == DT_SONAME ||
                         entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH;
      if (names) largest_name = std::max(largest_name, entry.d_un.d_val);
    }
    strings_size = value(DT_STRSZ);
    const unsigned char* strings = at(value(DT_STRTAB), strings_size);
    return strings != nullptr && strings_size > 0 && strings[strings_size - 1] == 0 &&
           largest_name < strings_size && value(DT_SYMENT) == sizeof(Elf64_Sym) &&
           at(value(DT_SYMTAB), sizeof(Elf64_Sym)) != nullptr;
  }

  // Functions and arrays of functions that the loader calls.
  bool calls() const {
    for (const std::int64_t tag : {DT_INIT, DT_FINI}) {
      if (!has(tag)) continue;
      const Elf64_Phdr* s = holder(value(tag), 1, true);
      if (s == nullptr || (s->p_flags & PF_X) == 0) return false;
    }
    const std::pair<std::int64_t, std::int64_t> arrays[] = {
        {DT_INIT_ARRAY, DT_INIT_ARRAYSZ},
        {DT_FINI_ARRAY, DT_FINI_ARRAYSZ},
        {DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ},
    };
    return std::all_of(std::begin(arrays), std::end(arrays), [&](const auto& array) {
      if (!has(array.first)) return !has(array.second);
      return value(array.second) % 8 == 0 && at(value(array.first), value(array.second)) != nullptr;
    });
  }

  bool relocations(std::int64_t table, std::int64_t bytes) {
    if (!has(table)) return !has(bytes);
    const std::uint64_t length = value(bytes);
    const unsigned char* entries = at(value(table), length);
    if (entries == nullptr || length % sizeof(Elf64_Rela) != 0) return false;
    for (std::uint64_t i = 0; i < length; i += sizeof(Elf64_Rela)) {
      Elf64_Rela entry;
      std::memcpy(&entry, entries + i, sizeof entry);
      const Elf64_Phdr* s = holder(entry.r_offset, 1, false);
      if (s == nullptr || ((s->p_flags & PF_W) == 0 && !has(DT_TEXTREL))) return false;
      symbols_used = std::max<std::uint64_t>(symbols_used, ELF64_R_SYM(entry.r_info) + 1);
#if defined(__x86_64__)
      const auto addend = static_cast<std::uint64_t>(entry.r_addend);
      const auto type = ELF64_R_TYPE(entry.r_info);
      if (type == R_X86_64_RELATIVE && holder(addend, 0, false) == nullptr) return false;
      if (type == R_X86_64_IRELATIVE || type > R_X86_64_NUM) return false;
#endif
    }
    return true;
  }

  bool hash_table() {
    if (!has(DT_GNU_HASH)) return has(DT_HASH);
    Elf64_Word head[4];  // buckets, first symbol, words of the filter, shift
    const std::uint64_t start = value(DT_GNU_HASH);
    if (!read(start, head) || head[0] == 0 || !std::has_single_bit(head[2]) || head[3] >= 64) {
      return false;
    }
    const std::uint64_t buckets = start + sizeof head + std::uint64_t{head[2]} * 8;
    const unsigned char* first = at(buckets, std::uint64_t{head[0]} * 4);
    if (first == nullptr) return false;
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < head[0]; ++i) {
      Elf64_Word symbol;
      std::memcpy(&symbol, first + i * 4, 4);
      if (symbol != 0 && symbol < head[1]) return false;
      last = std::max<std::uint64_t>(last, symbol);
    }
    if (last == 0) return true;
    for (const std::uint64_t chains = buckets + std::uint64_t{head[0]} * 4;; ++last) {
      Elf64_Word link;
      if (!read(chains + (last - head[1]) * 4, link)) return false;
      if ((link & 1) != 0) break;
    }
    symbols_used = std::max(symbols_used, last + 1);
    return true;
  }

  bool symbols() const {
    const unsigned char* table = at(value(DT_SYMTAB), symbols_used * sizeof(Elf64_Sym));
    if (symbols_used > size || table == nullptr) return false;
    for (std::uint64_t i = 0; i < symbols_used; ++i) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, table + i * sizeof symbol, sizeof symbol);
      if (symbol.st_name >= strings_size) return false;
      const auto type = ELF64_ST_TYPE(symbol.st_info);
      const bool placed = symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS;
      if (type == STT_GNU_IFUNC) return false;
      if (placed && type == STT_FUNC && holder(symbol.st_value, 1, true) == nullptr) return false;
    }
    return versions();
  }

  // Of the versions that symbols name, each is defined or needed.
  bool versions() const {
    if (!has(DT_VERSYM)) return true;
    const unsigned char* used = at(value(DT_VERSYM), symbols_used * 2);
    if (used == nullptr) return false;
    std::vector<bool> known(0x8000);
    known[0] = known[1] = true;
    if (!read_versions(known)) return false;
    for (std::uint64_t i = 0; i < symbols_used; ++i) {
      Elf64_Half version;
      std::memcpy(&version, used + i * 2, 2);
      if (!known[version & 0x7fff]) return false;
    }
    return true;
  }

  bool read_versions(std::vector<bool>& known) const {
    std::uint64_t at_need = value(DT_VERNEED);
    for (std::uint64_t i = 0; i < value(DT_VERNEEDNUM); ++i) {
      Elf64_Verneed need;
      if (!read(at_need, need) || need.vn_version != 1 || need.vn_file >= strings_size)
        return false;
      std::uint64_t at_one = at_need + need.vn_aux;
      for (int j = 0; j < need.vn_cnt; ++j) {
        Elf64_Vernaux one;
        if (!read(at_one, one) || one.vna_name >= strings_size) return false;
        known[one.vna_other & 0x7fff] = true;
        if (one.vna_next == 0 && j + 1 != need.vn_cnt) return false;
        at_one += one.vna_next;
      }
      if (need.vn_next == 0 && i + 1 != value(DT_VERNEEDNUM)) return false;
      at_need += need.vn_next;
    }
    std::uint64_t at_def = value(DT_VERDEF);
    for (std::uint64_t i = 0; i < value(DT_VERDEFNUM); ++i) {
      Elf64_Verdef one;
      if (!read(at_def, one) || one.vd_version != 1) return false;
      known[one.vd_ndx & 0x7fff] = true;
      if (one.vd_next == 0 && i + 1 != value(DT_VERDEFNUM)) return false;
      at_def += one.vd_next;
    }
    return true;
  }

  std::uint64_t largest_name = 0;  // the farthest string that the dynamic table names
};

}  // namespace

std::string table_fault_of(const unsigned char* data, std::size_t size) {
  Elf64_Ehdr header;
  std::memcpy(&header, data, sizeof header);
  Tables tables{data, size, std::vector<Elf64_Phdr>(header.e_phnum), {}};
  std::memcpy(tables.segments.data(), data + header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr));
  if (!tables.layout()) return "segments";
  if (!tables.read_dynamic()) return "dynamic table";
  if (!tables.calls()) return "start functions";
  if (!tables.relocations(DT_RELA, DT_RELASZ) || !tables.relocations(DT_JMPREL, DT_PLTRELSZ)) {
    return "relocations";
  }
  if (!tables.hash_table()) return "hash table";
  return tables.symbols() ? "" : "symbols";
}

}  // namespace ckdisp
