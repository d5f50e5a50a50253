// Pipeline `skinny`: few rows of A. B is read once, in the order it is stored in, and converted on
// the way. The work is cut along N; along K as well if N is too small for all threads.
#pragma once

#include "epilogue.hpp"
#include "pack.hpp"
#include "skinny_kernels.hpp"

namespace ckdisp::cpu {
namespace {

struct SkinnyPlan {
  int parts_n, parts_k;
  Index rows;          // of A, rounded up to whole passes
  Index units;         // K in units
  Index line_a;        // units from one row of the copy of A to the next
  Index chunk;         // columns whose accumulators are kept at a time
  Index bytes_a;       // of the copy of A
  Index bytes_part;    // of one thread's scratch
  Index bytes_result;  // of the accumulators of one part of K, if there are several
};

template <class Kernel>
struct Skinny {
  using T = Traits<Kernel>;
  using Acc = typename T::Acc;
  using AccV = typename T::AccV;
  using U = typename T::U;
  using E = Finish<Kernel>;
  using K = SkinnyKernels<Kernel>;
  static constexpr const GemmKey& key = Kernel::key;
  static constexpr int lanes = T::lanes;
  static constexpr Index unit = sizeof(std::uint32_t);
  // Depth of a block of B that several passes read, converted, from the first-level cache.
  static constexpr Index depth_along = round_up(most(key.tile[2] / T::kr, 1), lanes);
  static constexpr Index depth_across = depth_along / lanes;

  static SkinnyPlan plan(const GemmProblemData& p, int threads) {
    SkinnyPlan plan{};
    plan.rows = round_up(p.m, p.m < T::mr ? K::cover(p.m) : T::mr);
    plan.units = ceil_div(p.k, T::kr);
    plan.line_a = round_up(plan.units, lanes);
    // A thread should stream 64 KiB of B or more.
    const double streamed = static_cast<double>(p.n) * static_cast<double>(p.k) * T::size_b / 65536;
    const Index useful = streamed < threads ? most(1, static_cast<Index>(streamed)) : threads;
    const Index blocks = ceil_div(p.n, T::b_along_k ? T::nv : T::nr);
    const Index parts_n = least(useful, blocks);
    const Index parts_k = least(useful / parts_n, most(1, plan.units / (16 * lanes)));
    plan.parts_n = static_cast<int>(parts_n);
    plan.parts_k = static_cast<int>(parts_k);
    plan.chunk = least(round_up(most(key.tile[1], 1), T::nr),
                       round_up(ceil_div(p.n, parts_n), T::nr) + T::nr);
    plan.bytes_a = round_up(plan.rows * plan.line_a * unit, 64);
    const Index block = T::nv * depth_along * unit;
    plan.bytes_part = block + plan.rows * unit * (T::b_along_k ? T::nr : plan.chunk);
    plan.bytes_part = round_up(plan.bytes_part, 64);
    plan.bytes_result = parts_k > 1 ? round_up(p.m * p.n * unit, 64) : 0;
    return plan;
  }

  static std::uint64_t workspace_size(const GemmProblemData& p, int threads) {
    const SkinnyPlan cut = plan(p, threads);
    return static_cast<std::uint64_t>(cut.bytes_a + cut.bytes_result * cut.parts_k +
                                      cut.bytes_part * cut.parts_n * cut.parts_k);
  }

  static void run(const GemmProblemData& p, const GemmArgs& args, void* workspace, int threads) {
    const SkinnyPlan cut = plan(p, threads);
    parallel(cut.parts_n * cut.parts_k,
             [&](int thread, int team) { work(Call{p, args, cut, workspace}, thread, team); });
  }

 private:
  struct Call {
    const GemmProblemData& p;
    const GemmArgs& args;
    const SkinnyPlan& cut;
    void* workspace;

    std::uint32_t* a() const { return static_cast<std::uint32_t*>(workspace); }
    Acc* result(Index part_k) const {
      return reinterpret_cast<Acc*>(at(workspace, cut.bytes_a + part_k * cut.bytes_result));
    }
    char* scratch(Index part) const {
      const Index before = cut.bytes_a + cut.parts_k * cut.bytes_result;
      return at(workspace, before + part * cut.bytes_part);
    }
  };

