// Which rows of the tensors belong to a batch, which keys a query sees, and where the lines of K
// and V lie, with or without pages.
#pragma once

#include "core.hpp"

namespace ckdisp::cpu {
namespace {

// Keys [low, high), and the first `sink` ones.
struct Visible {
  Index low, high;
};

struct Sequence {
  Index q_start, q_len;  // rows of Q, O and what has their rows
  Index k_start, k_len;
  Index kv_batch;               // batch of K and V
  const std::int32_t* pages;    // or null
  Index left, right, diagonal;  // of the mask: keys i + diagonal - left .. i + diagonal + right
  Index shift;                  // k_len - q_len
  Index sink;

  Sequence(const FmhaProblemData& p, const FmhaArgs& args, Index b)
      : q_start(0), q_len(p.seqlen_q), k_start(0), k_len(p.seqlen_k), kv_batch(b), pages(nullptr) {
    if (p.mode == FmhaMode::group) {
      q_start = args.seqstart_q[b];
      q_len = args.seqstart_q[b + 1] - q_start;
      if (args.seqstart_k != nullptr) {
        k_start = args.seqstart_k[b];
        k_len = args.seqstart_k[b + 1] - k_start;
      }
    }
    if (args.seqlen_k != nullptr) k_len = args.seqlen_k[b];
    if (args.cache_batch_idx != nullptr) kv_batch = args.cache_batch_idx[b];
    if (p.page_size > 0) {
      k_start = 0;
      if (args.page_indptr != nullptr) {
        pages = args.page_table + args.page_indptr[b];
        const Index count = args.page_indptr[b + 1] - args.page_indptr[b];
        if (args.seqlen_k == nullptr && args.last_page_len != nullptr) {
          k_len = count == 0 ? 0 : (count - 1) * p.page_size + args.last_page_len[b];
        }
      } else {
        pages = args.page_table + b * p.pages_per_seq;
      }
    }
    shift = k_len - q_len;
    sink = p.mask == FmhaMask::no ? 0 : least(p.sink, k_len);
    left = right = -1;
    diagonal = 0;
    if (p.mask == FmhaMask::generic) {
      left = p.window_left;
      right = p.window_right;
      diagonal = p.window_bottom_right ? shift : 0;
    } else if (p.mask != FmhaMask::no) {
      right = 0;
      diagonal = p.mask == FmhaMask::bottom_right ? shift : 0;
    }
  }

  // Whether the call leaves the sequence out.
  bool skipped(const FmhaProblemData& p, const FmhaArgs& args) const {
    return p.skip_min_seqlen_q && q_len <= args.min_seqlen_q;
  }

  Visible visible(Index row) const {
    const Index center = row + diagonal;
    const Index low = left < 0 ? 0 : most(0, center - left);
    const Index high = right < 0 ? k_len : least(k_len, center + right + 1);
    return {least(low, k_len), most(high, 0)};
  }
};

// f(begin, end) of the keys key + start .. key + end that a row sees, counted from `key`.
template <class F>
CKDISP_CPU_INLINE void each_seen(const Sequence& s, Index row, Index key, Index start, Index end,
                                 const F& f) {
  const Visible seen = s.visible(row);
  const auto part = [&](Index low, Index high) CKDISP_CPU_LAMBDA {
    low = most(start, low - key);
    high = least(end, high - key);
    if (low < high) f(low, high);
  };
  part(0, s.sink);
  part(most(seen.low, s.sink), seen.high);
}

// Keys that some of the rows first .. last see, as Visible.
inline Visible visible_to(const Sequence& s, Index first, Index last) {
  return {s.visible(first).low, s.visible(last).high};
}

CKDISP_CPU_INLINE const char* row_of(const void* base, const FmhaStrides& strides, Index b, Index h,
                                     Index row, int size) {
  return at(base, (b * strides.batch + h * strides.head + row * strides.row) * size);
}
CKDISP_CPU_INLINE char* row_of(void* base, const FmhaStrides& strides, Index b, Index h, Index row,
                               int size) {
  return at(base, (b * strides.batch + h * strides.head + row * strides.row) * size);
}

// Pointers to the rows of keys first .. first + count of K or V.
CKDISP_CPU_INLINE void find_rows(const FmhaProblemData& p, const Sequence& s, const void* base,
                                 const FmhaStrides& strides, Index head, Index first, Index count,
                                 int size, const char** lines) {
  if (s.pages == nullptr) {
    const char* line = row_of(base, strides, s.kv_batch, head, s.k_start + first, size);
    for (Index j = 0; j < count; ++j, line += strides.row * size) lines[j] = line;
    return;
  }
  Index page = first / p.page_size, place = first % p.page_size;
  for (Index j = 0; j < count; ++j) {
    lines[j] = row_of(base, strides, s.pages[page], head, place, size);
    if (++place == p.page_size) {
      place = 0;
      ++page;
    }
  }
}

}  // namespace
}  // namespace ckdisp::cpu
