// What the gradients of attention have in common, however matrices are multiplied: the cut of a
// problem, rows of weights and of their gradients, results.
#pragma once

#include "pack.hpp"
#include "philox.hpp"
#include "scores.hpp"

namespace ckdisp::cpu {
namespace {

// How one problem is cut: a part is some keys of a head of K, with all heads of Q that share it.
struct BackwardPlan {
  int threads;
  Index group;         // heads of Q for a head of K
  Index keys;          // of a sequence in a part
  Index chunks;        // parts of a sequence
  Index parts;         // in all
  Index depth, width;  // numbers of a row of Q and K; of V and dO, in whole panels
  Index own;           // floats of a thread's workspace
  Index dq_of_part;    // what each chunk adds to dQ, if there are several
};

// Rows whose LSE is so large that it keeps no fraction, or whose scores times log2(e) may not be
// finite: their weights are exp(score - base) * factor, of scores as they are.
struct LargeRow {
  float base, factor;
};

// Hands out a workspace, or counts what would be taken.
struct Room {
  float* base;
  Index taken = 0;

  float* take(Index floats) {
    float* const out = base == nullptr ? nullptr : base + taken;
    taken += round_up(floats, 16);
    return out;
  }
};

template <class Kernel>
struct BackwardRows {
  using T = FmhaTraits<Kernel>;
  using S = typename T::S;
  using F = typename T::F;
  static constexpr int nr = T::nr, sk = T::sk, lanes = T::lanes;

  struct Call {
    const FmhaProblemData& p;
    const FmhaArgs& args;
    BackwardPlan cut;
    RandomBytes random;
    Scores<T> scores;
    bool overflows;  // whether scores may be infinite for their factors times log2(e)
    float* workspace;

    // dQ of one chunk, before the scale: batch x nhead_q x seqlen_q x hdim_q.
    float* dq_of(Index chunk, Index b, Index head, Index row) const {
      return workspace + cut.threads * cut.own + chunk * cut.dq_of_part +
             ((b * p.nhead_q + head) * p.seqlen_q + row) * p.hdim_q;
    }
  };

  struct Part {
    const Call& call;
    Sequence s;
    Index b, head_k, chunk;
    Index first, keys;  // of the sequence
    Index head = 0;     // of Q
    LargeRow* large;    // of each row
    float factors[sk + RandomBytes::drawn];

    Part(const Call& c, Index part)
        : call(c),
          s(c.p, c.args, part / c.cut.chunks / c.p.nhead_k),
          b(part / c.cut.chunks / c.p.nhead_k),
          head_k(part / c.cut.chunks % c.p.nhead_k),
          chunk(part % c.cut.chunks),
          first(chunk * c.cut.keys),
          keys(most(0, least(c.cut.keys, s.k_len - first))),
          large(nullptr) {}

    // Lines of the head of Q, and of its gradient.
    const char* q_line(Index row) const {
      return row_of(call.args.q, call.p.q, b, head, s.q_start + row, T::size_in);
    }
    const char* do_line(Index row) const {
      return row_of(call.args.d_o, call.p.d_o, b, head, s.q_start + row, T::size_in);
    }
    // Of K and V, from key `key` of the part.
    void find_k(Index key, Index count, const char** lines) const {
      find_rows(call.p, s, call.args.k, call.p.k, head_k, first + key, count, T::size_in, lines);
    }
    void find_v(Index key, Index count, const char** lines) const {
      find_rows(call.p, s, call.args.v, call.p.v, head_k, first + key, count, T::size_in, lines);
    }
  };

  // Whether all numbers are finite that the part reads of Q, K, V and dO.
  static CKDISP_CPU_NOINLINE bool is_finite(Part part) noexcept {
    const FmhaProblemData& p = part.call.p;
    const Index group = part.call.cut.group;
    for (part.head = part.head_k * group; part.head < (part.head_k + 1) * group; ++part.head) {
      for (Index i = 0; i < part.s.q_len; ++i) {
        if (!all_finite<T::in, S>(part.q_line(i), p.hdim_q)) return false;
        if (!all_finite<T::in, S>(part.do_line(i), p.hdim_v)) return false;
      }
    }
    for (Index j = 0; j < part.keys; ++j) {
      const char* line;
      part.find_k(j, 1, &line);
      if (!all_finite<T::in, S>(line, p.hdim_q)) return false;
      part.find_v(j, 1, &line);
      if (!all_finite<T::in, S>(line, p.hdim_v)) return false;
    }
    return true;
  }

