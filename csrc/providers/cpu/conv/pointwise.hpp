// Pipeline `packed` of convolutions with a filter of one pixel that moves by one: one GEMM for each
// group, on the tensors as they are.
#pragma once

#include "../cost.hpp"
#include "core.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct ConvPointwise {
  using Gemm = Core<Kernel>;
  using T = Traits<Gemm>;
  using Pipe = Packed<Gemm>;
  static constexpr const ConvKey& key = Kernel::key;
  static constexpr bool forward = key.family == Family::conv_fwd;
  static constexpr bool weights = key.family == Family::conv_bwd_weight;

  static bool supports(const ConvProblemData&, Refusal*) { return true; }

  static double seconds(const ConvProblemData& p, int threads) {
    const Split split(p, threads);
    const auto rounds = static_cast<double>(ceil_div(p.g, split.groups_at_once));
    return rounds * Cost<Gemm>::seconds(gemm(p), split.threads_per_group);
  }

  static std::uint64_t workspace_size(const ConvProblemData& p, int threads) {
    const Split split(p, threads);
    return static_cast<std::uint64_t>(group_bytes(p, split) * split.groups_at_once);
  }

  static void run(const ConvProblemData& p, const ConvArgs& args, void* workspace, int threads) {
    const GemmProblemData q = gemm(p);
    if (q.m == 0 || q.n == 0) return;
    const Split split(p, threads);
    const Index bytes = group_bytes(p, split);
    std::int64_t counter = 0;
    parallel(split.groups_at_once, [&](int thread, int team) {
      Tickets tickets(&counter, p.g, team);
      for (Index group = tickets.take(); group >= 0; group = tickets.take()) {
        Pipe::run(q, matrices(p, args, group), at(workspace, thread * bytes),
                  split.threads_per_group);
      }
    });
  }

 private:
  // Threads share one group after the other, or take groups of their own where there are enough.
  struct Split {
    int groups_at_once, threads_per_group;
    Split(const ConvProblemData& p, int threads)
        : groups_at_once(p.g >= threads ? threads : 1),
          threads_per_group(p.g >= threads ? 1 : threads) {}
  };

  static Index group_bytes(const ConvProblemData& p, const Split& split) {
    const GemmProblemData q = gemm(p);
    if (q.m == 0 || q.n == 0) return 0;
    return round_up(static_cast<Index>(Pipe::workspace_size(q, split.threads_per_group)), 64);
  }

  // The GEMM of one group.
  static GemmProblemData gemm(const ConvProblemData& p) {
    const Index pixels = out_pixels(p);
    const Index in = p.g * p.c, out = p.g * p.k;  // elements from one pixel to the next
    GemmProblemData q{};
    q.m = weights ? p.k : pixels;
    q.n = forward ? p.k : p.c;
    q.k = weights ? pixels : forward ? p.c : p.k;
    q.lda = forward ? in : out;
    q.ldb = weights ? in : p.c;
    q.ldc = forward ? out : weights ? p.c : in;
    q.k_batch = 1;
    return q;
  }

  static GemmArgs matrices(const ConvProblemData& p, const ConvArgs& args, Index group) {
    const Index in = group * p.c, out = group * p.k, wei = group * p.k * p.c;
    GemmArgs q;
    q.a = forward ? at(args.in, in * T::size_a) : at(args.out, out * T::size_a);
    q.b = weights ? at(args.in, in * T::size_b) : at(args.wei, wei * T::size_b);
    q.c = at(args.result, (forward ? out : weights ? wei : in) * T::size_c);
    return q;
  }
};

}  // namespace
}  // namespace ckdisp::cpu
