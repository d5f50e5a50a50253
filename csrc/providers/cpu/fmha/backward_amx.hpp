// Gradients of attention as products of tiles by AMX. All numbers of the part are finite: what is
// hidden has zero weight.
#pragma once

#include "amx_blocks.hpp"
#include "backward_rows.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct BackwardAmx {
  using T = FmhaTraits<Kernel>;
  using Rows = BackwardRows<Kernel>;
  using Call = typename Rows::Call;
  using Range = typename Rows::Range;
  using Blocks = FmhaAmxBlocks<T, 2>;  // gradients are sums over many rows
  static constexpr int mr = Blocks::mr, nr = Blocks::nr;
  static constexpr int sq = static_cast<int>(round_up(T::sq, mr)), sk = T::sk;

  // Of a thread. Rows of Q and dO, and the same as columns' rows; of K and V.
  struct Buffers {
    Index rows;  // of a head, in whole panels
    float *q, *d_o, *q_rows, *do_rows, *k_columns, *v_columns, *k_rows;
    float *dq, *dk, *dv;
    float *p, *ds;                            // of a panel of rows
    float* large;                             // LargeRow of each row
    float *weights, *p_columns, *ds_columns;  // packed: dS of a panel, P and dS of a block

    Buffers(Room& room, const FmhaProblemData& problem, const BackwardPlan& cut)
        : rows(round_up(problem.seqlen_q, mr)) {
      q = room.take(Blocks::numbers(rows * cut.depth));
      d_o = room.take(Blocks::numbers(rows * cut.width));
      q_rows = room.take(Blocks::numbers(rows * cut.depth));
      do_rows = room.take(Blocks::numbers(rows * cut.width));
      k_columns = room.take(Blocks::numbers(sk * cut.depth));
      v_columns = room.take(Blocks::numbers(sk * cut.width));
      k_rows = room.take(Blocks::numbers(sk * cut.depth));
      dq = room.take(rows * cut.depth);
      dk = room.take(cut.keys * cut.depth);
      dv = room.take(cut.keys * cut.width);
      p = room.take(mr * sk);
      ds = room.take(mr * sk);
      weights = room.take(Blocks::weights(mr * sk));
      p_columns = room.take(Blocks::weights(sq * sk));
      ds_columns = room.take(Blocks::weights(sq * sk));
      large = room.take(rows * Index{sizeof(LargeRow) / sizeof(float)});
    }
  };

  static CKDISP_CPU_NOINLINE void one_part(const typename Rows::Part& common, Room room) noexcept {
    const Tiles prepared;
    Part part(common, room);
    Rows::each_head(part, [&] { one_head(part); });
  }

 private:
  struct Part : Rows::Part, Buffers {
    float factor;  // of scores

    Part(const typename Rows::Part& common, Room& room)
        : Rows::Part(common),
          Buffers(room, common.call.p, common.call.cut),
          factor(Scores<T>::factor(common.call.p, common.call.args)) {
      Rows::Part::large = reinterpret_cast<LargeRow*>(Buffers::large);
    }
  };

  static void one_head(Part& part) {
    const BackwardPlan& cut = part.call.cut;
    const FmhaProblemData& p = part.call.p;
    const Index rows = part.s.q_len;
    for (Index i = 0; i < round_up(rows, mr); ++i) {
      const bool there = i < rows;
      Blocks::put_row(part.q, i, cut.depth, there ? part.q_line(i) : nullptr, there ? p.hdim_q : 0,
                      1);
      Blocks::put_row(part.d_o, i, cut.width, there ? part.do_line(i) : nullptr,
                      there ? p.hdim_v : 0, 1);
    }
    const char* lines[mr];
    for (Index i = 0; i < rows; i += mr) {
      const Index some = least(mr, rows - i);
      for (Index r = 0; r < some; ++r) lines[r] = part.q_line(i + r);
      Blocks::rows(Blocks::step_of(part.q_rows, i), lines, some, p.hdim_q, part.rows);
      for (Index r = 0; r < some; ++r) lines[r] = part.do_line(i + r);
      Blocks::rows(Blocks::step_of(part.do_rows, i), lines, some, p.hdim_v, part.rows);
    }
    Rows::each_block(part, part.rows, sq, pack_kv, one_block);
  }

  static void pack_kv(Part& part, Index key, Index count) {
    const Call& call = part.call;
    const char* lines[sk];
    part.find_k(key, count, lines);
    Blocks::columns(part.k_columns, lines, 0, count, call.p.hdim_q, call.cut.depth);
    Blocks::rows(part.k_rows, lines, count, call.p.hdim_q, sk);
    part.find_v(key, count, lines);
    Blocks::columns(part.v_columns, lines, 0, count, call.p.hdim_v, call.cut.width);
  }

  // Rows i .. i + rows of the head and keys key .. key + count of the part.
  static CKDISP_CPU_NOINLINE void one_block(Part& part, Index i, Index rows, Index key,
                                            Index count) noexcept {
    const BackwardPlan& cut = part.call.cut;
    const Index from = part.first + key;
    // Panels of rows that look at some keys, and those keys.
    Index low = rows, high = 0, start = sk, end = 0;
    Range ranges[sq / mr];
    for (Index r = 0; r < rows; r += mr) {
      Range& range = ranges[r / mr];
      range = Rows::range_of(part.s, i + r, least(mr, rows - r), from, count);
      if (range.empty()) continue;
      low = least(low, r);
      high = r + mr;
      start = least(start, range.start);
      end = most(end, range.end);
    }
    for (Index r = 0; r < rows; r += mr) {
      const Range& range = ranges[r / mr];
      const Index some = least(mr, rows - r);
      if (low <= r && r < high) weigh(part, i + r, some, from, range, start, end, r);
      if (part.call.p.dbias_out) {
        Rows::put_dbias(part, i + r, some, from, count, range, part.ds, sk);
      }
    }
    if (low >= high) return;
    // dV += P^T dO, dK += dS^T Q.
    for (Index j = start; j < end; j += nr) {
      Blocks::sums(part.p_columns + Blocks::weights(j * sq), nr, sq, low, high,
                   Blocks::step_of(part.do_rows, i), part.rows, part.dv + (key + j) * cut.width,
                   cut.width);
      Blocks::sums(part.ds_columns + Blocks::weights(j * sq), nr, sq, low, high,
                   Blocks::step_of(part.q_rows, i), part.rows, part.dk + (key + j) * cut.depth,
                   cut.depth);
    }
  }

  // P and dS of a panel, row r .. of the block, and what it adds to dQ. Both are zero from `start`
  // to `end` where the panel does not look, and in rows that do not exist.
  static CKDISP_CPU_INLINE void weigh(Part& part, Index row, Index rows, Index from,
                                      const Range& range, Index start, Index end, Index r) {
    const BackwardPlan& cut = part.call.cut;
    const FmhaProblemData& p = part.call.p;
    if (!range.empty()) {
      Blocks::scores(part.q, row, cut.depth, rows, part.k_columns, p.hdim_q, range.start, range.end,
                     part.p, sk);
      Blocks::scores(part.d_o, row, cut.width, rows, part.v_columns, p.hdim_v, range.start,
                     range.end, part.ds, sk);
    }
    for (Index j = 0; j < mr; ++j) {
      Rows::weigh_row(part, row + j, from, j < rows ? range : Range{}, start, end, part.factor,
                      part.p + j * sk, part.ds + j * sk);
    }
    Blocks::put_columns(part.p_columns, part.p, sk, r, sq, start, end);
    Blocks::put_columns(part.ds_columns, part.ds, sk, r, sq, start, end);
    if (range.empty()) return;
    Blocks::put_weights(part.weights, part.ds, mr, sk, range.start, range.end);
    Blocks::sums(part.weights, mr, sk, range.start, range.end, part.k_rows, sk,
                 part.dq + row * cut.depth, cut.depth);
  }
};

}  // namespace
}  // namespace ckdisp::cpu