  // What a panel of rows looks at of a block of keys.
  struct Range {
    Index start, end;  // in whole panels of keys; empty if not start < end
    bool masked;

    bool empty() const { return start >= end; }
  };

  static CKDISP_CPU_INLINE Range range_of(const Sequence& s, Index row, Index rows, Index key,
                                          Index count) {
    const Visible first = s.visible(row), last = s.visible(row + rows - 1);
    Range out{0, 0, false};
    if (key >= s.sink) out.start = most(0, first.low - key) / nr * nr;
    out.end = most(least(count, last.high - key), least(count, s.sink - key));
    if (out.start >= out.end) return {0, 0, false};
    out.end = round_up(out.end, nr);
    out.masked = last.low > most(key, s.sink) || first.high < key + out.end || out.end > count;
    return out;
  }

  // Scores and dO V^T of a row become P and dS, from keys start .. end of the block that begins at
  // key `from`: zero outside of its range, which is empty if the row does not exist.
  static CKDISP_CPU_INLINE void weigh_row(Part& part, Index row, Index from, const Range& range,
                                          Index start, Index end, float factor, float* line,
                                          float* grads) {
    Index low = end, high = end;
    if (!range.empty()) {
      low = range.start;
      high = range.end;
      one_row(part, row, from, range, factor, line, grads);
    }
    const auto clear = [&](Index x) CKDISP_CPU_LAMBDA {
      store(line + x, F{});
      store(grads + x, F{});
    };
    for (Index x = start; x < low; x += lanes) clear(x);
    for (Index x = high; x < end; x += lanes) clear(x);
  }

  // The same for the keys of its range alone. Scores are multiplied by `factor` before.
  static CKDISP_CPU_INLINE void one_row(Part& part, Index row, Index from, const Range& range,
                                        float factor, float* line, float* grads) {
    const Call& call = part.call;
    const FmhaProblemData& p = call.p;
    const Index begin = range.start, count = range.end - range.start;
    if (!call.scores.plain() || range.masked) {
      // A positive factor leaves -infinity what it is.
      if (factor != 1 && !(call.scores.plain() && factor > 0)) {
        for (Index x = begin; x < range.end; x += lanes) {
          store(line + x, load<F>(line + x) * factor);
        }
        factor = 1;
      }
      call.scores.finish(part.s, part.b, part.head, row, from + begin, count, line + begin);
      if (range.masked) {
        Scores<T>::mask(part.s, part.s.visible(row), from + begin, count, line + begin,
                        minus_infinity);
      }
    }
    const Index place = lse_of(part, row);
    const float lse = call.args.lse[place], delta = call.args.delta[place];
    if (is_large(call, lse)) {
      const LargeRow& large = part.large[row];
      const char* lines[sk];
      find_lines(part, from + begin, count, lines);
      call.scores.one_row(part.s, part.b, part.head, row, from + begin, count, part.q_line(row),
                          lines, line + begin);
      weights_of_row<Unit::one>(part, row, from, range, delta, line, grads, [&](F x) {
        return power_of_2<S>((x - large.base) * log2_e) * large.factor;
      });
    } else {
      // A row that sees nothing has no weights.
      const float base = lse == minus_infinity ? -minus_infinity : lse * log2_e;
      weights_of_row<Unit::log2_e>(
          part, row, from, range, delta, line, grads,
          [&](F x) CKDISP_CPU_LAMBDA { return power_of_2<S>(x * factor - base); });
    }
    if (range.masked) {
      // What is not seen may be NaN, and so may be what the row knows of what it sees.
      const Visible seen = part.s.visible(row);
      Scores<T>::mask(part.s, seen, from + begin, count, line + begin, 0.0f);
      Scores<T>::mask(part.s, seen, from + begin, count, grads + begin, 0.0f);
      if (p.bias_kind == FmhaBias::bias) {
        call.scores.clear_hidden(part.s, part.b, part.head, row, from + begin, count, line + begin,
                                 0.0f);
        call.scores.clear_hidden(part.s, part.b, part.head, row, from + begin, count, grads + begin,
                                 0.0f);
      }
    }
  }

