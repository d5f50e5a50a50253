// fmha_splitkv_combine: O of all keys from those of the parts, weighted by their sums.
#pragma once

#include "rows.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct Combine {
  using T = FmhaTraits<Kernel>;
  using S = typename T::S;
  using F = typename T::F;

  static std::uint64_t workspace_size(const FmhaProblemData&, int) { return 0; }

  static void run(const FmhaProblemData& p, const FmhaArgs& args, void*, int threads) {
    const Index rows = p.batch * p.nhead_q * p.seqlen_q;
    each_row(p, args, threads, [&](const Sequence& s, Index b, Index head, Index row) {
      const Index place = (b * p.nhead_q + head) * p.seqlen_q + row;
      float max = minus_infinity;
      for (Index i = 0; i < p.num_splits; ++i) {
        const float lse = args.lse_acc[i * rows + place];
        max = lse > max || lse != lse ? lse : max;
      }
      float sum = 0;
      for (Index i = 0; i < p.num_splits; ++i) sum += weight(args.lse_acc[i * rows + place], max);
      char* const to = row_of(args.o, p.o, b, head, s.q_start + row, T::size_out);
      for (Index x = 0; x < p.hdim_v; x += T::lanes) {
        const Index there = p.hdim_v - x;
        F total{};
        for (Index i = 0; i < p.num_splits && sum != 0; ++i) {
          const Index part = i * rows + place;
          total += (weight(args.lse_acc[part], max) / sum) *
                   load_partial<F, 4>(args.o_acc + part * p.hdim_v + x, there);
        }
        store_partial<T::size_out>(to + x * T::size_out, from_float<T::out, S>(total), there);
      }
      if (p.lse_out) {
        args.lse[b * p.lse.batch + head * p.lse.head + s.q_start + row] =
            sum == 0 ? minus_infinity : max + __builtin_logf(sum);
      }
    });
  }

 private:
  static CKDISP_CPU_INLINE float weight(float lse, float max) {
    if (lse == minus_infinity) return 0.0f;
    return power_of_2<S>((lse - max) * log2_e);
  }
};

}  // namespace
}  // namespace ckdisp::cpu
