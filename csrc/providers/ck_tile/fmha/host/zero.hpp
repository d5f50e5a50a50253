// Zeroing memory of a device on a stream.
#pragma once

#include "../../host/module.hpp"
#include "problem.hpp"

namespace ckdisp::tile {
namespace {

inline bool zeroed(const hip::Api& api, int error, Refusal* refusal) {
  return error == hip::kSuccess ||
         failed(api, refusal, "zeroing gradients (hipMemsetAsync)", error);
}

inline bool zero(const hip::Api& api, void* data, std::int64_t bytes, void* stream,
                 Refusal* refusal) {
  return zeroed(api, api.MemsetAsync(data, 0, static_cast<std::size_t>(bytes), stream), refusal);
}

// The matrices of seqlen_q x seqlen_k elements of every batch and head. A stride of 0 has one for
// all.
inline bool zero_matrices(const hip::Api& api, void* data, const FmhaStrides& strides,
                          const FmhaProblemData& p, std::size_t size, void* stream,
                          Refusal* refusal) {
  const std::int64_t batches = strides.batch == 0 ? 1 : p.batch,
                     heads = strides.head == 0 ? 1 : p.nhead_q,
                     rows = p.mode == FmhaMode::group ? p.total_q : p.seqlen_q;
  const auto width = static_cast<std::size_t>(p.seqlen_k) * size,
             pitch = static_cast<std::size_t>(strides.row) * size;
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      char* const at = static_cast<char*>(data) +
                       static_cast<std::size_t>(b * strides.batch + h * strides.head) * size;
      if (!zeroed(api,
                  api.Memset2DAsync(at, pitch, 0, width, static_cast<std::size_t>(rows), stream),
                  refusal)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace
}  // namespace ckdisp::tile