  // `weight` of each score makes P and dS.
  template <Unit U, class Weight>
  static CKDISP_CPU_INLINE void weights_of_row(Part& part, Index row, Index from,
                                               const Range& range, float delta, float* line,
                                               float* grads, const Weight& weight_of) {
    const Call& call = part.call;
    const FmhaProblemData& p = call.p;
    const Index begin = range.start;
    if (p.dropout) {
      const float* const factors = call.random.factors(part.b * p.nhead_q + part.head, row, from,
                                                       begin, range.end, part.factors) -
                                   begin;
      for (Index x = begin; x < range.end; x += lanes) {
        const F weight = weight_of(load<F>(line + x));
        const F kept = load<F>(factors + x);
        uncap<U>(call, line + x, grads + x, weight * (load<F>(grads + x) * kept - delta));
        store(line + x, weight * kept);
      }
    } else {
      for (Index x = begin; x < range.end; x += lanes) {
        const F weight = weight_of(load<F>(line + x));
        uncap<U>(call, line + x, grads + x, weight * (load<F>(grads + x) - delta));
        store(line + x, weight);
      }
    }
  }

  static Index lse_of(const Part& part, Index row) {
    const FmhaProblemData& p = part.call.p;
    return part.b * p.lse.batch + part.head * p.lse.head + part.s.q_start + row;
  }

  // Whether a row's scores are computed as they are.
  static CKDISP_CPU_INLINE bool is_large(const Call& call, float lse) {
    return cpu::is_large(lse) || (call.overflows && lse - lse == 0);
  }

  // Lines of K, of the keys that there are.
  static void find_lines(const Part& part, Index key, Index count, const char** lines) {
    find_rows(part.call.p, part.s, part.call.args.k, part.call.p.k, part.head_k, key,
              least(count, part.s.k_len - key), T::size_in, lines);
  }

  // Finds what weights of large rows of the head are relative to. An LSE that is that of the row,
  // as far as its bits go, is replaced by sums that have all of theirs.
  static CKDISP_CPU_NOINLINE void find_large(const Part& part) noexcept {
    const Call& call = part.call;
    for (Index row = 0; row < part.s.q_len; ++row) {
      const float lse = call.args.lse[lse_of(part, row)];
      if (!is_large(call, lse)) continue;
      ScoreSum sum;
      for (Index key = 0; key < part.s.k_len; key += sk) {
        const char* lines[sk];
        float scores[sk];
        const Index count = round_up(least(sk, part.s.k_len - key), nr);
        find_lines(part, key, count, lines);
        if (call.scores.one_row(part.s, part.b, part.head, row, key, count, part.q_line(row), lines,
                                scores)) {
          Scores<T>::template add<false>(sum, scores, count, nullptr);
        }
      }
      const float difference = sum.lse() - lse, size = lse < 0 ? -lse : lse;
      constexpr float last_bits = 1.0f / (1 << 21);
      const bool same = difference <= last_bits * size && difference >= -last_bits * size;
      part.large[row] = same ? LargeRow{sum.max, 1 / sum.sum} : LargeRow{lse, 1};
    }
  }

  // The gradient of the scores before the soft cap.
  template <Unit U>
  static CKDISP_CPU_INLINE void uncap(const Call& call, const float* score, float* to, F grad) {
    if (call.p.logits) {
      const F s = load<F>(score);
      const F t = s * ((U == Unit::one ? 1.0f : ln_2) / call.args.soft_cap);
      grad = s == minus_infinity ? F{} : grad * (1.0f - t * t);
    }
    store(to, grad);
  }

