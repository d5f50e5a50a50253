// The sums are those that codegen/seal.py describes and writes.
#include "seal.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <ckdisp/seal.hpp>

namespace ckdisp {
namespace {

using Bytes = std::span<const unsigned char>;
using Range = std::pair<std::uint64_t, std::uint64_t>;
constexpr std::uint64_t kFold = 0xC2B2AE3D27D4EB4FULL;
constexpr std::uint64_t kSums = 24;

std::uint64_t word(const unsigned char* at, std::size_t size) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, size);
  return value;
}

std::uint64_t factor(std::uint64_t index) {
  const std::uint64_t number = (index + 1) * 0x9E3779B97F4A7C15ULL;
  return (number ^ number >> 32) | 1;
}

std::uint64_t sum(Bytes bytes) {
  const std::size_t words = bytes.size() / 8;
  std::uint64_t total = bytes.size();
  for (std::size_t i = 0; i < words; ++i) total += word(&bytes[i * 8], 8) * factor(i);
  const std::size_t rest = bytes.size() % 8;
  if (rest != 0) total += word(&bytes[words * 8], rest) * factor(words);
  return total;
}

bool is_rewritten(std::int64_t tag) {
  switch (tag) {
    case DT_NEEDED:
    case DT_SONAME:
    case DT_RPATH:
    case DT_STRSZ:
    case DT_DEBUG:
    case DT_RUNPATH:
      return true;
    default:
      return false;
  }
}

template <class Visit>
void pieces(std::uint64_t begin, std::uint64_t end, const std::vector<Range>& left_out,
            const Visit& visit) {
  for (const auto& [start, stop] : left_out) {
    if (start >= end || stop <= begin) continue;
    if (start > begin) visit(begin, start);
    begin = std::max(begin, stop);
  }
  if (begin < end) visit(begin, end);
}

struct Image {
  Bytes file;
  std::vector<Elf64_Phdr> segments;
  std::uint64_t table, table_bytes, place;

  Bytes bytes(std::uint64_t begin, std::uint64_t end) const {
    return file.subspan(begin, end - begin);
  }

  std::uint64_t code() const {
    std::uint64_t folded = 0;
    for (const Elf64_Phdr& s : segments) {
      if (s.p_type != PT_LOAD || (s.p_flags & PF_X) == 0 || s.p_offset == 0) continue;
      folded = folded * kFold + sum(bytes(s.p_offset, s.p_offset + s.p_filesz));
    }
    return folded;
  }

  // False if there is no table of dynamic entries, or the strings lie in no segment.
  bool content(std::uint64_t& folded) const {
    const auto dynamic = std::find_if(segments.begin(), segments.end(),
                                      [](const auto& s) { return s.p_type == PT_DYNAMIC; });
    if (dynamic == segments.end()) return false;
    std::uint64_t strings = 0, strings_size = 0;
    std::vector<std::uint64_t> kept;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_filesz;
         at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      std::memcpy(&entry, &file[dynamic->p_offset + at], sizeof entry);
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRSZ) strings_size = entry.d_un.d_val;
      if (is_rewritten(entry.d_tag)) continue;
      kept.insert(kept.end(), {static_cast<std::uint64_t>(entry.d_tag), entry.d_un.d_val});
    }
    const auto holder = std::find_if(segments.begin(), segments.end(), [&](const auto& s) {
      return s.p_type == PT_LOAD && s.p_vaddr <= strings && strings - s.p_vaddr < s.p_filesz;
    });
    if (holder == segments.end() || strings_size > file.size()) return false;
    strings = strings - holder->p_vaddr + holder->p_offset;
    std::vector<Range> left_out = {
        {0, sizeof(Elf64_Ehdr)},
        {table, table + table_bytes},
        {dynamic->p_offset, dynamic->p_offset + dynamic->p_filesz},
        {strings, strings + strings_size},
        {place, place + kSums},
    };
    std::sort(left_out.begin(), left_out.end());
    folded = 0;
    for (const Elf64_Phdr& s : segments) {
      if (s.p_type != PT_LOAD) continue;
      pieces(s.p_offset, s.p_offset + s.p_filesz, left_out,
             [&](auto begin, auto end) { folded = folded * kFold + sum(bytes(begin, end)); });
    }
    const auto* words = reinterpret_cast<const unsigned char*>(kept.data());
    folded = folded * kFold + sum({words, kept.size() * sizeof(std::uint64_t)});
    return true;
  }
};

}  // namespace

SealState seal_state(const unsigned char* data, std::size_t size) {
  const void* found = ::memmem(data, size, kSealMagic, sizeof(Seal::magic));
  if (found == nullptr) return SealState::none;
  const auto* at = static_cast<const unsigned char*>(found);
  const auto place = static_cast<std::uint64_t>(at - data);
  Seal seal;
  if (size - place < sizeof seal) return SealState::none;
  std::memcpy(&seal, at, sizeof seal);
  if (seal.shape == 0 && seal.content == 0 && seal.code == 0) return SealState::none;

  Elf64_Ehdr header;
  std::memcpy(&header, data, sizeof header);
  Image image{{data, size},
              std::vector<Elf64_Phdr>(header.e_phnum),
              header.e_phoff,
              std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr),
              place + sizeof seal.magic};
  std::memcpy(image.segments.data(), data + header.e_phoff, image.table_bytes);
  if (sum(image.bytes(image.table, image.table + image.table_bytes)) != seal.shape) {
    return image.code() == seal.code ? SealState::moved : SealState::damaged;
  }
  std::uint64_t content;
  return image.content(content) && content == seal.content ? SealState::whole : SealState::damaged;
}

}  // namespace ckdisp