  // The columns and units of one thread.
  struct Part {
    Index n0, n1, k0, k1;
    Index part_k;
    std::uint32_t* block;  // converted block of B
    Acc* acc;              // accumulators
  };

  static CKDISP_CPU_NOINLINE void work(const Call& call, int thread, int team) noexcept {
    const SkinnyPlan& cut = call.cut;
    copy_a(call, thread, team);
    barrier(team);
    const Index parts = Index{cut.parts_n} * cut.parts_k;
    for (Index i = thread; i < parts; i += team) {
      constexpr Index grain = T::b_along_k ? T::nv : T::nr;
      const Index blocks = ceil_div(call.p.n, grain);
      const Index in = i % cut.parts_n;
      Part part{};
      part.part_k = i / cut.parts_n;
      part.n0 = part_start(blocks, cut.parts_n, in) * grain;
      part.n1 = least(call.p.n, part_start(blocks, cut.parts_n, in + 1) * grain);
      const Index steps = ceil_div(cut.units, lanes);
      part.k0 = part_start(steps, cut.parts_k, part.part_k) * lanes;
      part.k1 = least(cut.units, part_start(steps, cut.parts_k, part.part_k + 1) * lanes);
      part.block = reinterpret_cast<std::uint32_t*>(call.scratch(i));
      part.acc = reinterpret_cast<Acc*>(part.block + T::nv * depth_along);
      if constexpr (T::b_along_k) {
        along_k(call, part);
      } else {
        across_k(call, part);
      }
    }
    if (cut.parts_k > 1) {
      barrier(team);
      for (Index i = thread; i < call.p.m; i += team) add_parts(call, i);
    }
  }

  // A as rows of units, with zeros behind K and below M.
  static CKDISP_CPU_INLINE void copy_a(const Call& call, int thread, int team) {
    const GemmProblemData& p = call.p;
    constexpr Index step = Index{lanes} * T::kr;
    const Index steps = call.cut.line_a / lanes;
    const Index end = part_start(steps * call.cut.rows, team, thread + 1);
    for (Index s = part_start(steps * call.cut.rows, team, thread); s < end; ++s) {
      const Index i = s / steps;
      const Index k = s % steps * step;
      const Index count = i < p.m ? least(step, p.k - k) : 0;
      U v{};
      if constexpr (T::a_along_k) {
        if (count > 0) {
          v = units_along_k<T, key.dtype_a>(at(call.args.a, (i * p.lda + k) * T::size_a), count);
        }
      } else {
        char buffer[step * T::size_a] = {};
        for (Index j = 0; j < count; ++j) {
          __builtin_memcpy(buffer + j * T::size_a,
                           at(call.args.a, ((k + j) * p.lda + i) * T::size_a), T::size_a);
        }
        v = units_along_k<T, key.dtype_a>(buffer, step);
      }
      store(call.a() + s * lanes, v);
    }
  }

