// fmha_bwd_dq_dk_dv: P again from Q, K and the logarithms of the sums, then
//
//   dV = P^T dO,  dS = P * (dO V^T - delta),  dK = scale dS^T Q,  dQ = scale dS K
//
// A block of K and V is packed and all rows of a head of Q go over it, a block of them at a time.
// Of a key's tile, these blocks are sq and sk. Sums have a fixed order: results do not depend on
// how threads run.
#pragma once

#include "pack.hpp"
#include "philox.hpp"
#include "scores.hpp"
#include "tile.hpp"

namespace ckdisp::cpu {
namespace {

// How one problem is cut. A part is some keys of a head of K, with all heads of Q that share it.
struct BackwardPlan {
  int threads;
  Index group;         // heads of Q for a head of K
  Index keys;          // of a sequence in a part
  Index chunks;        // parts of a sequence
  Index parts;         // in all
  Index depth, width;  // numbers of a row of Q and K; of V and dO, in whole panels
  // Distances of rows in a packed matrix: not powers of two, whose lines share places in a cache.
  Index apart_q, apart_o;
  // Floats of a thread's workspace, one behind the other.
  Index q, d_o, dq, kt, vt, k, dk, dv, block;
  Index dq_of_part;  // what each chunk adds to dQ, if there are several

  Index floats() const { return round_up(q + d_o + dq + kt + vt + k + dk + dv + 2 * block, 16); }
};

template <class Kernel>
struct Backward {
  using T = FmhaTraits<Kernel>;
  using S = typename T::S;
  using F = typename T::F;
  using Tile = FmhaTile<T>;
  using Pack = FmhaPack<T, T::in>;
  static constexpr int mr = T::mr, nr = T::nr, sq = T::sq, sk = T::sk, lanes = T::lanes;
  static constexpr int apart_p = sk + 16;

  static BackwardPlan plan(const FmhaProblemData& p, int threads) {
    BackwardPlan cut{};
    cut.threads = threads;
    cut.group = p.nhead_q / p.nhead_k;
    const Index heads = p.batch * p.nhead_k;
    cut.chunks = 1;
    if (heads % threads != 0 && heads < 4 * threads) {
      cut.chunks = most(1, least(ceil_div(p.seqlen_k, sk), threads));
    }
    cut.keys = most(sk, round_up(ceil_div(p.seqlen_k, cut.chunks), sk));
    cut.chunks = most(1, ceil_div(p.seqlen_k, cut.keys));
    cut.parts = heads * cut.chunks;
    cut.depth = round_up(p.hdim_q, nr);
    cut.width = round_up(p.hdim_v, nr);
    cut.apart_q = cut.depth + 16;
    cut.apart_o = cut.width + 16;
    const Index rows = round_up(p.seqlen_q, mr);
    cut.q = rows * cut.apart_q;
    cut.d_o = rows * cut.apart_o;
    cut.dq = rows * cut.depth;
    cut.kt = sk * p.hdim_q;
    cut.vt = sk * p.hdim_v;
    cut.k = sk * cut.apart_q;
    cut.dk = cut.keys * cut.depth;
    cut.dv = cut.keys * cut.width;
    cut.block = sq * apart_p;
    cut.dq_of_part = cut.chunks > 1 ? p.batch * p.nhead_q * p.seqlen_q * p.hdim_q : 0;
    return cut;
  }

  static std::uint64_t workspace_size(const FmhaProblemData& p, int threads) {
    const BackwardPlan cut = plan(p, threads);
    return static_cast<std::uint64_t>(cut.threads * cut.floats() + cut.chunks * cut.dq_of_part) *
           sizeof(float);
  }

  static void run(const FmhaProblemData& p, const FmhaArgs& args, void* workspace, int threads) {
    const Call call{p, args, plan(p, threads), {args}, {p, args}, static_cast<float*>(workspace)};
    std::int64_t counter = 0;
    parallel(threads, [&](int thread, int team) {
      Tickets tickets(&counter, call.cut.parts, team);
      for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
        one_part(call, part, thread);
      }
      if (call.cut.chunks == 1) return;
      barrier(team);
      add_chunks(call, thread, team);
    });
  }

 private:
  struct Call {
    const FmhaProblemData& p;
    const FmhaArgs& args;
    BackwardPlan cut;
    RandomBytes random;
    Scores<T> scores;
    float* workspace;

