// What happens to a row of scores between Q K^T and the softmax: soft cap, bias, mask. Scores are
// kept times log2(e), so that the softmax takes powers of 2.
#pragma once

#include "../math.hpp"
#include "sequence.hpp"

namespace ckdisp::cpu {
namespace {

template <class T>
struct Scores {
  using S = typename T::S;
  using F = typename T::F;
  using I = typename S::I;
  static constexpr int lanes = T::lanes;

  const FmhaProblemData& p;
  const FmhaArgs& args;

  // What Q is multiplied by in advance.
  static float factor(const FmhaProblemData& p, const FmhaArgs& args) {
    return p.logits ? args.scale / args.soft_cap : args.scale * log2_e;
  }

  bool plain() const { return !p.logits && p.bias_kind == FmhaBias::no; }

  // All but the mask, for keys key .. key + count of a row, `count` being whole vectors.
  CKDISP_CPU_INLINE void finish(const Sequence& s, Index b, Index head, Index row, Index key,
                                Index count, float* scores) const {
    if (p.logits) {
      const float cap = args.soft_cap * log2_e;
      for (Index j = 0; j < count; j += lanes) {
        store(scores + j, cap * hyperbolic_tangent<S>(load<F>(scores + j)));
      }
    }
    if (p.bias_kind == FmhaBias::bias) {
      const char* from =
          row_of(args.bias, p.bias, b, head, s.q_start + row, T::size_bias) + key * T::size_bias;
      for (Index j = 0; j < count; j += lanes) {
        const Index there = most(0, s.k_len - key - j);
        const F bias = load_as_float<T::bias, S>(from + j * T::size_bias, there);
        store(scores + j, load<F>(scores + j) + log2_e * bias);
      }
    } else if (p.bias_kind == FmhaBias::alibi) {
      const float slope = args.alibi_slopes[b * p.alibi_batch + head] * -log2_e;
      F distance = splat<F>(static_cast<float>(row + s.shift - key));
      for (int i = 0; i < lanes; ++i) distance[i] -= static_cast<float>(i);
      for (Index j = 0; j < count; j += lanes) {
        const F size = bits<F>(bits<I>(distance) & 0x7fffffff);
        store(scores + j, load<F>(scores + j) + slope * size);
        distance -= static_cast<float>(lanes);
      }
    }
  }

  // Minus infinity for the keys key .. key + count that the row does not see.
  static CKDISP_CPU_INLINE void mask(const Sequence& s, Visible seen, Index key, Index count,
                                     float* scores) {
    const auto hide = [&](Index from, Index to) CKDISP_CPU_LAMBDA {
      from = most(from, key);
      to = least(to, key + count);
      for (Index j = from; j < to; ++j) scores[j - key] = minus_infinity;
    };
    hide(s.sink, seen.low);
    hide(most(seen.high, s.sink), key + count);
  }
};

}  // namespace
}  // namespace ckdisp::cpu