  // B contiguous along k: nv columns at a time, each a vector of partial dot products.
  static CKDISP_CPU_INLINE void along_k(const Call& call, const Part& part) {
    const GemmProblemData& p = call.p;
    const SkinnyPlan& cut = call.cut;
    const Index line = p.ldb * T::size_b;
    for (Index j = part.n0; j < part.n1; j += T::nv) {
      const Index cols = least(T::nv, part.n1 - j);
      const char* columns[T::nv];
      for (int i = 0; i < T::nv; ++i) {
        columns[i] = at(call.args.b, (j + least(i, cols - 1)) * line + part.k0 * T::kr * T::size_b);
      }
      const std::uint32_t* a = call.a() + part.k0;
      const Index values = least(part.k1 * T::kr, p.k) - part.k0 * T::kr;
      if (cut.rows <= T::mr) {
        K::choose_dot(cut.rows)(a, cut.line_a, columns, values, part.acc, false);
      } else {
        // Converted once, read by every pass.
        Index k = 0;
        do {
          const Index depth = least(depth_along * T::kr, values - k);
          const char* converted[T::nv];
          for (int i = 0; i < T::nv; ++i) {
            std::uint32_t* to = part.block + i * depth_along;
            K::convert(to, columns[i] + k * T::size_b, depth);
            converted[i] = reinterpret_cast<const char*>(to);
          }
          for (Index i = 0; i < cut.rows; i += T::mr) {
            K::dot_converted(a + i * cut.line_a + k / T::kr, cut.line_a, converted, depth,
                             part.acc + i * T::nr, k > 0);
          }
          k += depth;
        } while (k < values);
      }
      Acc sums[round_up(key.tile[0], T::mr) * T::nv];
      for (Index i = 0; i < p.m; ++i) {
        unroll<T::nv>([&](auto c) CKDISP_CPU_LAMBDA {
          sums[i * T::nv + c] = K::sum(load<AccV>(part.acc + i * T::nr + c * lanes));
        });
      }
      emit(call, part, sums, T::nv, j, cols);
    }
  }

  // B contiguous across k: a few rows at a time are added to accumulators that stay in the cache.
  static CKDISP_CPU_INLINE void across_k(const Call& call, const Part& part) {
    const GemmProblemData& p = call.p;
    const SkinnyPlan& cut = call.cut;
    const Index line = p.ldb * T::size_b;
    for (Index j0 = part.n0; j0 < part.n1; j0 += cut.chunk) {
      const Index cols = least(cut.chunk, part.n1 - j0);
      Index k = part.k0;
      do {
        const Index depth = least(depth_across, part.k1 - k);
        const Index values = least(depth * T::kr, p.k - k * T::kr);
        for (Index j = 0; j < cols; j += T::nr) {
          const char* from = at(call.args.b, k * T::kr * line + (j0 + j) * T::size_b);
          const Index width = least(T::nr, cols - j);
          const bool first = k == part.k0;
          if (cut.rows <= T::mr && width == T::nr) {
            K::choose_axpy(cut.rows)(call.a() + k, cut.line_a, from, line, values, part.acc + j,
                                     cut.chunk, !first);
            continue;
          }
          pack_across_k<T, key.dtype_b, T::nr>(part.block, from, line, width, p.n - j0 - j, values);
          const auto* block = reinterpret_cast<const char*>(part.block);
          for (Index i = 0; i < cut.rows; i += T::mr) {
            K::choose_converted(least(T::mr, cut.rows - i))(
                call.a() + i * cut.line_a + k, cut.line_a, block, T::nr * unit, values,
                part.acc + i * cut.chunk + j, cut.chunk, !first);
          }
        }
        k += depth;
      } while (k < part.k1);
      emit(call, part, part.acc, cut.chunk, j0, cols);
    }
  }

  // Accumulators of `cols` columns at `col`: to C, or kept until all parts of K are done.
  static CKDISP_CPU_INLINE void emit(const Call& call, const Part& part, const Acc* from, Index ld,
                                     Index col, Index cols) {
    const GemmProblemData& p = call.p;
    if (call.cut.parts_k == 1) return E::tile(p, call.args, from, ld, 0, col, p.m, cols);
    for (Index i = 0; i < p.m; ++i) {
      Acc* to = call.result(part.part_k) + i * p.n + col;
      for (Index j = 0; j < cols; ++j) to[j] = from[i * ld + j];
    }
  }

  static CKDISP_CPU_INLINE void add_parts(const Call& call, Index row) {
    const GemmProblemData& p = call.p;
    Acc* const total = call.result(0) + row * p.n;
    for (int part = 1; part < call.cut.parts_k; ++part) {
      const Acc* from = call.result(part) + row * p.n;
      for (Index j = 0; j < p.n; ++j) total[j] = K::add(total[j], from[j]);
    }
    E::tile(p, call.args, total, p.n, row, 0, 1, p.n);
  }
};

}  // namespace
}  // namespace ckdisp::cpu
