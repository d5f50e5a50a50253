// fmha_bwd_dq_dk_dv: P again from Q, K and the logarithms of the sums, then
//
//   dV = P^T dO,  dS = P * (dO V^T - delta),  dK = scale dS^T Q,  dQ = scale dS K
//
// Of a key's tile, blocks of rows and keys are sq and sk. Sums have a fixed order: results do not
// depend on how threads run.
#pragma once

#include "backward_amx.hpp"
#include "backward_vectors.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct Backward {
  using T = FmhaTraits<Kernel>;
  using Rows = BackwardRows<Kernel>;
  using Call = typename Rows::Call;
  using Vectors = BackwardVectors<Kernel>;
  static constexpr int nr = T::nr, sk = T::sk;

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
    cut.own = floats<typename Vectors::Buffers>(p, cut);
    if constexpr (T::amx) {
      cut.own = most(cut.own, floats<typename BackwardAmx<Kernel>::Buffers>(p, cut));
    }
    cut.dq_of_part = cut.chunks > 1 ? p.batch * p.nhead_q * p.seqlen_q * p.hdim_q : 0;
    return cut;
  }

  static std::uint64_t workspace_size(const FmhaProblemData& p, int threads) {
    const BackwardPlan cut = plan(p, threads);
    return static_cast<std::uint64_t>(cut.threads * cut.own + cut.chunks * cut.dq_of_part) *
           sizeof(float);
  }

  static void run(const FmhaProblemData& p, const FmhaArgs& args, void* workspace, int threads) {
    const Scores<T> scores{p, args};
    const Call call{p,
                    args,
                    plan(p, threads),
                    {args},
                    scores,
                    scores.overflows(),
                    static_cast<float*>(workspace)};
    std::int64_t counter = 0;
    parallel(threads, [&](int thread, int team) {
      Tickets tickets(&counter, call.cut.parts, team);
      for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
        one_part({call, part}, {call.workspace + thread * call.cut.own});
      }
      if (call.cut.chunks == 1) return;
      barrier(team);
      add_chunks(call, thread, team);
    });
  }

 private:
  template <class Buffers>
  static Index floats(const FmhaProblemData& p, const BackwardPlan& cut) {
    Room room{nullptr};
    Buffers(room, p, cut);
    return room.taken;
  }

  static void one_part(const typename Rows::Part& part, Room room) {
    if constexpr (T::amx) {
      if (Rows::is_finite(part)) return BackwardAmx<Kernel>::one_part(part, room);
    }
    Vectors::one_part(part, room);
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
        Rows::put_dq(call, s, b, head, row, sum);
      }
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
