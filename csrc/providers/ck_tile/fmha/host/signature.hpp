// Whether a problem is of the kind that a key is made for.
#pragma once

#include "../../../signature.hpp"
#include "problem.hpp"

namespace ckdisp::tile {

// What a family has to do with; a problem of several stages may have more, for the others.
struct FmhaCompares {
  bool scores, vlayout, lse, dropout, qscale, skip, pages, forms, rope, gradient, order;
};
constexpr FmhaCompares compares_of(Family family) {
  FmhaCompares c{};
  switch (family) {
    case Family::fmha_fwd:
      c.scores = c.vlayout = c.lse = c.dropout = c.qscale = c.skip = true;
      break;
    case Family::fmha_splitkv:
      c.scores = c.vlayout = c.qscale = c.pages = true;
      break;
    case Family::fmha_splitkv_combine:
      c.lse = c.qscale = true;
      break;
    case Family::fmha_pagedkv:
      c.scores = c.vlayout = c.lse = c.qscale = c.skip = c.pages = true;
      break;
    case Family::fmha_batch_prefill:
      c.scores = c.vlayout = c.lse = c.dropout = c.qscale = c.pages = c.forms = true;
      break;
    case Family::fmha_appendkv:
      c.vlayout = c.pages = c.rope = true;
      break;
    case Family::fmha_bwd_dq_dk_dv:
      c.scores = c.dropout = c.gradient = c.order = true;
      break;
    case Family::fmha_bwd_convert_dq:
      c.order = true;
      break;
    default:
      break;
  }
  return c;
}

template <class Key>
struct FmhaSignature {
  static constexpr const FmhaKey& key = Key::key;
  static constexpr FmhaCompares c = compares_of(key.family);
  static constexpr bool is_backward = key.family == Family::fmha_bwd_dq_dk_dv;

  static bool fits(const FmhaProblemData& p, Refusal* refusal) {
    return same(Reason::family, "family", key.family, p.family, refusal) &&
           same(Reason::dtype, "dtype", key.dtype, p.dtype, refusal) &&
           (key.family == Family::fmha_appendkv ||
            same(Reason::mode, "mode", key.mode, p.mode, refusal)) &&
           (!c.vlayout || same(Reason::layout, "vlayout", key.vlayout, p.vlayout, refusal)) &&
           (!c.scores || has_scores(p, refusal)) && (!c.forms || has_forms(p, refusal)) &&
           (!c.qscale || has_scales(p, refusal)) &&
           (!c.rope || same(Reason::rope, "rope", key.rope, p.rope, refusal)) &&
           has_features(p, refusal);
  }

 private:
  template <class E>
  static bool same(Reason reason, const char* what, E wanted, E given, Refusal* refusal) {
    return wanted == given || refuse(refusal, reason, "the %s is %s, the kernel's is %s", what,
                                     name_of(given), name_of(wanted));
  }

  static bool flag(Reason reason, const char* what, bool wanted, bool given, Refusal* refusal) {
    if (wanted == given) return true;
    return refuse(refusal, reason,
                  given ? "the problem has %s, and the kernel was built without"
                        : "the problem has no %s, and the kernel cannot be without",
                  what);
  }

  static bool has_scores(const FmhaProblemData& p, Refusal* refusal) {
    constexpr bool triangle = key.mask == FmhaMask::top_left || key.mask == FmhaMask::bottom_right;
    const bool masked =
        key.mask == FmhaMask::generic ||
        (triangle && (p.mask == FmhaMask::top_left || p.mask == FmhaMask::bottom_right)) ||
        key.mask == p.mask;
    if (!masked) {
      return refuse(refusal, Reason::mask, "the mask is %s, the kernel's is %s", name_of(p.mask),
                    name_of(key.mask));
    }
    return same(Reason::bias, "bias", key.bias, p.bias_kind, refusal) &&
           flag(Reason::feature, "soft cap", key.logits, p.logits, refusal) &&
           flag(Reason::feature, "sink", key.sink, p.sink > 0, refusal);
  }

  static bool has_forms(const FmhaProblemData& p, Refusal* refusal) {
    return same(Reason::pages, "kv_memory_layout", key.kv_memory_layout, p.kv_memory_layout,
                refusal) &&
           same(Reason::pages, "kv_lookup_table", key.kv_lookup_table, p.kv_lookup_table, refusal);
  }

  // CK takes the scales of a quantised problem from the host, and a call has them on the device.
  static bool has_scales(const FmhaProblemData& p, Refusal* refusal) {
    if (key.qscale != FmhaQscale::no) {
      return refuse(refusal, Reason::qscale,
                    "the kernel takes its scales as numbers from the host, which a call has not");
    }
    return same(Reason::qscale, "qscale", key.qscale, p.qscale, refusal);
  }

  static bool has_features(const FmhaProblemData& p, Refusal* refusal) {
    // A forward kernel stores random numbers if a call asks for them.
    return (!c.lse || flag(Reason::feature, "LSE", key.lse, p.lse_out, refusal)) &&
           (!c.dropout || flag(Reason::feature, "dropout", key.dropout, p.dropout, refusal)) &&
           (!is_backward || flag(Reason::feature, "stored random numbers", key.store_randval,
                                 p.store_randval, refusal)) &&
           (!c.skip || flag(Reason::feature, "skip_min_seqlen_q", key.skip_min_seqlen_q,
                            p.skip_min_seqlen_q, refusal)) &&
           (!c.pages || flag(Reason::pages, "pages", key.paged_kv, p.paged_kv, refusal)) &&
           (!c.gradient ||
            flag(Reason::feature, "gradient of the bias", key.dbias, p.dbias_out, refusal)) &&
           (!c.order || flag(Reason::feature, "fixed order of sums", key.deterministic,
                             p.deterministic, refusal));
  }
};

}  // namespace ckdisp::tile
