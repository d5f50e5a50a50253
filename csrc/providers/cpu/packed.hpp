// Pipeline `packed`: blocks of A and B are packed to panels, then multiplied tile by tile. B's
// block is shared by all threads, each packs the rows of A that it needs. Of a key's tile, mc x kc
// is the block of A that a thread packs at a time and kc x nc the group of B's panels that it
// keeps in its second-level cache.
#pragma once

#include "epilogue.hpp"
#include "micro.hpp"
#include "pack.hpp"

namespace ckdisp::cpu {
namespace {

// How one problem is cut. Panels are mr rows of A or nr columns of B; depths are in units.
struct PackedPlan {
  int threads;
  int parts_m, parts_n;  // the grid of parts, which threads take one by one
  Index panels_m, panels_n;
  Index units;       // K in units
  Index block_m;     // panels of A packed at a time by one thread
  Index block_n;     // panels of B packed at a time by all threads
  Index block_k;     // units packed at a time
  Index bytes_b;     // of the shared block of B
  Index bytes_a;     // of one part's block of A
  Index bytes_part;  // of one part's block of A and accumulators
};

template <class Kernel>
struct Packed {
  using T = Traits<Kernel>;
  using Acc = typename T::Acc;
  using M = Micro<Kernel>;
  using E = Finish<Kernel>;
  static constexpr const GemmKey& key = Kernel::key;
  static constexpr Index unit = sizeof(std::uint32_t);
  static constexpr Index tile_m = most(1, key.tile[0] / T::mr);
  static constexpr Index tile_k = most(1, key.tile[2] / T::kr);
  static constexpr Index group_n = most(1, key.tile[1] / T::nr);
  // Panels of B packed at a time: groups of 8 MiB in all, in the outermost cache.
  static constexpr Index tile_n =
      group_n * most(1, (Index{1} << 23) / (group_n * T::nr * tile_k * unit));
  static constexpr Index tile_bytes = Index{T::mr} * T::nr * unit;
  // Bytes of accumulators that a thread may keep between two depths, unless C is very tall.
  static constexpr Index kept_limit = Index{1} << 24;

  // The largest block, at most `limit`, of which nearly equal ones cover n.
  static constexpr Index even_block(Index n, Index limit) {
    return n == 0 ? 1 : ceil_div(n, ceil_div(n, limit));
  }

  // Threads that are worth their start: each should have 2^18 multiplications or more.
  static int useful_threads(const GemmProblemData& p, int threads) {
    const double work = static_cast<double>(p.m) * static_cast<double>(p.n) *
                        static_cast<double>(most(p.k, 1)) / (1 << 18);
    return work < threads ? static_cast<int>(most(1, static_cast<Index>(work))) : threads;
  }

  static PackedPlan plan(const GemmProblemData& p, int threads) {
    PackedPlan plan{};
    plan.panels_m = ceil_div(p.m, T::mr);
    plan.panels_n = ceil_div(p.n, T::nr);
    plan.units = round_up(ceil_div(p.k, T::kr), T::unit_step);
    threads = useful_threads(p, threads);
    // The grid with the least work for the busiest thread, counting the packing of its rows.
    double best = 0;
    for (int parts_m = 1; parts_m <= threads; ++parts_m) {
      const int parts_n = threads / parts_m;
      const auto rows = static_cast<double>(ceil_div(plan.panels_m, parts_m) * T::mr);
      const auto cols = static_cast<double>(ceil_div(plan.panels_n, parts_n) * T::nr);
      const double work = rows * cols + 16 * rows;
      if (parts_m == 1 || work < best) {
        best = work;
        plan.parts_m = parts_m;
        plan.parts_n = parts_n;
      }
    }
    plan.threads = plan.parts_m * plan.parts_n;
    if (plan.threads > 1) {
      plan.parts_m = static_cast<int>(
          most(plan.parts_m, least(plan.panels_m, Index{plan.parts_m} * parts_per_thread)));
    }
    plan.block_k = round_up(even_block(plan.units, tile_k), T::unit_step);
    const bool keep = !E::c_is_accumulator && plan.block_k < plan.units;
    const Index part_m = ceil_div(plan.panels_m, plan.parts_m);
    // Columns that few rows go past are used once, from the caches of the thread that packed them.
    Index limit_n = plan.panels_m <= 2 && plan.threads == 1 ? group_n : tile_n;
    if (keep) limit_n = least(limit_n, most(512 / T::nr, kept_limit / (part_m * tile_bytes)));
    plan.block_n = even_block(plan.panels_n, limit_n);
    plan.block_m = even_block(part_m, tile_m);
    plan.bytes_b = plan.block_n * T::nr * plan.block_k * unit;
    plan.bytes_a = round_up((plan.block_m * T::mr * plan.block_k + T::lanes) * unit, 64);
    plan.bytes_part = plan.bytes_a;
    if (keep) plan.bytes_part += part_m * ceil_div(plan.block_n, plan.parts_n) * tile_bytes;
    plan.bytes_part = round_up(plan.bytes_part, 64);
    return plan;
  }

