// A problem as CK's kernels take it.
#pragma once

#include <utility>
#include <variant>

#include "../kernel.hpp"

namespace ckdisp::tile {

// CK's indices are of 32 bits; what does not fit, FmhaSupport refuses.
constexpr index_t narrow(std::int64_t value) { return static_cast<index_t>(value); }

struct CkStrides {
  explicit constexpr CkStrides(const FmhaStrides& s)
      : batch(narrow(s.batch)), head(narrow(s.head)), row(narrow(s.row)) {}
  index_t batch, head, row;
};

// The keys beside the diagonal, and the corner at which that starts or ends.
struct CkWindow {
  index_t left, right, kind;
};
// A side of a window that reaches beyond all keys is without end, which CK spells as -1.
constexpr index_t side_of(const FmhaProblemData& p, std::int64_t keys) {
  return keys >= p.seqlen_q + p.seqlen_k ? -1 : narrow(keys);
}
constexpr CkWindow window_of(const FmhaProblemData& p) {
  constexpr auto top_left = static_cast<index_t>(ck::GenericAttentionMaskEnum::MASK_FROM_TOP_LEFT);
  constexpr auto bottom_right =
      static_cast<index_t>(ck::GenericAttentionMaskEnum::MASK_FROM_BOTTOM_RIGHT);
  switch (p.mask) {
    case FmhaMask::top_left:
      return {-1, 0, top_left};
    case FmhaMask::bottom_right:
      return {-1, 0, bottom_right};
    case FmhaMask::generic:
      return {side_of(p, p.window_left), side_of(p, p.window_right),
              p.window_bottom_right ? bottom_right : top_left};
    default:
      return {-1, -1, top_left};
  }
}

// A bias of either kind: CK has the slopes of ALiBi where a tensor would be.
struct CkBias {
  CkBias(const FmhaProblemData& p, const FmhaArgs& a)
      : data(p.bias_kind == FmhaBias::alibi ? a.alibi_slopes : a.bias), strides(p.bias) {
    if (p.bias_kind == FmhaBias::alibi) strides.row = narrow(p.alibi_batch);
  }
  const void* data;
  CkStrides strides;
};

inline auto seed_of(const FmhaArgs& a) {
  return std::variant<std::pair<std::uint64_t, std::uint64_t>, std::pair<const void*, const void*>>(
      std::pair(a.seed, a.offset));
}

// The longest sequences that a kernel of skip_min_seqlen_q leaves out.
constexpr index_t longest_skipped(const FmhaArgs& a) {
  constexpr std::int64_t most = 0x7fffffff;
  return narrow(a.min_seqlen_q < most ? a.min_seqlen_q : most);
}

constexpr index_t group_of(const FmhaProblemData& p) { return narrow(p.nhead_q / p.nhead_k); }

// Rows of what stages hand on, which lie split by split and head by head. In mode group the
// sequences of a head lie one behind the other.
struct CkRows {
  explicit constexpr CkRows(const FmhaProblemData& p)
      : is_group(p.mode == FmhaMode::group), length(is_group ? p.total_q : p.seqlen_q) {
    head = length;
    batch = is_group ? 0 : p.nhead_q * length;
    split = (is_group ? 1 : p.batch) * p.nhead_q * length;
  }
  bool is_group;
  std::int64_t length, head, batch, split;
};

// What a kernel launches for a problem: its arguments, by variant, and its grid.
template <Family, class Key>
struct FmhaCall;

// Of keys with one kernel.
struct OneVariant {
  static int variant(const FmhaProblemData&, const FmhaArgs&) { return 0; }
};

}  // namespace ckdisp::tile
