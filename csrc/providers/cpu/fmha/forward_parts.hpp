// One part of the forward families: its share of the workspace, K and V on their way to it, its
// results.
#pragma once

#include "amx_blocks.hpp"
#include "philox.hpp"
#include "scores.hpp"
#include "thin.hpp"
#include "vector_blocks.hpp"

namespace ckdisp::cpu {
namespace {

// How one problem is cut. A part is some rows of the sequences of Q of all heads that share a head
// of K.
struct ForwardPlan {
  int threads;
  Index group;         // heads of Q for a head of K
  Index rows;          // of a sequence of Q in a part
  Index chunks;        // parts of a sequence
  Index splits;        // parts of the keys
  Index parts;         // in all
  Index depth, width;  // numbers of a row of Q and K; of V, in whole panels
  // Floats of a thread's workspace, one behind the other.
  Index q, o, k, v, sums, scores, rows_of_k, rows_of_v;

  Index floats() const {
    return round_up(q + o + k + v + sums + scores + rows_of_k + rows_of_v, 16);
  }
};

template <class Kernel>
struct ForwardParts {
  using T = FmhaTraits<Kernel>;
  using S = typename T::S;
  using F = typename T::F;
  using Blocks =
      std::conditional_t<T::amx, FmhaAmxBlocks<T, T::rough ? 1 : 2>, FmhaVectorBlocks<T>>;
  static constexpr int mr = Blocks::mr, nr = Blocks::nr, sk = T::sk, lanes = T::lanes;

  // Lines that are fetched ahead of their use.
  static constexpr int ahead = most(FmhaThin<T>::group, lanes);

  struct Call {
    const FmhaProblemData& p;
    const FmhaArgs& args;
    ForwardPlan cut;
    RandomBytes random;
    Scores<T> scores;
    float factor;  // of Q K^T
  };

  struct Range {
    Index begin, end;
  };

  // What a part is, and its share of the workspace.
  struct Part {
    const Call& call;
    Sequence s;
    Index b, head_k, split;
    Index first, rows;  // of each head
    Index count;        // in all
    Range keys;         // of the split
    float *q, *o, *k, *v, *max, *sum, *scores, *rows_of_k, *rows_of_v;
    int finite = -1;                        // whether the packed V is; -1 is not known
    bool finite_q = true, finite_k = true;  // if it matters

    // Rows of K and V of a block, and of some behind it, which are fetched ahead.
    const char* k_lines[sk + ahead];
    const char* v_lines[sk + ahead];

    Part(const Call& c, Index part, float* own)
        : call(c),
          s(c.p, c.args, part / c.cut.chunks / c.cut.splits / c.p.nhead_k),
          b(part / c.cut.chunks / c.cut.splits / c.p.nhead_k),
          head_k(part / c.cut.chunks / c.cut.splits % c.p.nhead_k),
          split(part / c.cut.chunks % c.cut.splits),
          // Last rows first: they see the most keys of a causal mask.
          first((c.cut.chunks - 1 - part % c.cut.chunks) * c.cut.rows),
          rows(s.skipped(c.p, c.args) ? 0 : most(0, least(c.cut.rows, s.q_len - first))),
          count(rows * c.cut.group),
          keys(keys_of(split)),
          q(own),
          o(q + c.cut.q),
          k(o + c.cut.o),
          v(k + c.cut.k),
          max(v + c.cut.v),
          sum(max + c.cut.sums / 2),
          scores(sum + c.cut.sums / 2),
          rows_of_k(scores + c.cut.scores),
          rows_of_v(rows_of_k + c.cut.rows_of_k) {}

    // Whole panels: the scores behind the keys of a split are those of keys that no row sees.
    Range keys_of(Index number) const {
      const Index size = round_up(ceil_div(s.k_len, call.cut.splits), most(16, nr));
      const Index from = least(s.k_len, number * size);
      return {from, least(s.k_len, from + size)};
    }

    Index head(Index i) const { return head_k * call.cut.group + i / rows; }
    Index row(Index i) const { return first + i % rows; }
  };

  // f(key, count) of the blocks of keys that some row sees.
  template <class Function>
  static CKDISP_CPU_INLINE void each_block(const Part& part, const Range& keys, const Function& f) {
    const Sequence& s = part.s;
    const Visible seen = visible_to(s, part.first, part.first + part.rows - 1);
    for (Index key = keys.begin; key < keys.end; key += sk) {
      const Index count = least(sk, keys.end - key);
      if (key >= s.sink && (key + count <= seen.low || key >= seen.high)) continue;
      f(key, count);
    }
  }

  // Pages of vectors of 16 bytes.
  static bool vectors(const FmhaProblemData& p) {
    return p.kv_memory_layout == FmhaKvLayout::vectorized;
  }

