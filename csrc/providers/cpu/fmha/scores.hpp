// What happens to a row of scores between Q K^T and the softmax: soft cap, bias, mask. Scores are
// kept times log2(e), so that the softmax takes powers of 2; those of rows in which this is too
// large a number are computed once more, as they are.
#pragma once

#include "sequence.hpp"

namespace ckdisp::cpu {
namespace {

// What scores are kept times.
enum class Unit { log2_e, one };
constexpr float factor_of(Unit unit) { return unit == Unit::log2_e ? log2_e : 1.0f; }

// From here on an LSE has three bits behind the point: too few to tell sums from each other.
constexpr float large_lse = 1 << 20;
constexpr bool is_large(float lse) {
  return (lse >= large_lse || lse <= -large_lse) && lse - lse == 0;
}

// The largest of some scores as they are, and the sum of exp(score - largest).
struct ScoreSum {
  float max = minus_infinity, sum = 0;

  // Of no score, -infinity.
  float lse() const { return max == minus_infinity ? max : max + __builtin_logf(sum); }
};

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
  template <Unit U = Unit::log2_e>
  static float factor(const FmhaProblemData& p, const FmhaArgs& args) {
    float scale = args.scale;
    if (p.qscale == FmhaQscale::pertensor) scale *= args.q_scale[0] * args.k_scale[0];
    if (p.qscale == FmhaQscale::kv_blockscale) scale *= args.q_scale[0];
    return p.logits ? scale / args.soft_cap : scale * factor_of(U);
  }

  // Whether what scores are made of is infinite times log2(e).
  bool overflows() const {
    const float by = factor(p, args), cap = p.logits ? args.soft_cap * log2_e : 0;
    return by - by != 0 || cap - cap != 0;
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
  template <Unit U = Unit::log2_e>
  CKDISP_CPU_INLINE void finish(const Sequence& s, Index b, Index head, Index row, Index key,
                                Index count, float* scores) const {
    constexpr float unit = factor_of(U);
    if (scaled()) scale(s, b, head, row, key, count, scores);
    if (p.logits) {
      const float cap = args.soft_cap * unit;
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
        store(scores + j, load<F>(scores + j) + unit * bias);
      }
    } else if (p.bias_kind == FmhaBias::alibi) {
      // Times a distance of 0 it must be 0.
      const float slope = finite(args.alibi_slopes[b * p.alibi_batch + head] * -unit);
      F distance = splat<F>(static_cast<float>(row + s.shift - key));
      for (int i = 0; i < lanes; ++i) distance[i] -= static_cast<float>(i);
      for (Index j = 0; j < count; j += lanes) {
        const F size = bits<F>(bits<I>(distance) & 0x7fffffff);
        store(scores + j, load<F>(scores + j) + slope * size);
        distance -= static_cast<float>(lanes);
      }
    }
  }

  // Clears what a bias of -infinity hides from a row: what is there may be NaN.
  CKDISP_CPU_NOINLINE void clear_hidden(const Sequence& s, Index b, Index head, Index row,
                                        Index key, Index count, float* numbers,
                                        float hidden) const noexcept {
    const char* const from =
        row_of(args.bias, p.bias, b, head, s.q_start + row, T::size_bias) + key * T::size_bias;
    for (Index j = 0; j < count; j += lanes) {
      const Index there = most(0, s.k_len - key - j);
      const F bias = load_as_float<T::bias, S>(from + j * T::size_bias, there);
      store(numbers + j, bias == minus_infinity ? splat<F>(hidden) : load<F>(numbers + j));
    }
  }

  // Whether a bias hides all keys from a row.
  bool hides_all(const Sequence& s, Index b, Index head, Index row) const {
    if (p.bias_kind != FmhaBias::bias) return false;
    for (Index j = 0; j < s.k_len; ++j) {
      if (!hides(s, b, head, row, j)) return false;
    }
    return true;
  }

  // As each_seen of a mask, without what a bias of -infinity hides.
  template <class Function>
  void each_seen(const Sequence& s, Index b, Index head, Index row, Index key, Index start,
                 Index end, const Function& f) const {
    cpu::each_seen(s, row, key, start, end, [&](Index low, Index high) {
      if (p.bias_kind != FmhaBias::bias) return f(low, high);
      for (Index j = low, first; j < high; ++j) {
        for (first = j; j < high && !hides(s, b, head, row, key + j);) ++j;
        if (first < j) f(first, j);
      }
    });
  }

  // The scores of a row and keys key .. key + count, whole vectors, as they are: -infinity for what
  // the row does not see. `lines` are those of K. False if it sees none of them.
  CKDISP_CPU_NOINLINE bool one_row(const Sequence& s, Index b, Index head, Index row, Index key,
                                   Index count, const char* q, const char* const* lines,
                                   float* numbers) const noexcept {
    const auto hide = [&] {
      mask(s, s.visible(row), key, count, numbers, minus_infinity);
      if (p.bias_kind == FmhaBias::bias) {
        clear_hidden(s, b, head, row, key, count, numbers, minus_infinity);
      }
    };
    for (Index j = 0; j < count; ++j) numbers[j] = 0;
    hide();
    const float by = factor<Unit::one>(p, args);
    bool sees = false;
    for (Index j = 0; j < count; ++j) {
      if (numbers[j] != 0) continue;
      sees = true;
      numbers[j] = product(q, lines[j], by);
    }
    if (!sees) return false;
    finish<Unit::one>(s, b, head, row, key, count, numbers);
    hide();
    return true;
  }

  // Adds `count` scores, whole vectors, as they are. What the sum was has to be multiplied by the
  // result; `powers` gets the new numbers relative to the largest, if it is not null.
  template <bool Rough>
  static float add(ScoreSum& to, const float* scores, Index count, float* powers) {
    const float before = to.max;
    for (Index j = 0; j < count; ++j) to.max = scores[j] > to.max ? scores[j] : to.max;
    const float base = to.max == minus_infinity ? 0 : to.max;
    F sum{};
    for (Index j = 0; j < count; j += lanes) {
      const F power = power_of_2<S, Rough>((load<F>(scores + j) - base) * log2_e);
      if (powers != nullptr) store(powers + j, power);
      sum += power;
    }
    const float keep = power_of_2<S>((before - base) * log2_e);
    to.sum = to.sum * keep + sum_of_lanes(sum);
    return keep;
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

 private:
  static float finite(float x) {
    constexpr float largest = __FLT_MAX__;
    return x > largest ? largest : x < -largest ? -largest : x;
  }

  bool hides(const Sequence& s, Index b, Index head, Index row, Index key) const {
    const char* const from = row_of(args.bias, p.bias, b, head, s.q_start + row, T::size_bias);
    return load_as_float<T::bias, S>(from + key * T::size_bias, 1)[0] == minus_infinity;
  }

  // Lines of Q and K times each other, the first times `by`.
  float product(const char* q, const char* k, float by) const {
    F sum{};
    for (Index x = 0; x < p.hdim_q; x += lanes) {
      const Index there = p.hdim_q - x;
      const F a = load_as_float<T::in, S>(q + x * T::size_in, there);
      sum += a * by * load_as_float<T::in, S>(k + x * T::size_in, there);
    }
    return sum_of_lanes(sum);
  }
};

}  // namespace
}  // namespace ckdisp::cpu
