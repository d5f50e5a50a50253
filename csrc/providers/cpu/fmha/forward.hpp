// Forward families with many rows of Q: a block of K and V is packed and all rows of a part go
// over it, a panel of them at a time; softmax online, without a matrix of all scores.
#pragma once

#include "forward_again.hpp"
#include "powers.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct Forward {
  using Parts = ForwardParts<Kernel>;
  using Call = typename Parts::Call;
  using Part = typename Parts::Part;
  using Blocks = typename Parts::Blocks;
  using T = typename Parts::T;
  using S = typename T::S;
  using F = typename T::F;
  static constexpr int mr = Blocks::mr, nr = Blocks::nr, sk = T::sk, lanes = T::lanes;
  static constexpr int ahead = Parts::ahead;

  static ForwardPlan plan(const FmhaProblemData& p, int threads) {
    ForwardPlan cut{};
    cut.threads = threads;
    cut.group = p.nhead_q / p.nhead_k;
    cut.splits = p.family == Family::fmha_splitkv ? p.num_splits : 1;
    const Index heads = p.batch * p.nhead_k * cut.splits;
    cut.rows = least(p.seqlen_q, most(1, T::sq / cut.group));
    if (threads > 1) {
      const Index wanted = Index{threads} * parts_per_thread;
      while (heads * ceil_div(p.seqlen_q, cut.rows) < wanted && cut.rows * cut.group > 8 * mr) {
        cut.rows = ceil_div(cut.rows, 2);
      }
    }
    cut.chunks = ceil_div(p.seqlen_q, cut.rows);
    cut.rows = ceil_div(p.seqlen_q, cut.chunks);
    cut.parts = heads * cut.chunks;
    cut.depth = round_up(p.hdim_q, Blocks::step);
    cut.width = round_up(p.hdim_v, nr);
    const Index rows = round_up(cut.rows * cut.group, mr);
    cut.q = round_up(rows * cut.depth, 16);
    cut.o = rows * cut.width;
    cut.k = sk * cut.depth;
    cut.v = sk * cut.width;
    cut.sums = round_up(2 * rows, 16);
    cut.scores = (mr + 1) * sk + Blocks::weights(mr * sk);
    if (Parts::vectors(p)) {
      cut.rows_of_k = round_up(sk * p.hdim_q, 4);
      cut.rows_of_v = round_up(sk * p.hdim_v, 4);
    }
    return cut;
  }

  static std::uint64_t workspace_size(const FmhaProblemData& p, int threads) {
    const ForwardPlan cut = plan(p, threads);
    return static_cast<std::uint64_t>(cut.threads * cut.floats()) * sizeof(float);
  }

  static void run(const FmhaProblemData& p, const FmhaArgs& args, void* workspace, int threads) {
    const Call call{p, args, plan(p, threads), {args}, {p, args}, Scores<T>::factor(p, args)};
    std::int64_t counter = 0;
    parallel(threads, [&](int thread, int team) {
      [[maybe_unused]] const typename Blocks::Thread prepared;
      float* const own = static_cast<float*>(workspace) + thread * call.cut.floats();
      Tickets tickets(&counter, call.cut.parts, team);
      for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
        one_part(call, part, own);
      }
    });
  }

 private:
  // A panel of rows and the keys of the block that it looks at.
  struct Keys {
    Index first, count;  // of the block
    Index start;         // of what the panel needs, from `first`, and the end, in whole panels
    Index end;
    bool masked;
  };

  static CKDISP_CPU_NOINLINE void one_part(const Call& call, Index index, float* own) noexcept {
    Part part(call, index, own);
    if (part.count == 0) return;
    pack_q(part);
    if (call.p.store_randval && part.split == 0) put_randval(part);
    Parts::each_block(part, part.keys, [&](Index key, Index count) CKDISP_CPU_LAMBDA {
      if (thin(call, part)) {
        find_lines(part, key, count);
        one_panel<true>(part, 0, key, count);
      } else {
        Parts::pack_kv(part, key, count);
        for (Index i = 0; i < part.count; i += mr) one_panel<false>(part, i, key, count);
      }
    });
    ForwardAgain<Kernel>::finish(part);
  }

  static CKDISP_CPU_INLINE void pack_q(Part& part) {
    const Call& call = part.call;
    const Index depth = call.p.hdim_q, padded = call.cut.depth, rows = round_up(part.count, mr);
    const bool floats = thin(call, part);
    for (Index i = 0; i < rows; ++i) {
      const bool there = i < part.count;
      const char* const from = there ? row_of(call.args.q, call.p.q, part.b, part.head(i),
                                              part.s.q_start + part.row(i), T::size_in)
                                     : nullptr;
      if (floats) {
        widen_line<T, T::in>(part.q + i * padded, from, there ? depth : 0, padded, call.factor);
      } else {
        Blocks::put_row(part.q, i, padded, from, there ? depth : 0, call.factor);
        if (Blocks::finite_only && there) part.finite_q &= all_finite<T::in, S>(from, depth);
      }
      part.max[i] = minus_infinity;
      part.sum[i] = 0;
    }
    for (Index i = 0; i < rows * call.cut.width; ++i) part.o[i] = 0;
  }

  static bool thin(const Call& call, const Part& part) {
    return part.count <= T::mr && call.p.vlayout == Order::r;
  }

  static CKDISP_CPU_NOINLINE void find_lines(Part& part, Index key, Index count) noexcept {
    Parts::find_k(part, key, count);
    Parts::find_v(part, key, count);
    for (Index j = count; j < round_up(count, nr) + ahead; ++j) {
      part.k_lines[j] = part.k_lines[count - 1];
      part.v_lines[j] = part.v_lines[count - 1];
    }
    // What the next block begins with.
    const Index more = least(ahead, part.s.k_len - key - count);
    if (more <= 0 || count < sk || Parts::vectors(part.call.p)) return;
    const FmhaProblemData& p = part.call.p;
    find_rows(p, part.s, part.call.args.k, p.k, part.head_k, key + sk, more, T::size_in,
              part.k_lines + sk);
    find_rows(p, part.s, part.call.args.v, p.v, part.head_k, key + sk, more, T::size_in,
              part.v_lines + sk);
  }

  template <bool Thin>
  static CKDISP_CPU_INLINE void one_panel(Part& part, Index i, Index key, Index count) {
    const Sequence& s = part.s;
    const Index rows = least(mr, part.count - i);
    // The rows are neighbours, unless the panel has some of two heads.
    const bool wraps = part.row(i + rows - 1) - part.row(i) != rows - 1;
    const Index low_row = wraps ? part.first : part.row(i);
    const Index high_row = wraps ? part.first + part.rows - 1 : part.row(i + rows - 1);
    const Visible any = visible_to(s, low_row, high_row);
    Keys keys{key, count, 0, count, false};
    if (key >= s.sink) keys.start = most(0, any.low - key) / nr * nr;
    keys.end = most(least(count, any.high - key), least(count, s.sink - key));
    if (keys.start >= keys.end) return;
    keys.end = round_up(keys.end, nr);
    const bool sees_start = s.visible(high_row).low <= most(key, s.sink);
    keys.masked = !sees_start || s.visible(low_row).high < key + keys.end || keys.end > count;
    const Call& call = part.call;
    float keep[mr] = {};
    weigh<Thin>(part, i, rows, keys, keep);
    if (call.p.dropout) Parts::drop(part, i, rows, keys.first, keys.start, keys.end);
    if (call.scores.scaled()) {
      for (Index r = 0; r < rows; ++r) {
        call.scores.scale_keys(s, part.b, part.head_k, call.args.v_scale, key + keys.start,
                               keys.end - keys.start, part.scores + r * sk + keys.start);
      }
    }
    const Index end = least(keys.end, count), width = call.cut.width;
    float* const o = part.o + i * width;
    if (Thin ? keys.masked : (keys.masked || Blocks::finite_only) && !is_finite(part, count)) {
      // Nothing of a key that a row does not see, which may be NaN, reaches its sum.
      for (Index r = 0; r < rows; ++r) {
        float factor = keep[r];
        each_seen(s, part.row(i + r), key, keys.start, end, [&](Index from, Index to) {
          add_values_of_row<Thin>(part, r, from, to, o + r * width, factor);
          factor = 1;
        });
      }
      return;
    }
    if constexpr (Thin) {
      FmhaThin<T>::sums(part.scores, sk, rows, part.v_lines, call.p.hdim_v, keys.start, end, o,
                        width, keep);
    } else {
      Blocks::values(part.scores, rows, part.v, sk, keys.start, end, o, width, keep,
                     part.scores + (mr + 1) * sk);
    }
  }

  // O of a row times `keep`, plus the weighted rows start .. end of V in the block.
  template <bool Thin>
  static CKDISP_CPU_INLINE void add_values_of_row(const Part& part, Index r, Index start, Index end,
                                                  float* o, float keep) {
    const Index width = part.call.cut.width;
    const float* const weights = part.scores + r * sk;
    if constexpr (Thin) {
      FmhaThin<T>::sums(weights, sk, 1, part.v_lines, part.call.p.hdim_v, start, end, o, width,
                        &keep);
    } else {
      Blocks::values_of_row(weights, part.v, sk, start, end, o, width, keep);
    }
  }

  // Whether all numbers of V in the block are finite: asked once, for rows that hide some.
  static bool is_finite(Part& part, Index count) {
    if (part.finite < 0) part.finite = Blocks::finite(part.v, sk, count, part.call.cut.width);
    return part.finite == 1;
  }

  // Weights of a panel, in place of the scores.
  template <bool Thin>
  static CKDISP_CPU_INLINE void weigh(Part& part, Index i, Index rows, const Keys& keys,
                                      float (&keep)[mr]) {
    const Call& call = part.call;
    if constexpr (Thin || !Blocks::packs_factor) {
      // A positive factor leaves -infinity what it is.
      const bool late = !Thin && call.scores.plain() && (!keys.masked || call.factor > 0);
      score<Thin>(part, i, rows, keys, Thin || late ? 1 : call.factor);
      if (late) {
        softmax<true>(part, i, rows, keys, keep);
      } else {
        softmax<false>(part, i, rows, keys, keep);
      }
    } else {
      if (keys.masked || !call.scores.plain() || !powers(part, i, rows, keys, keep)) {
        score<false>(part, i, rows, keys, 1);
        softmax<false>(part, i, rows, keys, keep);
      }
      // What comes next is far away in long sequences.
      const Index depth = call.cut.depth;
      const float* const next = part.q + (i + mr) * depth;
      for (Index x = 0; i + mr < part.count && x < mr * depth; x += 16) {
        __builtin_prefetch(next + x);
      }
    }
  }

  // Q K^T of a panel times `factor`, and what happens to it but for the softmax.
  template <bool Thin>
  static CKDISP_CPU_INLINE void score(Part& part, Index i, Index rows, const Keys& keys,
                                      float factor) {
    const Call& call = part.call;
    const Index depth = call.p.hdim_q, padded = call.cut.depth;
    if constexpr (Thin) {
      FmhaThin<T>::products(part.q, padded, rows, part.k_lines, depth, keys.start, keys.end,
                            part.scores, sk);
    } else {
      Blocks::scores(part.q, i, padded, rows, part.k, depth, keys.start, keys.end, part.scores, sk,
                     part.finite_q && part.finite_k);
    }
    if (factor == 1 && call.scores.plain() && !keys.masked) return;
    const Index from = keys.first + keys.start, count = keys.end - keys.start;
    for (Index r = 0; r < rows; ++r) {
      const Index row = part.row(i + r);
      float* const line = part.scores + r * sk + keys.start;
      if (factor != 1) {
        for (Index j = 0; j < count; j += lanes) store(line + j, load<F>(line + j) * factor);
      }
      call.scores.finish(part.s, part.b, part.head(i + r), row, from, count, line);
      if (keys.masked) {
        Scores<T>::mask(part.s, part.s.visible(row), from, count, line, minus_infinity);
      }
    }
  }

  // Scores and their powers at once. False if a score is much larger than those before, with
  // nothing changed but the scores.
  static CKDISP_CPU_INLINE bool powers(Part& part, Index i, Index rows, const Keys& keys,
                                       float (&keep)[mr]) {
    FmhaPowers<T> powers;
    bool first = true;
    for (Index r = 0; r < rows; ++r) first = first && part.max[i + r] == minus_infinity;
    if (!first && !powers.set_bases(part.max + i, rows)) return false;
    const auto strip =
        FmhaTile<T>::by_height(rows, [](auto h) { return &FmhaPowers<T>::template strip<h>; });
    strip(Blocks::scores_of(part.q, i, part.call.cut.depth, part.k, part.call.p.hdim_q, keys.start,
                            keys.end, part.scores, sk),
          powers);
    if (!powers.good()) return false;
    float max[mr], sums[mr];
    for (Index r = 0; r < rows; ++r) {
      max[r] = powers.base(r);
      sums[r] = powers.sum(r);
    }
    rescale(part, i, rows, max, sums, keep);
    return true;
  }

  // Adds the sums of new powers. `keep` is what earlier ones are to be multiplied by.
  static CKDISP_CPU_INLINE void rescale(Part& part, Index i, Index rows, const float (&max)[mr],
                                        const float (&sums)[mr], float (&keep)[mr]) {
    float change[round_up(mr, lanes)] = {};
    for (Index r = 0; r < rows; ++r) {
      change[r] = part.max[i + r] - Parts::base_of(max[r]);
      part.max[i + r] = max[r];
    }
    for (Index r = 0; r < mr; r += lanes) {
      store(change + r, power_of_2<S>(load<F>(change + r)));
    }
    for (Index r = 0; r < rows; ++r) {
      keep[r] = change[r];
      part.sum[i + r] = part.sum[i + r] * keep[r] + sums[r];
    }
  }

  // Scores become powers, if `Scale` after they are multiplied by the factor. All rows step by
  // step: what one waits for is hidden by the others.
  template <bool Scale>
  static CKDISP_CPU_INLINE void softmax(Part& part, Index i, Index rows, const Keys& keys,
                                        float (&keep)[mr]) {
    F lines[mr];
    for (Index r = 0; r < rows; ++r) {
      float* const line = part.scores + r * sk;
      F top[2] = {splat<F>(minus_infinity), splat<F>(minus_infinity)};
      for (Index j = keys.start; j < keys.end; j += nr) {
        unroll<2>([&](auto v) CKDISP_CPU_LAMBDA {
          F x = load<F>(line + j + v * lanes);
          if constexpr (Scale) store(line + j + v * lanes, x *= part.call.factor);
          top[v] = larger<S>(x, top[v]);
        });
      }
      lines[r] = larger<S>(top[0], top[1]);
    }
    float max[mr], sums[mr];
    for (Index r = 0; r < rows; ++r) {
      const float before = part.max[i + r];
      const float now = largest_lane(lines[r]);
      max[r] = now <= before + Blocks::slack ? before : now;
    }
    for (Index r = 0; r < rows; ++r) {
      float* const line = part.scores + r * sk;
      const float base = Parts::base_of(max[r]);
      F sum[2] = {};
      for (Index j = keys.start; j < keys.end; j += nr) {
        unroll<2>([&](auto v) CKDISP_CPU_LAMBDA {
          const F power = power_of_2<S, T::rough>(load<F>(line + j + v * lanes) - base);
          store(line + j + v * lanes, power);
          sum[v] += power;
        });
      }
      lines[r] = sum[0] + sum[1];
    }
    for (Index r = 0; r < rows; ++r) sums[r] = sum_of_lanes(lines[r]);
    rescale(part, i, rows, max, sums, keep);
  }

  // The random bytes of all keys, also of those that a mask hides.
  static CKDISP_CPU_NOINLINE void put_randval(const Part& part) noexcept {
    const Call& call = part.call;
    for (Index i = 0; i < part.count; ++i) {
      const Index head = part.head(i), row = part.row(i);
      char* const to =
          row_of(call.args.randval, call.p.randval, part.b, head, part.s.q_start + row, 1);
      for (Index j = 0; j < part.s.k_len; j += RandomBytes::drawn) {
        std::uint8_t bytes[RandomBytes::drawn];
        call.random.draw(part.b * call.p.nhead_q + head, row, j, bytes);
        for (Index x = 0; x < RandomBytes::drawn && j + x < part.s.k_len; ++x) {
          to[j + x] = static_cast<char>(bytes[x]);
        }
      }
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
