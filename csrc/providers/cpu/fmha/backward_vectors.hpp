// Gradients of attention as products of floats by vectors. A block of K and V is packed and all
// rows of a head of Q go over it, a block of them at a time.
#pragma once

#include "backward_rows.hpp"
#include "tile.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct BackwardVectors {
  using T = FmhaTraits<Kernel>;
  using S = typename T::S;
  using Rows = BackwardRows<Kernel>;
  using Call = typename Rows::Call;
  using Range = typename Rows::Range;
  using Tile = FmhaTile<T>;
  using Pack = FmhaPack<T, T::in>;
  static constexpr int mr = T::mr, nr = T::nr, sq = T::sq, sk = T::sk;
  static constexpr int apart_p = sk + 16;

  // Of a thread.
  struct Buffers {
    // Distances of rows in a packed matrix: not powers of two, whose lines share places in a cache.
    Index apart_q, apart_o;
    float *q, *d_o, *dq, *kt, *vt, *k, *dk, *dv, *p, *ds;
    float* large;  // LargeRow of each row

    Buffers(Room& room, const FmhaProblemData& problem, const BackwardPlan& cut)
        : apart_q(cut.depth + 16), apart_o(cut.width + 16) {
      const Index rows = round_up(problem.seqlen_q, mr);
      q = room.take(rows * apart_q);
      d_o = room.take(rows * apart_o);
      dq = room.take(rows * cut.depth);
      kt = room.take(sk * problem.hdim_q);
      vt = room.take(sk * problem.hdim_v);
      k = room.take(sk * apart_q);
      dk = room.take(cut.keys * cut.depth);
      dv = room.take(cut.keys * cut.width);
      p = room.take(sq * apart_p);
      ds = room.take(sq * apart_p);
      large = room.take(rows * Index{sizeof(LargeRow) / sizeof(float)});
    }
  };

  static CKDISP_CPU_NOINLINE void one_part(const typename Rows::Part& common, Room room) noexcept {
    Part part(common, room);
    Rows::each_head(part, [&] { one_head(part); });
  }

 private:
  struct Part : Rows::Part, Buffers {
    // Whether the packed K is finite, and all packed rows of Q and dO; -1 is not known.
    int finite = -1, finite_rows = -1;

    Part(const typename Rows::Part& common, Room& room)
        : Rows::Part(common), Buffers(room, common.call.p, common.call.cut) {
      Rows::Part::large = reinterpret_cast<LargeRow*>(Buffers::large);
    }
  };

  static void one_head(Part& part) {
    const BackwardPlan& cut = part.call.cut;
    const FmhaProblemData& p = part.call.p;
    const Index rows = part.s.q_len, padded = round_up(rows, mr);
    part.finite_rows = -1;
    for (Index i = 0; i < padded; ++i) {
      // Rows that fill the last panel repeat the last one; nobody looks at what comes of them.
      const Index row = least(i, rows - 1);
      widen_line<T, T::in>(part.q + i * part.apart_q, part.q_line(row), p.hdim_q, cut.depth, 1.0f);
      widen_line<T, T::in>(part.d_o + i * part.apart_o, part.do_line(row), p.hdim_v, cut.width,
                           1.0f);
    }
    Rows::each_block(part, padded, sq, pack_kv, one_block);
  }

  static void pack_kv(Part& part, Index key, Index count) {
    const Call& call = part.call;
    const char* lines[sk];
    part.finite = -1;
    part.find_k(key, count, lines);
    Pack::columns(part.kt, lines, 0, count, call.p.hdim_q, Scores<T>::factor(call.p, call.args));
    for (Index j = 0; j < count; ++j) {
      widen_line<T, T::in>(part.k + j * part.apart_q, lines[j], call.p.hdim_q, call.cut.depth,
                           1.0f);
    }
    part.find_v(key, count, lines);
    Pack::columns(part.vt, lines, 0, count, call.p.hdim_v, 1.0f);
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
      range = Rows::range_of(part.s, row, least(mr, part.s.q_len - row), from, count);
      if (range.empty()) continue;
      range.masked = range.masked || call.p.bias_kind == FmhaBias::bias;  // which may hide keys
      start = least(start, range.start);
      end = most(end, range.end);
    }
    for (Index panel = 0; panel < panels; ++panel) {
      const Index r = panel * mr, some = least(mr, rows - r);
      if (start < end) weigh(part, i + r, some, from, ranges[panel], start, end, r);
      if (call.p.dbias_out) {
        Rows::put_dbias(part, i + r, some, from, count, ranges[panel], part.ds + r * apart_p,
                        apart_p);
      }
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
      if (range.empty()) continue;
      const Index r = panel * mr, stop = least(range.end, count);
      if (!range.masked || is_finite(part, count)) {
        add_keys(part, i, r, least(mr, rows - r), range.start, stop);
        continue;
      }
      // Nothing of a key that a row does not see, which may be NaN, reaches its gradient.
      for (Index j = r; j < least(r + mr, rows); ++j) {
        call.scores.each_seen(part.s, part.b, part.head, i + j, from, range.start, stop,
                              [&](Index low, Index high) { add_keys(part, i, j, 1, low, high); });
      }
    }
  }

  // dQ += dS K of rows r .. r + rows of the block at row i, for keys start .. end.
  static CKDISP_CPU_INLINE void add_keys(const Part& part, Index i, Index r, Index rows,
                                         Index start, Index end) {
    const BackwardPlan& cut = part.call.cut;
    Tile::template choose<ARows::along_k>(rows)(
        {part.ds + r * apart_p + start, apart_p, part.k + start * part.apart_q, part.apart_q, nr,
         end - start, cut.depth / nr, part.dq + (i + r) * cut.depth, cut.depth},
        unit());
  }

  // Whether all numbers of K in the block are finite: asked once, for rows that hide some.
  static bool is_finite(Part& part, Index count) {
    const BackwardPlan& cut = part.call.cut;
    if (part.finite < 0) {
      part.finite = 1;
      for (Index j = 0; j < count && part.finite == 1; ++j) {
        part.finite = all_finite<Dtype::fp32, S>(part.k + j * part.apart_q, cut.depth) ? 1 : 0;
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
      if (!all_finite<Dtype::fp32, S>(part.q + i * part.apart_q, cut.depth)) return false;
      if (!all_finite<Dtype::fp32, S>(part.d_o + i * part.apart_o, cut.width)) return false;
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

  // P and dS of a panel, from keys start .. end of the block; zero where it does not look.
  static CKDISP_CPU_INLINE void weigh(Part& part, Index row, Index rows, Index from,
                                      const Range& range, Index start, Index end, Index r) {
    const Call& call = part.call;
    const FmhaProblemData& p = call.p;
    if (!range.empty()) {
      const Index panels = (range.end - range.start) / nr;
      float* const scores = part.p + r * apart_p + range.start;
      float* const grads = part.ds + r * apart_p + range.start;
      const auto strip = Tile::template choose<ARows::along_k>(rows);
      strip({part.q + row * part.apart_q, part.apart_q, part.kt + range.start * p.hdim_q, nr,
             nr * p.hdim_q, p.hdim_q, panels, scores, apart_p},
            nullptr);
      strip({part.d_o + row * part.apart_o, part.apart_o, part.vt + range.start * p.hdim_v, nr,
             nr * p.hdim_v, p.hdim_v, panels, grads, apart_p},
            nullptr);
    }
    for (Index j = 0; j < rows; ++j) {
      Rows::weigh_row(part, row + j, from, range, start, end, 1, part.p + (r + j) * apart_p,
                      part.ds + (r + j) * apart_p);
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
      part.call.scores.each_seen(part.s, part.b, part.head, i + r, part.first + key, range.start,
                                 least(range.end, count), [&](Index low, Index high) {
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
    strip({part.p + r * apart_p + j, apart_p, part.d_o + (i + r) * part.apart_o, part.apart_o, nr,
           rows, cut.width / nr, part.dv + (key + j) * cut.width, cut.width},
          unit());
    strip({part.ds + r * apart_p + j, apart_p, part.q + (i + r) * part.apart_q, part.apart_q, nr,
           rows, cut.depth / nr, part.dk + (key + j) * cut.depth, cut.depth},
          unit());
  }
};

}  // namespace
}  // namespace ckdisp::cpu
