// Arithmetic of the sizes of an attention call.
#pragma once

#include <ckdisp/abi.hpp>

#include <cstdint>

namespace ckdisp::detail {

// Throws InvalidArgument for counts that no attention has, or whose tensors do not fit addresses.
void check_sizes(const FmhaProblemData& problem);
// Throws InvalidArgument where cache_batch_idx has no batches of K and V to choose among.
void check_chooses_batches(const FmhaProblemData& problem);

// Elements from the first to behind the last of a tensor of (outer, heads, rows, size).
struct FmhaExtent {
  FmhaStrides strides;
  std::int64_t outer, heads, rows, size;

  bool empty() const { return outer == 0 || heads == 0 || rows == 0 || size == 0; }
  std::int64_t elements() const {
    if (empty()) return 0;
    return (outer - 1) * strides.batch + (heads - 1) * strides.head + (rows - 1) * strides.row +
           size;
  }
};

// Sequences that lie apart: in mode group all rows belong to one.
inline std::int64_t outer_of(const FmhaProblemData& p) {
  return p.mode == FmhaMode::group ? 1 : p.batch;
}
inline std::int64_t rows_of_q(const FmhaProblemData& p) {
  return p.mode == FmhaMode::group ? p.total_q : p.seqlen_q;
}
inline std::int64_t rows_of_k(const FmhaProblemData& p) {
  return p.mode == FmhaMode::group ? p.total_k : p.seqlen_k;
}

inline std::int64_t outer_of_k(const FmhaProblemData& p) {
  return p.cache_batches > 0 ? p.cache_batches : outer_of(p);
}

// A tensor with a row for each of Q, of `size` numbers.
inline FmhaExtent extent_of_q(const FmhaProblemData& p, const FmhaStrides& strides,
                              std::int64_t size) {
  return {strides, outer_of(p), p.nhead_q, rows_of_q(p), size};
}
// K or V, or their gradients: in pages, or with a row for each key.
inline FmhaExtent extent_of_k(const FmhaProblemData& p, const FmhaStrides& strides,
                              std::int64_t size) {
  if (p.paged_kv) return {strides, p.num_pages, p.nhead_k, p.page_size, size};
  return {strides, outer_of_k(p), p.nhead_k, rows_of_k(p), size};
}
inline FmhaExtent extent_of_v(const FmhaProblemData& p, const FmhaStrides& strides) {
  FmhaExtent v = extent_of_k(p, strides, p.hdim_v);
  if (p.vlayout == Order::c) {
    const std::int64_t keys = v.rows;
    v.rows = v.size;
    v.size = keys;
  }
  return v;
}

}  // namespace ckdisp::detail
