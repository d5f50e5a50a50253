// Families that go over rows once: the row sums of dO * O before the backward pass, the rounding of
// dQ behind it.
#pragma once

#include "pack.hpp"
#include "sequence.hpp"

namespace ckdisp::cpu {
namespace {

// f(sequence, batch, head, row) of every row of Q, on several threads.
template <class F>
inline void each_row(const FmhaProblemData& p, const FmhaArgs& args, int threads, const F& f) {
  const Index heads = p.batch * p.nhead_q;
  const Index parts = least(heads * p.seqlen_q, Index{threads} * parts_per_thread);
  std::int64_t counter = 0;
  parallel(threads, [&](int, int team) {
    Tickets tickets(&counter, parts, team);
    for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
      const Index end = part_start(heads * p.seqlen_q, parts, part + 1);
      Index i = part_start(heads * p.seqlen_q, parts, part);
      while (i < end) {
        const Index b = i / p.seqlen_q / p.nhead_q, head = i / p.seqlen_q % p.nhead_q;
        const Index line_end = least(end, (i / p.seqlen_q + 1) * p.seqlen_q);
        const Sequence s(p, args, b);
        for (; i < line_end; ++i) {
          if (i % p.seqlen_q < s.q_len) f(s, b, head, i % p.seqlen_q);
        }
      }
    }
  });
}

// fmha_bwd_dot_do_o.
template <class Kernel>
struct DotDoO {
  using T = FmhaTraits<Kernel>;
  using F = typename T::F;

  static std::uint64_t workspace_size(const FmhaProblemData&, int) { return 0; }

  static void run(const FmhaProblemData& p, const FmhaArgs& args, void*, int threads) {
    each_row(p, args, threads, [&](const Sequence& s, Index b, Index head, Index row) {
      const Index place = s.q_start + row;
      const char* const d_o = row_of(args.d_o, p.d_o, b, head, place, T::size_out);
      const char* const o =
          row_of(static_cast<const void*>(args.o), p.o, b, head, place, T::size_out);
      F sum{};
      for (Index x = 0; x < p.hdim_v; x += T::lanes) {
        const Index some = p.hdim_v - x;
        sum += load_as_float<T::out, typename T::S>(d_o + x * T::size_out, some) *
               load_as_float<T::out, typename T::S>(o + x * T::size_out, some);
      }
      args.delta[b * p.lse.batch + head * p.lse.head + place] = sum_of_lanes(sum);
    });
  }
};

// fmha_bwd_convert_dq.
template <class Kernel>
struct ConvertDq {
  using T = FmhaTraits<Kernel>;

  static std::uint64_t workspace_size(const FmhaProblemData&, int) { return 0; }

  static void run(const FmhaProblemData& p, const FmhaArgs& args, void*, int threads) {
    each_row(p, args, threads, [&](const Sequence& s, Index b, Index head, Index row) {
      const float* from = args.dq_acc + ((b * p.nhead_q + head) * p.seqlen_q + row) * p.hdim_q;
      narrow_line<T, T::out>(row_of(args.dq, p.dq, b, head, s.q_start + row, T::size_out), from,
                             p.hdim_q, 1.0f);
    });
  }
};

}  // namespace
}  // namespace ckdisp::cpu
