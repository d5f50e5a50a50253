// Pipeline `packed` of convolutions: an implicit GEMM for each group, and in backward data for each
// residue of the stride, whose panels are packed straight from the tensors.
#pragma once

#include "../cost.hpp"
#include "core.hpp"
#include "sources.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct ConvImplicit {
  using Gemm = Core<Kernel>;
  using T = Traits<Gemm>;
  static constexpr const ConvKey& key = Kernel::key;
  static constexpr bool forward = key.family == Family::conv_fwd;
  static constexpr bool weights = key.family == Family::conv_bwd_weight;
  static constexpr bool pointwise =
      key.specialization == ConvSpecialization::filter1x1_stride1_pad0;

  // The panels of one group and class.
  struct Source {
    static constexpr bool scattered = !forward && !weights && !pointwise;
    using A = GatheredRows<T, T::key.dtype_a>;
    using B = std::conditional_t<weights, GatheredColumns<T, T::key.dtype_b>,
                                 Weights<T, T::key.dtype_b, !forward>>;
    const A* gathered_a;  // null: A is the matrix of p and args
    const B* packed_b;
    const GemmProblemData& p;
    const GemmArgs& args;
    const Geometry& g;
    Index row_pixel;  // bytes between pixels of C

    CKDISP_CPU_INLINE void a(std::uint32_t* to, Index row, Index k, Index depth) const {
      if constexpr (weights) {
        pack_a<T>(to, p, args.a, row, k, depth);
      } else {
        gathered_a->pack(to, row, k, depth);
      }
    }
    CKDISP_CPU_INLINE void b(std::uint32_t* to, Index column, Index k, Index depth) const {
      packed_b->pack(to, column, k, depth);
    }
    // Where the pixel of a row lies.
    CKDISP_CPU_INLINE void* row(Index i) const {
      const Walker walker(g, i);
      Index pixel = walker.image();
      for (int d = 0; d < kDims; ++d) pixel = pixel * in[d] + g.axis[d].own(walker.at(d));
      return at(args.c, pixel * row_pixel);
    }
    const std::int64_t* in;
  };
  using Pipe = std::conditional_t<pointwise, Packed<Gemm>, Packed<Gemm, Source>>;

  // The GEMM of one group; `g` and `runs` are those of the class in backward data.
  static GemmProblemData gemm(const ConvProblemData& p, const Geometry& g, const Runs& runs) {
    GemmProblemData out{};
    out.m = weights ? p.k : g.rows();
    out.n = forward ? p.k : weights ? filter_taps(p) * p.c : p.c;
    out.k = weights ? out_pixels(p) : !pointwise ? runs.size() : forward ? p.c : p.k;
    out.lda = forward ? p.g * p.c : p.g * p.k;
    out.ldb = weights ? p.g * p.c : p.c * filter_taps(p);
    out.ldc = forward ? p.g * p.k : weights ? filter_taps(p) * p.c : p.g * p.c;
    out.k_batch = 1;
    return out;
  }

  static bool supports(const ConvProblemData&, Refusal*) { return true; }

  static double seconds(const ConvProblemData& p, int threads) {
    const Split split(p, threads);
    double total = 0;
    for_classes(p, [&](const Geometry& g) {
      const Runs runs(g, weights ? 1 : T::kr);
      const GemmProblemData q = gemm(p, g, runs);
      const auto rounds = static_cast<double>(ceil_div(p.g, split.groups_at_once));
      total += rounds * Cost<Gemm>::seconds(q, split.threads_per_group);
    });
    // Gathering pixels takes longer than reading a matrix.
    return pointwise ? total : total * 1.1;
  }

  static std::uint64_t workspace_size(const ConvProblemData& p, int threads) {
    const Split split(p, threads);
    return group_bytes(p, split) * static_cast<std::uint64_t>(split.groups_at_once);
  }

  static void run(const ConvProblemData& p, const ConvArgs& args, void* workspace, int threads) {
    const Split split(p, threads);
    const auto stride = static_cast<Index>(group_bytes(p, split));
    for_classes(p, [&](const Geometry& g) {
      const Runs runs(g, weights ? 1 : T::kr);
      const GemmProblemData q = gemm(p, g, runs);
      if (q.m == 0 || q.n == 0) return;
      std::int64_t counter = 0;
      parallel(split.groups_at_once, [&](int thread, int team) {
        Tickets tickets(&counter, p.g, team);
        for (Index group = tickets.take(); group >= 0; group = tickets.take()) {
          one_group(p, args, g, runs, q, group, at(workspace, thread * stride),
                    split.threads_per_group);
        }
      });
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

  // Of the largest class.
  static std::uint64_t group_bytes(const ConvProblemData& p, const Split& split) {
    std::uint64_t most_bytes = 0;
    for_classes(p, [&](const Geometry& g) {
      const Runs runs(g, weights ? 1 : T::kr);
      const GemmProblemData q = gemm(p, g, runs);
      if (q.m == 0 || q.n == 0) return;
      const std::uint64_t bytes = Pipe::workspace_size(q, split.threads_per_group);
      if (bytes > most_bytes) most_bytes = bytes;
    });
    return (most_bytes + 63) / 64 * 64;
  }

  template <class F>
  static void for_classes(const ConvProblemData& p, const F& f) {
    if constexpr (forward || weights || pointwise) {
      f(forward_geometry(p));
    } else {
      for (Index z = 0; z < residues(p, 0); ++z) {
        for (Index y = 0; y < residues(p, 1); ++y) {
          for (Index x = 0; x < residues(p, 2); ++x) f(backward_geometry(p, {z, y, x}));
        }
      }
    }
  }

  static CKDISP_CPU_NOINLINE void one_group(const ConvProblemData& p, const ConvArgs& args,
                                            const Geometry& g, const Runs& runs,
                                            const GemmProblemData& q, Index group, void* workspace,
                                            int threads) {
    const Index channels_in = group * p.c, channels_out = group * p.k;
    const Index weight = group * p.k * filter_taps(p) * p.c;
    const char* in =
        args.in == nullptr ? nullptr : at(args.in, channels_in * size_of(key.dtype_in));
    const char* wei = args.wei == nullptr ? nullptr : at(args.wei, weight * size_of(key.dtype_wei));
    const char* out =
        args.out == nullptr ? nullptr : at(args.out, channels_out * size_of(key.dtype_out));
    GemmArgs matrices;
    matrices.a = forward ? in : out;
    matrices.b = weights ? in : wei;
    matrices.c = at(args.result, (forward   ? channels_out
                                  : weights ? weight
                                            : channels_in) *
                                     size_of(T::key.dtype_c));
    if constexpr (pointwise) {
      Pipe::run(q, matrices, Matrices<Gemm>{q, matrices}, workspace, threads);
    } else if constexpr (weights) {
      const typename Source::B b(g, runs, in, channels_in);
      Pipe::run(q, matrices, Source{nullptr, &b, q, matrices, g, 0, p.in}, workspace, threads);
    } else {
      const typename Source::A a(g, runs, forward ? in : out);
      const typename Source::B b(p, g, runs, wei);
      const Index pixel = p.g * p.c * size_of(key.dtype_in);
      Pipe::run(q, matrices, Source{&a, &b, q, matrices, g, pixel, p.in}, workspace, threads);
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