    // dQ of one chunk, before the scale: batch x nhead_q x seqlen_q x hdim_q.
    float* dq_of(Index chunk, Index b, Index head, Index row) const {
      return workspace + cut.threads * cut.floats() + chunk * cut.dq_of_part +
             ((b * p.nhead_q + head) * p.seqlen_q + row) * p.hdim_q;
    }
  };

  struct Part {
    const Call& call;
    Sequence s;
    Index b, head_k, chunk;
    Index first, keys;  // of the sequence
    float *q, *d_o, *dq, *kt, *vt, *k, *dk, *dv, *p, *ds;
    Index head = 0;  // of Q
    // Whether the packed K is finite, and all packed rows of Q and dO; -1 is not known.
    int finite = -1, finite_rows = -1;
    float factors[sk + RandomBytes::drawn];

    Part(const Call& c, Index part, Index thread)
        : call(c),
          s(c.p, c.args, part / c.cut.chunks / c.p.nhead_k),
          b(part / c.cut.chunks / c.p.nhead_k),
          head_k(part / c.cut.chunks % c.p.nhead_k),
          chunk(part % c.cut.chunks),
          first(chunk * c.cut.keys),
          keys(most(0, least(c.cut.keys, s.k_len - first))),
          q(c.workspace + thread * c.cut.floats()),
          d_o(q + c.cut.q),
          dq(d_o + c.cut.d_o),
          kt(dq + c.cut.dq),
          vt(kt + c.cut.kt),
          k(vt + c.cut.vt),
          dk(k + c.cut.k),
          dv(dk + c.cut.dk),
          p(dv + c.cut.dv),
          ds(p + c.cut.block) {}
  };

  // What a panel of rows looks at of a block of keys.
  struct Range {
    Index start, end;  // in whole panels of keys; empty if not start < end
    bool masked;
  };

  static CKDISP_CPU_NOINLINE void one_part(const Call& call, Index index, Index thread) noexcept {
    Part part(call, index, thread);
    const Index zeros = round_up(part.keys, sk);
    __builtin_memset(part.dk, 0, static_cast<std::size_t>(zeros * call.cut.depth) * sizeof(float));
    __builtin_memset(part.dv, 0, static_cast<std::size_t>(zeros * call.cut.width) * sizeof(float));
    for (Index g = 0; g < call.cut.group; ++g) {
      part.head = part.head_k * call.cut.group + g;
      one_head(part);
    }
    const FmhaProblemData& p = call.p;
    for (Index j = 0; j < part.keys; ++j) {
      const Index row = part.s.k_start + part.first + j;
      narrow_line<T, T::out>(row_of(call.args.dk, p.dk, part.b, part.head_k, row, T::size_out),
                             part.dk + j * call.cut.depth, p.hdim_q, call.args.scale);
      narrow_line<T, T::out>(row_of(call.args.dv, p.dv, part.b, part.head_k, row, T::size_out),
                             part.dv + j * call.cut.width, p.hdim_v, 1.0f);
    }
  }

