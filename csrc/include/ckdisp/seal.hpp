// Sums over a linked kernel library, kept inside it: damage is seen before the library is mapped.
//
// The linker leaves them zero, and codegen/seal.py fills them in afterwards. A library without them
// loads, too.
#pragma once

#include <cstdint>

namespace ckdisp {

inline constexpr char kSealMagic[17] = "CKDISP\x01SEAL\xa7\x3c\xe1\x98\x5d";

struct Seal {
  char magic[16];
  std::uint64_t shape;    // of the table of segments
  std::uint64_t content;  // of all segments, but for what tools rewrite after a link: see seal.py
  std::uint64_t code;     // of the segments with code alone
};

}  // namespace ckdisp

// Makes room for the sums in the one unit of a library that registers its kernels.
#define CKDISP_SEAL(name)                                                                        \
  extern "C" {                                                                                   \
  [[gnu::visibility("hidden")]] extern const volatile ckdisp::Seal name;                         \
  }                                                                                              \
  [[gnu::used]] const volatile ckdisp::Seal name{                                                \
      {'C', 'K', 'D', 'I', 'S', 'P', '\x01', 'S', 'E', 'A', 'L', '\xa7', '\x3c', '\xe1', '\x98', \
       '\x5d'},                                                                                  \
      0,                                                                                         \
      0,                                                                                         \
      0};
