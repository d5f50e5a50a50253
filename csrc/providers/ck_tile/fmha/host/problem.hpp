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

// The keys beside the diagonal, and the corner at which that starts or ends. A side of -1 is
// without end.
struct Window {
  std::int64_t left, right;
  bool bottom_right;

  static constexpr Window of(const FmhaProblemData& p) {
    switch (p.mask) {
      case FmhaMask::top_left:
        return {-1, 0, false};
      case FmhaMask::bottom_right:
        return {-1, 0, true};
      case FmhaMask::generic:
        return {side(p, p.window_left), side(p, p.window_right), p.window_bottom_right};
      default:
        return {-1, -1, false};
    }
  }

  // The same keys with the diagonal that ends at the bottom right. A side that ends before that
  // diagonal has no such form: is_before().
  constexpr Window from_bottom_right(const FmhaProblemData& p) const {
    if (bottom_right) return *this;
    const std::int64_t shift = p.seqlen_k - p.seqlen_q;
    return {left < 0 ? -1 : left + shift, right < 0 ? -1 : right - shift, true};
  }
  constexpr bool is_before(const FmhaProblemData& p) const {
    const std::int64_t shift = bottom_right ? 0 : p.seqlen_k - p.seqlen_q;
    return (left >= 0 && left + shift < 0) || (right >= 0 && right - shift < 0);
  }

 private:
  // A side that reaches beyond all keys has no end.
  static constexpr std::int64_t side(const FmhaProblemData& p, std::int64_t keys) {
    return keys >= p.seqlen_q + p.seqlen_k ? -1 : keys;
  }
};

struct CkWindow {
  index_t left, right, kind;
};
// CK takes the distances of ALiBi from the corner of the window, and other ones where only the left
// side has no end (-1) and the right is 0. They are those from the bottom right, whatever the mask.
constexpr CkWindow window_of(const FmhaProblemData& p) {
  constexpr auto top_left = static_cast<index_t>(ck::GenericAttentionMaskEnum::MASK_FROM_TOP_LEFT);
  constexpr auto bottom_right =
      static_cast<index_t>(ck::GenericAttentionMaskEnum::MASK_FROM_BOTTOM_RIGHT);
  Window window = Window::of(p);
  if (p.bias_kind == FmhaBias::alibi) {
    window = window.from_bottom_right(p);
    if (window.left < 0 && window.right == 0) window.left = p.seqlen_q + p.seqlen_k;
  }
  return {narrow(window.left), narrow(window.right), window.bottom_right ? bottom_right : top_left};
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