  static void one_head(Part& part) {
    const Call& call = part.call;
    const FmhaProblemData& p = call.p;
    const Index rows = part.s.q_len, padded = round_up(rows, mr);
    part.finite_rows = -1;
    for (Index i = 0; i < padded; ++i) {
      // Rows that fill the last panel repeat the last one; nobody looks at what comes of them.
      const Index row = part.s.q_start + least(i, rows - 1);
      widen_line<T, T::in>(part.q + i * call.cut.apart_q,
                           row_of(call.args.q, p.q, part.b, part.head, row, T::size_in), p.hdim_q,
                           call.cut.depth, 1.0f);
      widen_line<T, T::in>(part.d_o + i * call.cut.apart_o,
                           row_of(call.args.d_o, p.d_o, part.b, part.head, row, T::size_in),
                           p.hdim_v, call.cut.width, 1.0f);
    }
    __builtin_memset(part.dq, 0, static_cast<std::size_t>(padded * call.cut.depth) * sizeof(float));
    for (Index key = 0; key < part.keys; key += sk) {
      const Index count = least(sk, part.keys - key);
      pack_kv(part, part.first + key, count);
      for (Index i = 0; i < rows; i += sq) one_block(part, i, least(sq, rows - i), key, count);
    }
    for (Index i = 0; i < rows; ++i) {
      const float* const from = part.dq + i * call.cut.depth;
      if (call.cut.chunks > 1) {
        narrow_line<T, Dtype::fp32>(at(call.dq_of(part.chunk, part.b, part.head, i), 0), from,
                                    p.hdim_q, 1.0f);
      } else {
        put_dq(call, part.s, part.b, part.head, i, from);
      }
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

  static void add_chunks(const Call& call, Index thread, Index team) {
    const FmhaProblemData& p = call.p;
    const Index heads = p.batch * p.nhead_q;
    for (Index i = part_start(heads, team, thread); i < part_start(heads, team, thread + 1); ++i) {
      const Index b = i / p.nhead_q, head = i % p.nhead_q;
      const Sequence s(p, call.args, b);
      for (Index row = 0; row < s.q_len; ++row) {
        float* const sum = call.dq_of(0, b, head, row);
        for (Index chunk = 1; chunk < call.cut.chunks; ++chunk) {
          const float* const more = call.dq_of(chunk, b, head, row);
          for (Index x = 0; x < p.hdim_q; ++x) sum[x] += more[x];
        }
        put_dq(call, s, b, head, row, sum);
      }
    }
  }

  static void pack_kv(Part& part, Index key, Index count) {
    const Call& call = part.call;
    const FmhaProblemData& p = call.p;
    const char* lines[sk];
    part.finite = -1;
    find_rows(p, part.s, call.args.k, p.k, part.head_k, key, count, T::size_in, lines);
    Pack::columns(part.kt, lines, 0, count, p.hdim_q, Scores<T>::factor(p, call.args));
    for (Index j = 0; j < count; ++j) {
      widen_line<T, T::in>(part.k + j * call.cut.apart_q, lines[j], p.hdim_q, call.cut.depth, 1.0f);
    }
    find_rows(p, part.s, call.args.v, p.v, part.head_k, key, count, T::size_in, lines);
    Pack::columns(part.vt, lines, 0, count, p.hdim_v, 1.0f);
  }

  // `key` is the block's first key of the part.
  static CKDISP_CPU_NOINLINE void one_block(Part& part, Index i, Index rows, Index key,
                                            Index count) noexcept {
    const Call& call = part.call;
    const Index from = part.first + key;
    Range ranges[sq / mr];
    const Index panels = ceil_div(rows, mr);
    Index start = sk, end = 0;
    for (Index panel = 0; panel < panels; ++panel) {
      const Index row = i + panel * mr;
      Range& range = ranges[panel];
      range = range_of(part.s, row, least(mr, part.s.q_len - row), from, count);
      if (range.start >= range.end) continue;
      start = least(start, range.start);
      end = most(end, range.end);
    }
    for (Index panel = 0; panel < panels; ++panel) {
      const Index r = panel * mr, some = least(mr, rows - r);
      if (start < end) weigh(part, i + r, some, from, ranges[panel], start, end, r);
      if (call.p.dbias_out) put_dbias(part, i + r, some, from, count, ranges[panel], r);
    }
    if (start >= end) return;
    bool all_see_all = true;  // of keys start .. end
    for (Index panel = 0; panel < panels; ++panel) {
      const Range& range = ranges[panel];
      all_see_all = all_see_all && !range.masked && range.start == start && range.end == end;
    }
    if (all_see_all || are_finite(part, i, rows)) {
      sum_over_rows(part, i, rows, key, start, least(end, count), ranges);
    } else {
      sum_row_by_row(part, i, rows, key, count, ranges);
    }
    for (Index panel = 0; panel < panels; ++panel) {
      const Range& range = ranges[panel];
      if (range.start >= range.end) continue;
      const Index r = panel * mr, stop = least(range.end, count);
      if (!range.masked || is_finite(part, count)) {
        add_keys(part, i, r, least(mr, rows - r), range.start, stop);
        continue;
      }
      // Nothing of a key that a row does not see, which may be NaN, reaches its gradient.
      for (Index j = r; j < least(r + mr, rows); ++j) {
        each_seen(part.s, i + j, from, range.start, stop,
                  [&](Index low, Index high) { add_keys(part, i, j, 1, low, high); });
      }
    }
  }

  // dQ += dS K of rows r .. r + rows of the block at row i, for keys start .. end.
  static CKDISP_CPU_INLINE void add_keys(const Part& part, Index i, Index r, Index rows,
                                         Index start, Index end) {
    const BackwardPlan& cut = part.call.cut;
    Tile::template choose<ARows::along_k>(rows)(
        {part.ds + r * apart_p + start, apart_p, part.k + start * cut.apart_q, cut.apart_q, nr,
         end - start, cut.depth / nr, part.dq + (i + r) * cut.depth, cut.depth},
        unit());
  }

  // Whether all numbers of K in the block are finite: asked once, for rows that hide some.
  static bool is_finite(Part& part, Index count) {
    const BackwardPlan& cut = part.call.cut;
    if (part.finite < 0) {
      part.finite = 1;
      for (Index j = 0; j < count && part.finite == 1; ++j) {
        part.finite = all_finite<F>(part.k + j * cut.apart_q, cut.depth) ? 1 : 0;
      }
    }
    return part.finite == 1;
  }

  // Whether all numbers of Q and dO in some rows are finite: asked of all rows first, once.
  static bool are_finite(Part& part, Index row, Index rows) {
    if (part.finite_rows < 0) part.finite_rows = scan(part, 0, part.s.q_len) ? 1 : 0;
    return part.finite_rows == 1 || scan(part, row, rows);
  }

  static bool scan(const Part& part, Index row, Index rows) {
    const BackwardPlan& cut = part.call.cut;
    for (Index i = row; i < row + rows; ++i) {
      if (!all_finite<F>(part.q + i * cut.apart_q, cut.depth)) return false;
      if (!all_finite<F>(part.d_o + i * cut.apart_o, cut.width)) return false;
    }
    return true;
  }

  static const float* unit() {
    static constexpr struct Ones {
      float values[mr];
      constexpr Ones() : values() {
        for (float& x : values) x = 1;
      }
    } ones;
    return ones.values;
  }

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

  // P and dS of a panel, from keys start .. end of the block; zero where it does not look.
  static CKDISP_CPU_INLINE void weigh(Part& part, Index row, Index rows, Index from,
                                      const Range& range, Index start, Index end, Index r) {
    const Call& call = part.call;
    const FmhaProblemData& p = call.p;
    if (range.start < range.end) {
      const Index panels = (range.end - range.start) / nr;
      float* const scores = part.p + r * apart_p + range.start;
      float* const grads = part.ds + r * apart_p + range.start;
      const auto strip = Tile::template choose<ARows::along_k>(rows);
      strip({part.q + row * call.cut.apart_q, call.cut.apart_q, part.kt + range.start * p.hdim_q,
             nr, nr * p.hdim_q, p.hdim_q, panels, scores, apart_p},
            nullptr);
      strip({part.d_o + row * call.cut.apart_o, call.cut.apart_o, part.vt + range.start * p.hdim_v,
             nr, nr * p.hdim_v, p.hdim_v, panels, grads, apart_p},
            nullptr);
    }
    for (Index j = 0; j < rows; ++j) {
      float* const line = part.p + (r + j) * apart_p;
      float* const grads = part.ds + (r + j) * apart_p;
      Index low = end, high = end;
      if (range.start < range.end) {
        low = range.start;
        high = range.end;
        one_row(part, row + j, from, range, line, grads);
      }
      for (Index x = start; x < low; x += lanes) clear(line + x, grads + x);
      for (Index x = high; x < end; x += lanes) clear(line + x, grads + x);
    }
  }

  static CKDISP_CPU_INLINE void clear(float* x, float* y) {
    store(x, F{});
    store(y, F{});
  }

  static CKDISP_CPU_INLINE void one_row(Part& part, Index row, Index from, const Range& range,
                                        float* line, float* grads) {
    const Call& call = part.call;
    const FmhaProblemData& p = call.p;
    const Index begin = range.start, count = range.end - range.start;
    if (!call.scores.plain() || range.masked) {
      call.scores.finish(part.s, part.b, part.head, row, from + begin, count, line + begin);
      if (range.masked) {
        Scores<T>::mask(part.s, part.s.visible(row), from + begin, count, line + begin,
                        minus_infinity);
      }
    }
    const Index place = part.b * p.lse.batch + part.head * p.lse.head + part.s.q_start + row;
    const float lse = call.args.lse[place], delta = call.args.delta[place];
    // A row that sees nothing has no weights.
    const float base = lse == minus_infinity ? -minus_infinity : lse * log2_e;
    if (p.dropout) {
      const float* const factors = call.random.factors(part.b * p.nhead_q + part.head, row, from,
                                                       begin, range.end, part.factors) -
                                   begin;
      for (Index x = begin; x < range.end; x += lanes) {
        const F weight = power_of_2<S>(load<F>(line + x) - base), factor = load<F>(factors + x);
        const F grad = weight * (load<F>(grads + x) * factor - delta);
        uncap(call, line + x, grads + x, grad);
        store(line + x, weight * factor);
      }
    } else {
      for (Index x = begin; x < range.end; x += lanes) {
        const F weight = power_of_2<S>(load<F>(line + x) - base);
        uncap(call, line + x, grads + x, weight * (load<F>(grads + x) - delta));
        store(line + x, weight);
      }
    }
    if (range.masked) {
      // What is not seen may be NaN, and so may be what the row knows of what it sees.
      const Visible seen = part.s.visible(row);
      Scores<T>::mask(part.s, seen, from + begin, count, line + begin, 0.0f);
      Scores<T>::mask(part.s, seen, from + begin, count, grads + begin, 0.0f);
    }
  }

  // The gradient of the scores before the soft cap.
  static CKDISP_CPU_INLINE void uncap(const Call& call, const float* score, float* to, F grad) {
    if (call.p.logits) {
      const F s = load<F>(score);
      const F t = s * (ln_2 / call.args.soft_cap);
      grad = s == minus_infinity ? F{} : grad * (1.0f - t * t);
    }
    store(to, grad);
  }

  static CKDISP_CPU_NOINLINE void put_dbias(Part& part, Index row, Index rows, Index from,
                                            Index count, const Range& range, Index r) noexcept {
    const Call& call = part.call;
    float line[sk];
    for (Index j = 0; j < rows; ++j) {
      const float* const grads = part.ds + (r + j) * apart_p;
      for (Index x = 0; x < count; ++x) {
        line[x] = x >= range.start && x < range.end ? grads[x] : 0.0f;
      }
      char* const to = row_of(call.args.dbias, call.p.dbias, part.b, part.head,
                              part.s.q_start + row + j, T::size_bias);
      narrow_line<T, T::bias>(to + from * T::size_bias, line, count, 1.0f);
    }
  }

  // dV += P^T dO and dK += dS^T Q, for keys start .. end of the block.
  static CKDISP_CPU_INLINE void sum_over_rows(const Part& part, Index i, Index rows, Index key,
                                              Index start, Index end, const Range* ranges) {
    const Index panels = ceil_div(rows, mr);
    for (Index j = start; j < end;) {
      const Index height = Tile::height(end - j);
      const auto looks = [&](Index panel) CKDISP_CPU_LAMBDA {
        return ranges[panel].start < j + height && ranges[panel].end > j;
      };
      Index low = 0, high = panels;
      while (low < high && !looks(low)) ++low;
      while (high > low && !looks(high - 1)) --high;
      if (low < high) {
        const Index first = low * mr;
        add_rows(part, i, first, least(high * mr, rows) - first, key, j, height);
      }
      j += height;
    }
  }

  // The same, but nothing of a row, which may be NaN, reaches the gradients of a key that it does
  // not see.
  static CKDISP_CPU_NOINLINE void sum_row_by_row(const Part& part, Index i, Index rows, Index key,
                                                 Index count, const Range* ranges) noexcept {
    for (Index r = 0; r < rows; ++r) {
      const Range& range = ranges[r / mr];
      each_seen(part.s, i + r, part.first + key, range.start, least(range.end, count),
                [&](Index low, Index high) {
                  for (Index j = low, height; j < high; j += height) {
                    height = Tile::height(high - j);
                    add_rows(part, i, r, 1, key, j, height);
                  }
                });
    }
  }

  // What rows r .. r + rows of the block at row i add to `height` keys from key j of the block.
  static CKDISP_CPU_INLINE void add_rows(const Part& part, Index i, Index r, Index rows, Index key,
                                         Index j, Index height) {
    const BackwardPlan& cut = part.call.cut;
    const auto strip = Tile::template choose<ARows::across_k>(height);
    strip({part.p + r * apart_p + j, apart_p, part.d_o + (i + r) * cut.apart_o, cut.apart_o, nr,
           rows, cut.width / nr, part.dv + (key + j) * cut.width, cut.width},
          unit());
    strip({part.ds + r * apart_p + j, apart_p, part.q + (i + r) * cut.apart_q, cut.apart_q, nr,
           rows, cut.depth / nr, part.dk + (key + j) * cut.depth, cut.depth},
          unit());
  }
};

}  // namespace
}  // namespace ckdisp::cpu