  static std::uint64_t workspace_size(const GemmProblemData& p, int threads) {
    const PackedPlan cut = plan(p, threads);
    return static_cast<std::uint64_t>(round_up(cut.bytes_b, 64) +
                                      cut.bytes_part * cut.parts_m * cut.parts_n);
  }

  static void run(const GemmProblemData& p, const GemmArgs& args, void* workspace, int threads) {
    const PackedPlan cut = plan(p, threads);
    std::int64_t counter = 0;
    parallel(cut.threads,
             [&](int thread, int team) { work(p, args, cut, workspace, &counter, thread, team); });
  }

 private:
  // One block of the problem as one thread sees it.
  struct Block {
    Index row, rows;             // panels of A
    Index col, cols;             // panels of B
    Index units;                 // depth
    bool first, last;            // along k
    const std::uint32_t *a, *b;  // packed
    Acc* acc;                    // tiles of accumulators kept between two depths, or null
  };

  static CKDISP_CPU_NOINLINE void work(const GemmProblemData& p, const GemmArgs& args,
                                       const PackedPlan& cut, void* workspace,
                                       std::int64_t* counter, int thread, int team) noexcept {
    [[maybe_unused]] const typename T::Thread prepared;
    auto* const panels_b = static_cast<std::uint32_t*>(workspace);
    char* const own = at(workspace, round_up(cut.bytes_b, 64));
    Tickets tickets(counter, Index{cut.parts_m} * cut.parts_n, team);
    for (Index jb = 0; jb < cut.panels_n; jb += cut.block_n) {
      const Index jn = least(cut.block_n, cut.panels_n - jb);
      Index k = 0;
      do {  // once even if K is 0: C is then op(0, D...)
        const Index depth = least(cut.block_k, cut.units - k);
        for (Index j = thread; j < jn; j += team) {
          pack_b<T>(panels_b + j * T::nr * depth, p, args.b, (jb + j) * T::nr, k * T::kr,
                    least(depth * T::kr, p.k - k * T::kr), depth);
        }
        barrier(team);
        for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
          const Index im = part % cut.parts_m;
          const Index in = part / cut.parts_m;
          const Index j0 = part_start(jn, cut.parts_n, in);
          auto* const packed_a = reinterpret_cast<std::uint32_t*>(own + part * cut.bytes_part);
          Block block{};
          block.col = jb + j0;
          block.cols = part_start(jn, cut.parts_n, in + 1) - j0;
          block.units = depth;
          block.first = k == 0;
          block.last = k + depth >= cut.units;
          block.a = packed_a;
          block.b = panels_b + j0 * T::nr * depth;
          Acc* kept = nullptr;
          if (cut.bytes_part > cut.bytes_a) {
            kept = reinterpret_cast<Acc*>(own + part * cut.bytes_part + cut.bytes_a);
          }
          rows_of_part(p, args, cut, block, packed_a, kept, im, k);
        }
        tickets.next_phase();
        k += depth;
        if (k < cut.units || jb + jn < cut.panels_n) barrier(team);
      } while (k < cut.units);
    }
  }

