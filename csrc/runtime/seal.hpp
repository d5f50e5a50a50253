// Whether a library still is what was linked.
#pragma once

#include <cstddef>

namespace ckdisp {

enum class SealState {
  none,   // the library holds no sums
  whole,  // it is what was linked, but for what tools may change
  moved,  // tables were moved by a tool; the code is what was linked
  damaged,
};

// Of the 64-bit ELF file at `data`, whose segments lie inside it.
SealState seal_state(const unsigned char* data, std::size_t size);

}  // namespace ckdisp
