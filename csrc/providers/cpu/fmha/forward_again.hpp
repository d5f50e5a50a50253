// Rows of the forward families once more: those in which scores times log2(e) were infinite, or in
// which something was not finite that a bias of -infinity hides.
#pragma once

#include "forward_parts.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct ForwardAgain {
  using Parts = ForwardParts<Kernel>;
  using Part = typename Parts::Part;
  using Call = typename Parts::Call;
  using Blocks = typename Parts::Blocks;
  using T = typename Parts::T;
  using S = typename T::S;
  using F = typename T::F;
  static constexpr int nr = Blocks::nr, sk = T::sk, lanes = T::lanes;

  // Writes the results of all rows.
  static CKDISP_CPU_NOINLINE void finish(Part& part) noexcept {
    bool all = true;
    for (Index i = 0; i < part.count; ++i) {
      if (is_good(part, i)) {
        if (part.sum[i] == 0) clear(part, i);  // the products of no weight and NaN
        Parts::template put<Unit::log2_e>(part, i);
        part.sum[i] = done;
      } else {
        all = false;
      }
    }
    if (!all) once_more(part);
  }

 private:
  static constexpr float done = -1;  // in place of the sum of a row

  // Whether a row is what it should be. Else scores times log2(e) were infinite, or what a bias
  // hides was not finite, or its sum is lost between large parts of keys; or it sees such numbers.
  static CKDISP_CPU_INLINE bool is_good(const Part& part, Index i) {
    const Call& call = part.call;
    const float sum = part.sum[i], max = part.max[i];
    if (sum > 0 && sum < -minus_infinity) {
      // A bit less than what is large, for rounding.
      constexpr float limit = large_lse * log2_e * 0.99f;
      if (call.cut.splits > 1 && !(max < limit && max > -limit)) return false;
      const Index width = call.cut.width;
      return call.p.bias_kind != FmhaBias::bias ||
             all_finite<Dtype::fp32, S>(part.o + i * width, width);
    }
    if (sum != 0) return false;
    bool sees = false;
    each_seen(part.s, part.row(i), 0, part.keys.begin, part.keys.end,
              [&](Index, Index) { sees = true; });
    return !sees || call.scores.hides_all(part.s, part.b, part.head(i), part.row(i));
  }

  // Rows that are not done, one by one and with scores as they are.
  static CKDISP_CPU_NOINLINE void once_more(Part& part) noexcept {
    const auto each_row = [&](const auto& f) {
      for (Index i = 0; i < part.count; ++i) {
        if (part.sum[i] != done) f(i);
      }
    };
    each_row([&](Index i) { clear(part, i); });
    Parts::each_block(part, part.keys, [&](Index key, Index count) {
      Parts::pack_kv(part, key, count);
      each_row([&](Index i) { add_block(part, i, key, count); });
    });
    each_row([&](Index i) {
      if (part.call.cut.splits > 1) join_large(part, i);
      Parts::template put<Unit::one>(part, i);
    });
  }

  static void clear(Part& part, Index i) {
    const Index width = part.call.cut.width;
    part.max[i] = minus_infinity;
    part.sum[i] = 0;
    for (Index x = 0; x < width; ++x) part.o[i * width + x] = 0;
  }

  // Parts of the keys whose LSE is large would lose their shares in the sum of all parts: the first
  // of them has the result of all of them, and the others have none.
  static CKDISP_CPU_NOINLINE void join_large(Part& part, Index i) noexcept {
    if (!is_large(lse_of(part, i, part.split))) return;
    for (Index split = 0; split < part.call.cut.splits; ++split) {
      if (split == part.split || !is_large(lse_of(part, i, split))) continue;
      if (split < part.split) return clear(part, i);
      Parts::each_block(part, part.keys_of(split), [&](Index key, Index count) {
        Parts::pack_kv(part, key, count);
        add_block(part, i, key, count);
      });
    }
  }

  // Of a row and some of the keys.
  static float lse_of(Part& part, Index i, Index split) {
    ScoreSum sum;
    Parts::each_block(part, part.keys_of(split), [&](Index key, Index count) {
      Parts::find_k(part, key, count);
      if (scores_of(part, i, key, count)) {
        Scores<T>::template add<T::rough>(sum, part.scores + sk, round_up(count, nr), nullptr);
      }
    });
    return sum.lse();
  }

  // Scores of a row and a block of keys; whether it sees any of these.
  static bool scores_of(const Part& part, Index i, Index key, Index count) {
    const Call& call = part.call;
    const Index head = part.head(i), row = part.row(i);
    const char* const q =
        row_of(call.args.q, call.p.q, part.b, head, part.s.q_start + row, T::size_in);
    return call.scores.one_row(part.s, part.b, head, row, key, round_up(count, nr), q, part.k_lines,
                               part.scores + sk);
  }

  static CKDISP_CPU_NOINLINE void add_block(Part& part, Index i, Index key, Index count) noexcept {
    if (!scores_of(part, i, key, count)) return;
    const Call& call = part.call;
    const Sequence& s = part.s;
    const Index end = round_up(count, nr);
    float *const weights = part.scores, *const scores = part.scores + sk;
    ScoreSum sum{part.max[i], part.sum[i]};
    float keep = Scores<T>::template add<T::rough>(sum, scores, end, weights);
    part.max[i] = sum.max;
    part.sum[i] = sum.sum;
    if (call.p.dropout) Parts::drop(part, i, 1, key, 0, end);
    if (call.scores.scaled()) {
      call.scores.scale_keys(s, part.b, part.head_k, call.args.v_scale, key, end, weights);
    }
    // What is hidden may be NaN.
    call.scores.each_seen(
        s, part.b, part.head(i), part.row(i), key, 0, count, [&](Index from, Index to) {
          Blocks::values_of_row(weights, part.v, sk, from, to, part.o + i * call.cut.width,
                                call.cut.width, keep);
          keep = 1;
        });
  }
};

}  // namespace
}  // namespace ckdisp::cpu