  // All rows of a part, a block at a time.
  static CKDISP_CPU_INLINE void rows_of_part(const GemmProblemData& p, const GemmArgs& args,
                                             const PackedPlan& cut, Block& block,
                                             std::uint32_t* packed_a, Acc* kept, Index im,
                                             Index k) {
    const Index start = part_start(cut.panels_m, cut.parts_m, im);
    const Index end = part_start(cut.panels_m, cut.parts_m, im + 1);
    for (Index i = start; i < end; i += cut.block_m) {
      block.row = i;
      if (kept != nullptr) block.acc = kept + (i - start) * block.cols * T::mr * T::nr;
      block.rows = least(cut.block_m, end - i);
      for (Index r = 0; r < block.rows; ++r) {
        pack_a<T>(packed_a + r * T::mr * block.units, p, args.a, (i + r) * T::mr, k * T::kr,
                  least(block.units * T::kr, p.k - k * T::kr));
      }
      multiply(p, args, block);
    }
  }

  // A panel of A stays in the first-level cache while a group of B's panels, which stays in the
  // second, goes past it.
  static CKDISP_CPU_INLINE void multiply(const GemmProblemData& p, const GemmArgs& args,
                                         const Block& block) {
    for (Index g = 0; g < block.cols; g += group_n) {
      const Index end = least(block.cols, g + group_n);
      for (Index i = 0; i < block.rows; ++i) {
        for (Index j = g; j < end; ++j) one_tile(p, args, block, i, j);
      }
    }
  }

  static CKDISP_CPU_INLINE void one_tile(const GemmProblemData& p, const GemmArgs& args,
                                         const Block& block, Index i, Index j) {
    const Index row = (block.row + i) * T::mr;
    const Index col = (block.col + j) * T::nr;
    const Index rows = least(T::mr, p.m - row);
    const Index cols = least(T::nr, p.n - col);
    const std::uint32_t* a = block.a + i * T::mr * block.units;
    const std::uint32_t* b = block.b + j * T::nr * block.units;
    const auto function = M::choose(rows, ceil_div(cols, T::lanes));
    const bool whole = M::computed_rows(rows) == rows && cols % T::lanes == 0;
    if (E::c_is_accumulator && whole && block.acc == nullptr) {
      auto* const c = reinterpret_cast<Acc*>(at(args.c, (row * p.ldc + col) * unit));
      function(a, b, block.units, c, p.ldc, !block.first);
      if (block.last && !E::trivial(args)) E::tile(p, args, c, p.ldc, row, col, rows, cols);
      return;
    }
    if (block.acc != nullptr) {
      Acc* const acc = block.acc + (i * block.cols + j) * T::mr * T::nr;
      function(a, b, block.units, acc, T::nr, !block.first);
      if (block.last) E::tile(p, args, acc, T::nr, row, col, rows, cols);
      return;
    }
    alignas(64) Acc local[T::mr * T::nr];
    function(a, b, block.units, local, T::nr, false);
    if constexpr (E::c_is_accumulator) {
      if (!block.first) edge(args, p, local, row, col, rows, cols, true);
      if (!block.last) return edge(args, p, local, row, col, rows, cols, false);
    }
    E::tile(p, args, local, T::nr, row, col, rows, cols);
  }

  // Accumulators of a tile that does not fill its vectors: adds C to them, or stores them to C.
  static CKDISP_CPU_NOINLINE void edge(const GemmArgs& args, const GemmProblemData& p, Acc* local,
                                       Index row, Index col, Index rows, Index cols,
                                       bool add) noexcept {
    using AccV = typename T::AccV;
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; j += T::lanes) {
        const Index count = least(T::lanes, cols - j);
        char* const c = at(args.c, ((row + i) * p.ldc + col + j) * unit);
        Acc* const from = local + i * T::nr + j;
        if (add) {
          store(from, M::add(load<AccV>(from), load_partial<AccV, 4>(c, count)));
        } else {
          store_partial<4>(c, load<AccV>(from), count);
        }
      }
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