  // The gradients of `rows` rows, `apart` floats from each other, as those of the bias.
  static CKDISP_CPU_NOINLINE void put_dbias(const Part& part, Index row, Index rows, Index from,
                                            Index count, const Range& range, const float* ds,
                                            Index apart) noexcept {
    const Call& call = part.call;
    float line[sk];
    for (Index j = 0; j < rows; ++j) {
      const float* const grads = ds + j * apart;
      for (Index x = 0; x < count; ++x) {
        line[x] = x >= range.start && x < range.end ? grads[x] : 0.0f;
      }
      char* const to = row_of(call.args.dbias, call.p.dbias, part.b, part.head,
                              part.s.q_start + row + j, T::size_bias);
      narrow_line<T, T::bias>(to + from * T::size_bias, line, count, 1.0f);
    }
  }

  // Rounded to dQ, or to what bwd_convert_dq reads.
  static CKDISP_CPU_INLINE void put_dq(const Call& call, const Sequence& s, Index b, Index head,
                                       Index row, const float* from) {
    const FmhaProblemData& p = call.p;
    if (call.args.dq_acc != nullptr) {
      const Index place = ((b * p.nhead_q + head) * p.seqlen_q + row) * p.hdim_q;
      narrow_line<T, Dtype::fp32>(at(call.args.dq_acc, place * 4), from, p.hdim_q, call.args.scale);
    } else {
      narrow_line<T, T::out>(row_of(call.args.dq, p.dq, b, head, s.q_start + row, T::size_out),
                             from, p.hdim_q, call.args.scale);
    }
  }

  // All rows of the head: `dq` is what the part's keys give.
  static void put_dq_of_head(const Part& part, const float* dq) {
    const Call& call = part.call;
    for (Index i = 0; i < part.s.q_len; ++i) {
      const float* const from = dq + i * call.cut.depth;
      if (call.cut.chunks > 1) {
        narrow_line<T, Dtype::fp32>(at(call.dq_of(part.chunk, part.b, part.head, i), 0), from,
                                    call.p.hdim_q, 1.0f);
      } else {
        put_dq(call, part.s, part.b, part.head, i, from);
      }
    }
  }

  // `one_head` adds to dK and dV of the part what each head of Q gives.
  template <class P, class OneHead>
  static CKDISP_CPU_INLINE void each_head(P& part, const OneHead& one_head) {
    const BackwardPlan& cut = part.call.cut;
    const Index zeros = round_up(part.keys, sk);
    __builtin_memset(part.dk, 0, static_cast<std::size_t>(zeros * cut.depth) * sizeof(float));
    __builtin_memset(part.dv, 0, static_cast<std::size_t>(zeros * cut.width) * sizeof(float));
    for (Index g = 0; g < cut.group; ++g) {
      part.head = part.head_k * cut.group + g;
      one_head();
    }
    put_dk_dv(part, part.dk, part.dv);
  }

  // dQ of the head, of `rows` rows in whole panels: each block of keys is packed and all blocks of
  // at most `sq` rows go over it.
  template <class P, class PackKv, class OneBlock>
  static CKDISP_CPU_INLINE void each_block(P& part, Index rows, Index sq, const PackKv& pack_kv,
                                           const OneBlock& one_block) {
    const Index size = rows * part.call.cut.depth;
    find_large(part);
    __builtin_memset(part.dq, 0, static_cast<std::size_t>(size) * sizeof(float));
    for (Index key = 0; key < part.keys; key += sk) {
      const Index count = least(sk, part.keys - key);
      pack_kv(part, key, count);
      for (Index i = 0; i < part.s.q_len; i += sq) {
        one_block(part, i, least(sq, part.s.q_len - i), key, count);
      }
    }
    put_dq_of_head(part, part.dq);
  }

 private:
  static void put_dk_dv(const Part& part, const float* dk, const float* dv) {
    const Call& call = part.call;
    const FmhaProblemData& p = call.p;
    for (Index j = 0; j < part.keys; ++j) {
      const Index row = part.s.k_start + part.first + j;
      narrow_line<T, T::out>(row_of(call.args.dk, p.dk, part.b, part.head_k, row, T::size_out),
                             dk + j * call.cut.depth, p.hdim_q, call.args.scale);
      narrow_line<T, T::out>(row_of(call.args.dv, p.dv, part.b, part.head_k, row, T::size_out),
                             dv + j * call.cut.width, p.hdim_v, 1.0f);
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
