// What each family of attention kernels does.
#pragma once

#include <ckdisp/abi.hpp>

namespace ckdisp::detail {

// Features that a problem may have and a kernel may be made for.
enum FmhaFeature : unsigned {
  kFmhaGroup = 1u << 0,
  kFmhaMask = 1u << 1,
  kFmhaBias = 1u << 2,
  kFmhaLse = 1u << 3,
  kFmhaDropout = 1u << 4,
  kFmhaSoftCap = 1u << 5,
  kFmhaSink = 1u << 6,
  kFmhaQscale = 1u << 7,
  kFmhaSkip = 1u << 8,
  kFmhaPages = 1u << 9,
  kFmhaKvForms = 1u << 10,  // memory layouts and lookup tables of pages
  kFmhaRope = 1u << 11,
  kFmhaColumnV = 1u << 12,
  kFmhaDbias = 1u << 13,
  kFmhaDeterministic = 1u << 14,
  kFmhaCache = 1u << 15,  // batches of K and V for cache_batch_idx to choose among
};

struct FmhaFamily {
  bool known;
  const char* what;   // it does, in messages
  unsigned takes;     // features that a problem may have
  unsigned compares;  // of those, what a kernel's key must agree with
};

// Of a stage other than the first, a problem has all that its leading family takes.
constexpr FmhaFamily fmha_family(Family family) {
  constexpr unsigned scores = kFmhaGroup | kFmhaMask | kFmhaBias | kFmhaSoftCap | kFmhaSink;
  constexpr unsigned forward = scores | kFmhaLse | kFmhaQscale;
  constexpr unsigned gradient = scores | kFmhaDropout | kFmhaDbias | kFmhaDeterministic;
  switch (family) {
    case Family::fmha_fwd: {
      constexpr unsigned all = forward | kFmhaDropout | kFmhaSkip | kFmhaColumnV;
      return {true, "the forward pass", all | kFmhaCache, all};
    }
    case Family::fmha_splitkv: {
      constexpr unsigned all = forward | kFmhaPages | kFmhaColumnV;
      return {true, "the forward pass in parts", all | kFmhaCache, all & ~kFmhaLse};
    }
    case Family::fmha_splitkv_combine:
      return {true, "the sum of the parts", forward | kFmhaPages | kFmhaColumnV | kFmhaCache,
              kFmhaGroup | kFmhaLse | kFmhaQscale};
    case Family::fmha_pagedkv: {
      constexpr unsigned all = forward | kFmhaPages | kFmhaSkip;
      return {true, "the forward pass on pages", all, all};
    }
    case Family::fmha_appendkv: {
      constexpr unsigned all = kFmhaPages | kFmhaRope | kFmhaColumnV;
      return {true, "appending to a cache", all | kFmhaMask | kFmhaCache, all};
    }
    case Family::fmha_batch_prefill: {
      constexpr unsigned all = forward | kFmhaDropout | kFmhaPages | kFmhaKvForms;
      return {true, "the prefill on pages", all, all};
    }
    case Family::fmha_bwd_dot_do_o:
      return {true, "the row sums of the backward pass", gradient, kFmhaGroup};
    case Family::fmha_bwd_dq_dk_dv:
      return {true, "the backward pass", gradient, gradient};
    case Family::fmha_bwd_convert_dq:
      return {true, "the conversion of dQ", gradient, kFmhaGroup | kFmhaDeterministic};
    default:
      return {false, "", 0, 0};
  }
}

}  // namespace ckdisp::detail
