#include "fmha_match.hpp"

#include <ckdisp/names.hpp>

#include <initializer_list>
#include <iterator>

#include "fmha_family.hpp"
#include "snapshot.hpp"

namespace ckdisp::detail {
namespace {

bool on_cpu(const FmhaKey& key) { return key.provider == Provider::cpu; }

// One choice among several, or yes or no: where its bits are, and how it is called.
struct Axis {
  unsigned feature;
  Reason reason;
  int shift;
};
// clang-format off
constexpr Axis kMode{kFmhaGroup, Reason::mode, 0};         // batch, group
constexpr Axis kMask{kFmhaMask, Reason::mask, 2};          // no, top_left, bottom_right, generic
constexpr Axis kBias{kFmhaBias, Reason::bias, 6};          // no, bias, alibi
constexpr Axis kQscale{kFmhaQscale, Reason::qscale, 9};    // no and three kinds
constexpr Axis kRope{kFmhaRope, Reason::rope, 13};         // none, interleaved, half_rotated
constexpr Axis kMemory{kFmhaKvForms, Reason::pages, 16};   // none, vectorized, linear
constexpr Axis kLookup{kFmhaKvForms, Reason::pages, 19};   // none, vllm, sglang
constexpr Axis kVlayout{kFmhaColumnV, Reason::layout, 22}; // r, c
// clang-format on

// A flag has two bits: without and with.
struct Flag : Axis {
  const char* name;
  bool FmhaKey::* of_key;
};
constexpr Flag kFlags[] = {
    {{kFmhaLse, Reason::feature, 24}, "LSE", &FmhaKey::lse},
    {{kFmhaDropout, Reason::feature, 26}, "dropout", &FmhaKey::dropout},
    {{kFmhaSoftCap, Reason::feature, 28}, "a soft cap", &FmhaKey::logits},
    {{kFmhaSink, Reason::feature, 30}, "sink keys", &FmhaKey::sink},
    {{kFmhaSkip, Reason::feature, 32}, "skip_min_seqlen_q", &FmhaKey::skip_min_seqlen_q},
    {{kFmhaPages, Reason::pages, 34}, "pages", &FmhaKey::paged_kv},
    {{kFmhaDbias, Reason::feature, 36}, "the gradient of the bias", &FmhaKey::dbias},
    {{kFmhaDeterministic, Reason::feature, 38}, "a fixed order of sums", &FmhaKey::deterministic},
    // A forward kernel stores the numbers if a call asks for them.
    {{kFmhaDropout, Reason::feature, 40}, "stored random numbers", &FmhaKey::store_randval},
};
constexpr int kRandval = 40;

template <class E>
constexpr std::uint64_t bit(const Axis& axis, E value) {
  return std::uint64_t{1} << (axis.shift + static_cast<int>(value));
}

template <class E>
constexpr std::uint64_t bits(const Axis& axis, std::initializer_list<E> values) {
  std::uint64_t out = 0;
  for (const E value : values) out |= bit(axis, value);
  return out;
}

constexpr auto kMasks = {FmhaMask::no, FmhaMask::top_left, FmhaMask::bottom_right,
                         FmhaMask::generic};

// The masks that a kernel serves.
std::uint64_t masks_of(const FmhaKey& key) {
  switch (key.mask) {
    case FmhaMask::no:
      return bit(kMask, FmhaMask::no);
    case FmhaMask::top_left:
    case FmhaMask::bottom_right:  // one form of triangle, which a call shifts
      return bits(kMask, {FmhaMask::top_left, FmhaMask::bottom_right});
    default:
      return bits(kMask, kMasks);
  }
}

// Of an enumeration with `count` values that calls have: those that a kernel serves.
template <class E>
std::uint64_t choices_of(const FmhaKey& key, const Axis& axis, E value, int count) {
  const std::uint64_t all = ((std::uint64_t{1} << count) - 1) << axis.shift;
  if (static_cast<int>(value) >= count) return all;  // any
  if (!on_cpu(key)) return bit(axis, value);
  return value == E{} ? all : bit(axis, E{}) | bit(axis, value);
}

std::uint64_t flag_of(const FmhaKey& key, const Flag& flag) {
  const bool can = key.*flag.of_key;
  const bool at_run_time = flag.shift == kRandval && !is_backward(key.family) && key.dropout;
  if (at_run_time || (can && on_cpu(key))) return std::uint64_t{3} << flag.shift;
  return std::uint64_t{1} << (flag.shift + (can ? 1 : 0));
}

// Everything that a kernel serves of what its family compares.
std::uint64_t served(const FmhaKey& key) {
  std::uint64_t out =
      choices_of(key, kMode, key.mode, 2) | masks_of(key) | choices_of(key, kBias, key.bias, 3) |
      choices_of(key, kQscale, key.qscale, 4) | choices_of(key, kRope, key.rope, 3) |
      choices_of(key, kMemory, key.kv_memory_layout, 3) |
      choices_of(key, kLookup, key.kv_lookup_table, 3) | choices_of(key, kVlayout, key.vlayout, 2);
  for (const Flag& flag : kFlags) out |= flag_of(key, flag);
  return out;
}

// All bits of the axes whose features are among these.
std::uint64_t axes_of(unsigned features) {
  const struct {
    Axis axis;
    int width;
  } rows[] = {{kMode, 2}, {kMask, 4},   {kBias, 3},   {kQscale, 4},
              {kRope, 3}, {kMemory, 3}, {kLookup, 3}, {kVlayout, 2}};
  std::uint64_t out = 0;
  for (const auto& row : rows) {
    if ((features & row.axis.feature) != 0) {
      out |= ((std::uint64_t{1} << row.width) - 1) << row.axis.shift;
    }
  }
  for (const Flag& flag : kFlags) {
    if ((features & flag.feature) != 0) out |= std::uint64_t{3} << flag.shift;
  }
  return out;
}

template <class E>
bool refuse_choice(Refusal* refusal, const Axis& axis, const char* what, E has, E want) {
  return refuse(refusal, axis.reason, "has %s %s, not %s", what, to_name(has), to_name(want));
}

// Whether a size fits a tile: any size with padding 1, multiples of 8 with padding 8, else
// multiples of the tile.
bool is_padded(int padding, std::int64_t size, std::int64_t tile) {
  if (padding == 1) return true;
  return size % (padding == 8 ? 8 : tile) == 0;
}

bool fits_head(const char* name, std::int64_t made_for, int padding, std::int64_t size,
               Refusal* refusal) {
  if (made_for == 0 || size == made_for) return true;
  const auto limit = static_cast<long long>(made_for), given = static_cast<long long>(size);
  if (padding == 0 || size > made_for) {
    return refuse(refusal, Reason::head_dim, "takes %s %s%lld, not %lld", name,
                  padding == 0 ? "" : "up to ", limit, given);
  }
  if (is_padded(padding, size, made_for)) return true;
  return refuse(refusal, Reason::head_dim, "takes %s in multiples of 8, not %lld", name, given);
}

// Rows of Q and K that one block takes; 0 where it does not cut them.
struct Cut {
  std::int64_t q, k;
};
Cut cut_of(const FmhaKey& key) {
  switch (key.family) {
    case Family::fmha_splitkv_combine:
    case Family::fmha_bwd_dq_dk_dv:  // takes any lengths
      return {0, 0};
    case Family::fmha_bwd_dot_do_o:
      return {key.tile[0], 0};
    case Family::fmha_bwd_convert_dq:
      return {key.tile[0], 0};
    default:
      return {key.tile[0], key.tile[1]};
  }
}

bool fits_length(const FmhaProblemData& p, const char* name, std::int64_t tile, int padding,
                 std::int64_t length, bool varies, Refusal* refusal) {
  if (tile == 0 || padding != 0) return true;
  if (varies) {
    return refuse(refusal, Reason::pad,
                  "does not pad %s, whose lengths vary in %s: they need a kernel that pads", name,
                  p.mode == FmhaMode::group ? "mode group" : "pages");
  }
  if (length % tile == 0) return true;
  return refuse(refusal, Reason::pad, "takes lengths of %s in multiples of %lld, not %lld", name,
                static_cast<long long>(tile), static_cast<long long>(length));
}

}  // namespace

std::uint64_t fmha_choices(const FmhaProblemData& p) {
  std::uint64_t out = bit(kMode, p.mode) | bit(kMask, p.mask) | bit(kBias, p.bias_kind) |
                      bit(kQscale, p.qscale) | bit(kRope, p.rope) |
                      bit(kMemory, p.kv_memory_layout) | bit(kLookup, p.kv_lookup_table) |
                      bit(kVlayout, p.vlayout);
  const bool flags[] = {p.lse_out,   p.dropout,           p.logits,
                        p.sink > 0,  p.skip_min_seqlen_q, p.paged_kv,
                        p.dbias_out, p.deterministic,     p.store_randval};
  static_assert(std::size(flags) == std::size(kFlags));
  for (std::size_t i = 0; i < std::size(flags); ++i) {
    out |= std::uint64_t{1} << (kFlags[i].shift + (flags[i] ? 1 : 0));
  }
  return out;
}

std::uint64_t fmha_refused(const FmhaKey& key) {
  return axes_of(fmha_family(key.family).compares) & ~served(key);
}

bool same_signature(const FmhaKey& key, const FmhaProblemData& p, Refusal* refusal) {
  if (key.family != p.family) {
    return refuse(refusal, Reason::family, "computes %s, not %s", to_name(key.family),
                  to_name(p.family));
  }
  if (key.dtype != p.dtype) {
    return refuse(refusal, Reason::dtype, "computes in %s, not %s", to_name(key.dtype),
                  to_name(p.dtype));
  }
  const std::uint64_t wrong = fmha_refused(key) & fmha_choices(p);
  if (wrong == 0) return true;
  const auto differs = [&](const Axis& axis, int width) {
    return (wrong >> axis.shift & ((std::uint64_t{1} << width) - 1)) != 0;
  };
  if (differs(kMode, 2)) return refuse_choice(refusal, kMode, "mode", key.mode, p.mode);
  if (differs(kMask, 4)) return refuse_choice(refusal, kMask, "mask", key.mask, p.mask);
  if (differs(kBias, 3)) return refuse_choice(refusal, kBias, "bias", key.bias, p.bias_kind);
  if (differs(kQscale, 4)) {
    return refuse_choice(refusal, kQscale, "qscale", key.qscale, p.qscale);
  }
  if (differs(kRope, 3)) return refuse_choice(refusal, kRope, "rope", key.rope, p.rope);
  if (differs(kMemory, 3)) {
    return refuse_choice(refusal, kMemory, "kv_memory_layout", key.kv_memory_layout,
                         p.kv_memory_layout);
  }
  if (differs(kLookup, 3)) {
    return refuse_choice(refusal, kLookup, "kv_lookup_table", key.kv_lookup_table,
                         p.kv_lookup_table);
  }
  if (differs(kVlayout, 2)) {
    return refuse_choice(refusal, kVlayout, "vlayout", key.vlayout, p.vlayout);
  }
  for (const Flag& flag : kFlags) {
    if (!differs(flag, 2)) continue;
    const bool has = key.*flag.of_key;
    return refuse(refusal, flag.reason,
                  has ? "is made for %s, which the call does not have" : "is made without %s",
                  flag.name);
  }
  return true;
}

bool fits_sizes(const FmhaKey& key, const FmhaProblemData& p, Refusal* refusal) {
  // The combination reads sums of the size of V only, the conversion those of Q.
  const bool reads_q =
      key.family != Family::fmha_splitkv_combine && key.family != Family::fmha_bwd_dot_do_o;
  const bool reads_v = key.family != Family::fmha_bwd_convert_dq;
  if (reads_q && !fits_head("hdim_q", key.hdim_q, key.padding[2], p.hdim_q, refusal)) return false;
  if (reads_v && !fits_head("hdim_v", key.hdim_v, key.padding[3], p.hdim_v, refusal)) return false;
  const Cut cut = cut_of(key);
  const bool group = p.mode == FmhaMode::group;
  const bool append = key.family == Family::fmha_appendkv;
  const std::int64_t keys = append ? p.seqlen_new : p.seqlen_k;
  const bool keys_vary = group || (p.paged_kv && !append);
  if (!fits_length(p, "q", cut.q, key.padding[0], p.seqlen_q, group, refusal) ||
      !fits_length(p, "k", cut.k, key.padding[1], keys, keys_vary, refusal)) {
    return false;
  }
  if (key.page_size != 0 && key.page_size != p.page_size) {
    return refuse(refusal, Reason::pages, "reads pages of %lld keys, not %lld",
                  static_cast<long long>(key.page_size), static_cast<long long>(p.page_size));
  }
  if (key.max_seq_len_q != 0 && p.seqlen_q > key.max_seq_len_q) {
    return refuse(refusal, Reason::shape, "takes sequences of q up to %lld, not %lld",
                  static_cast<long long>(key.max_seq_len_q), static_cast<long long>(p.seqlen_q));
  }
  return true;
}

bool follows(const FmhaKey& first, const FmhaKey& later, Refusal* refusal) {
  if (later.family != Family::fmha_bwd_convert_dq || on_cpu(later) || !later.deterministic ||
      later.tile[1] == first.tile[1]) {
    return true;
  }
  // A deterministic sum has a part for each tile of keys.
  return refuse(refusal, Reason::stage, "sums parts of %d keys, and the stage before makes %d",
                static_cast<int>(later.tile[1]), static_cast<int>(first.tile[1]));
}

}  // namespace ckdisp::detail