  static CKDISP_CPU_INLINE void find_k(Part& part, Index key, Index count) {
    const FmhaProblemData& p = part.call.p;
    if (!vectors(p)) {
      find_rows(p, part.s, part.call.args.k, p.k, part.head_k, key, count, T::size_in,
                part.k_lines);
    } else {
      rows_of_vectors(part, key, count, p.hdim_q, true);
    }
  }
  static CKDISP_CPU_INLINE void find_v(Part& part, Index key, Index count) {
    const FmhaProblemData& p = part.call.p;
    if (!vectors(p)) {
      find_rows(p, part.s, part.call.args.v, p.v, part.head_k, key, count, T::size_in,
                part.v_lines);
    } else {
      rows_of_vectors(part, key, count, p.hdim_v, false);
    }
  }

  // Copies rows out of such pages: of K, whose vectors run along a row, page[x / n][row][x % n], or
  // of V, whose vectors run along rows, page[row / n][x][row % n].
  static CKDISP_CPU_NOINLINE void rows_of_vectors(Part& part, Index key, Index count, Index width,
                                                  bool of_k) noexcept {
    const FmhaProblemData& p = part.call.p;
    constexpr Index n = 16 / T::size_in, size = T::size_in;
    char* to = reinterpret_cast<char*>(of_k ? part.rows_of_k : part.rows_of_v);
    const char** const lines = of_k ? part.k_lines : part.v_lines;
    for (Index j = 0; j < count; ++j) {
      const Index page = part.s.pages[(key + j) / p.page_size], row = (key + j) % p.page_size;
      const char* from = of_k ? row_of(part.call.args.k, p.k, page, part.head_k, 0, T::size_in)
                              : row_of(part.call.args.v, p.v, page, part.head_k, 0, T::size_in);
      lines[j] = to;
      if (of_k) {
        from += row * 16;
        for (Index x = 0; x < width; x += n, from += p.page_size * 16) {
          __builtin_memcpy(to + x * size, from, 16);
        }
      } else {
        from += row / n * width * 16 + row % n * size;
        for (Index x = 0; x < width; ++x, from += 16) __builtin_memcpy(to + x * size, from, size);
      }
      to += width * size;
    }
  }

  static CKDISP_CPU_INLINE void pack_kv(Part& part, Index key, Index count) {
    const Call& call = part.call;
    const FmhaProblemData& p = call.p;
    find_k(part, key, count);
    Blocks::columns(part.k, part.k_lines, 0, count, p.hdim_q, call.cut.depth);
    if (Blocks::finite_only) {
      part.finite_k = Blocks::finite(part.k, call.cut.depth, p.hdim_q, count);
    }
    part.finite = -1;
    if (p.vlayout == Order::r) {
      find_v(part, key, count);
      Blocks::rows(part.v, part.v_lines, count, p.hdim_v, sk);
      return;
    }
    for (Index x = 0; x < p.hdim_v; x += nr) {
      const Index some = least(nr, p.hdim_v - x);
      for (Index i = 0; i < some; ++i) {
        part.v_lines[i] = row_of(call.args.v, p.v, part.s.kv_batch, part.head_k, x + i, T::size_in);
      }
      Blocks::columns(Blocks::panel_of(part.v, x / nr, sk), part.v_lines,
                      (part.s.k_start + key) * T::size_in, some, count, sk);
    }
  }

  // What powers are relative to; `max` may be none.
  static float base_of(float max) { return max == minus_infinity ? 0.0f : max; }

  // Drops weights of keys start .. end of the block that begins at key `key`.
  static CKDISP_CPU_NOINLINE void drop(Part& part, Index i, Index rows, Index key, Index start,
                                       Index end) noexcept {
    for (Index r = 0; r < rows; ++r) {
      const Index head = part.b * part.call.p.nhead_q + part.head(i + r);
      const float* const factors =
          part.call.random.factors(head, part.row(i + r), key, start, end, part.scores + mr * sk);
      float* const line = part.scores + r * sk + start;
      for (Index j = 0; j < end - start; ++j) line[j] *= factors[j];
    }
  }

  // The results of a row.
  template <Unit U>
  static CKDISP_CPU_INLINE void put(const Part& part, Index i) {
    const Call& call = part.call;
    const FmhaProblemData& p = call.p;
    const float scale = p.qscale == FmhaQscale::pertensor ? call.args.v_scale[0] : 1.0f;
    const float sum = part.sum[i];
    const float factor = sum == 0 ? 0.0f : scale / sum;
    const float max = U == Unit::one ? part.max[i] : part.max[i] * ln_2;
    const float lse = sum == 0 ? minus_infinity : max + __builtin_logf(sum);
    const float* const o = part.o + i * call.cut.width;
    const Index head = part.head(i), row = part.row(i);
    if (p.family == Family::fmha_splitkv) {
      const Index place = ((part.split * p.batch + part.b) * p.nhead_q + head) * p.seqlen_q + row;
      call.args.lse_acc[place] = lse;
      narrow_line<T, Dtype::fp32>(at(call.args.o_acc, place * p.hdim_v * 4), o, p.hdim_v, factor);
      return;
    }
    char* const to = row_of(call.args.o, p.o, part.b, head, part.s.q_start + row, T::size_out);
    narrow_line<T, T::out>(to, o, p.hdim_v, factor);
    if (p.lse_out) {
      *reinterpret_cast<float*>(
          row_of(call.args.lse, p.lse, part.b, head, part.s.q_start + row, 4)) = lse;
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
