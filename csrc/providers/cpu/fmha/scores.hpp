// What happens to a row of scores between Q K^T and the softmax: soft cap, bias, mask. Scores are
// kept times log2(e), so that the softmax takes powers of 2.
#pragma once

#include "sequence.hpp"

namespace ckdisp::cpu {
namespace {

template <class T>
struct Scores {
  using S = typename T::S;
  using F = typename T::F;
  using I = typename S::I;
  static constexpr int lanes = T::lanes;
  static constexpr Index scaled_rows = 128;  // of a block of blockscale

  const FmhaProblemData& p;
  const FmhaArgs& args;

  // What Q is multiplied by in advance.
  static float factor(const FmhaProblemData& p, const FmhaArgs& args) {
    float scale = args.scale;
    if (p.qscale == FmhaQscale::pertensor) scale *= args.q_scale[0] * args.k_scale[0];
    if (p.qscale == FmhaQscale::kv_blockscale) scale *= args.q_scale[0];
    return p.logits ? scale / args.soft_cap : scale * log2_e;
  }

  // Whether blocks of keys, and for blockscale of rows of Q, have scales of their own.
  bool scaled() const {
    return p.qscale == FmhaQscale::blockscale || p.qscale == FmhaQscale::kv_blockscale;
  }
  bool plain() const { return !p.logits && p.bias_kind == FmhaBias::no && !scaled(); }

  // Multiplies numbers of keys key .. key + count by the scales of K or V: blockscale has one for
  // every 128 keys, by batch and head, kv_blockscale one for a page, by head.
  void scale_keys(const Sequence& s, Index b, Index head_k, const float* scales, Index key,
                  Index count, float* numbers) const {
    const bool pages = p.qscale == FmhaQscale::kv_blockscale;
    const Index block = pages ? p.page_size : scaled_rows;
    count = least(count, s.k_len - key);
    for (Index j = 0; j < count;) {
      const Index index = (key + j) / block;
      const float scale =
          pages ? scales[s.pages[index] * p.nhead_k + head_k]
                : scales[(b * p.nhead_k + head_k) * ceil_div(p.seqlen_k, block) + index];
      const Index end = least(count, (index + 1) * block - key);
      for (; j < end; ++j) numbers[j] *= scale;
    }
  }

  // All but the mask, for keys key .. key + count of a row, `count` being whole vectors.
  CKDISP_CPU_INLINE void finish(const Sequence& s, Index b, Index head, Index row, Index key,
                                Index count, float* scores) const {
    if (scaled()) scale(s, b, head, row, key, count, scores);
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

  CKDISP_CPU_NOINLINE void scale(const Sequence& s, Index b, Index head, Index row, Index key,
                                 Index count, float* scores) const noexcept {
    scale_keys(s, b, head / (p.nhead_q / p.nhead_k), args.k_scale, key, count, scores);
    if (p.qscale != FmhaQscale::blockscale) return;
    const Index blocks = ceil_div(p.seqlen_q, scaled_rows);
    const float scale = args.q_scale[(b * p.nhead_q + head) * blocks + row / scaled_rows];
    for (Index j = 0; j < count; ++j) scores[j] *= scale;
  }

  // `hidden` for the keys key .. key + count that the row does not see.
  static CKDISP_CPU_INLINE void mask(const Sequence& s, Visible seen, Index key, Index count,
                                     float* numbers, float hidden) {
    const auto hide = [&](Index from, Index to) CKDISP_CPU_LAMBDA {
      from = most(from, key);
      to = least(to, key + count);
      for (Index j = from; j < to; ++j) numbers[j - key] = hidden;
    };
    hide(s.sink, seen.low);
    hide(most(seen.high, s.sink), key + count);
  }
};

}  // namespace
}  // namespace ckdisp::cpu
