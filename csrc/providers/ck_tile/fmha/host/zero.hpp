// Zeroing memory of a device on a stream.
#pragma once

#include <algorithm>
#include <array>

#include "../../host/module.hpp"
#include "problem.hpp"

namespace ckdisp::tile {
namespace {

// outer x heads x rows lines of `width` elements of `size` bytes. A stride of 0 has one for all.
struct Lines {
  FmhaStrides strides;
  std::int64_t outer, heads, rows, width;
  std::size_t size;
};

inline bool zero_lines(const hip::Api& api, void* data, const Lines& lines, void* stream,
                       Refusal* refusal) {
  struct Dim {
    std::int64_t stride, count;
  };
  std::array<Dim, 3> dims{{{lines.strides.row, lines.rows},
                           {lines.strides.head, lines.heads},
                           {lines.strides.batch, lines.outer}}};
  if (lines.width == 0) return true;
  for (Dim& dim : dims) {
    if (dim.count == 0) return true;
    if (dim.stride == 0) dim.count = 1;
    if (dim.count == 1) dim.stride = 0;
  }
  std::sort(dims.begin(), dims.end(), [](Dim a, Dim b) { return a.stride < b.stride; });
  // Dimensions without gaps are one; the innermost of the others is the pitch of a call.
  std::int64_t width = lines.width;
  Dim pitch{width, 1};
  std::array<Dim, 3> loops{};
  std::size_t count = 0;
  for (const Dim dim : dims) {
    if (dim.count == 1) continue;
    if (pitch.count == 1 && dim.stride == width) {
      width *= dim.count;
      pitch.stride = width;
    } else if (pitch.count == 1) {
      pitch = dim;
    } else if (count == 0 && dim.stride == pitch.stride * pitch.count) {
      pitch.count *= dim.count;
    } else {
      loops[count++] = dim;
    }
  }
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * lines.size;
  };
  const auto zero_at = [&](std::int64_t offset) {
    char* const at = static_cast<char*>(data) + bytes(offset);
    const int error = pitch.count == 1
                          ? api.MemsetAsync(at, 0, bytes(width), stream)
                          : api.Memset2DAsync(at, bytes(pitch.stride), 0, bytes(width),
                                              static_cast<std::size_t>(pitch.count), stream);
    return error == hip::kSuccess ||
           failed(api, refusal, "zeroing gradients (hipMemsetAsync)", error);
  };
  const std::int64_t inner = count > 0 ? loops[0].count : 1, outer = count > 1 ? loops[1].count : 1;
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t j = 0; j < inner; ++j) {
      if (!zero_at(i * loops[1].stride + j * loops[0].stride)) return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace ckdisp::tile
