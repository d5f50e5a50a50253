// Forward and backward data through windows: a box of rows of C is computed from the window of
// source pixels that its taps meet. The weights are packed once, for all boxes.
#pragma once

#include "../cost.hpp"
#include "core.hpp"
#include "window_cut.hpp"
#include "window_tiles.hpp"

namespace ckdisp::cpu {
namespace {

// How the sum over taps and channels is cut into blocks: of several runs, or of a piece of each.
struct SumPlan {
  Index piece, pieces;  // units of a piece; pieces of a run
  Index runs_of_block, run_blocks;
  Index blocks;
};

template <class Kernel>
struct WindowSums {
  using Gemm = Core<Kernel>;
  using T = Traits<Gemm>;
  using Acc = typename T::Acc;
  using E = Finish<Gemm>;
  using Tiles = WindowTiles<Gemm>;
  static constexpr const ConvKey& key = Kernel::key;
  static constexpr bool forward = key.family == Family::conv_fwd;
  static constexpr Index unit = sizeof(std::uint32_t);
  static constexpr Index depth = most(1, key.tile[2] / T::kr);
  static constexpr Index group_n = most(1, key.tile[1] / T::nr);
  static constexpr Index tile_units = Index{T::mr} * T::nr;
  // Units of a window, and of the channels of it that one block of the sum reads: these stay in a
  // second-level cache together with the group of panels of B.
  static constexpr Index window_limit = Index{1} << 19;
  static constexpr Index slice_limit = Index{1} << 16;

  // Where the rows of a register tile lie: units of the window, and elements of C. Those behind the
  // last one repeat it.
  struct TilePlace {
    Index a[T::mr], own[T::mr];
    Index rows;
  };

  // How one class is computed.
  struct Plan {
    Sides sides;
    WindowRuns runs;
    SumPlan sum;
    Boxes boxes;
    Index channels;       // columns of C
    Index panels, group;  // of B: all, and those that a thread takes at a time
    Index splits;         // parts of the panels that different threads take
    Index parts;          // of one group of the convolution: boxes and splits
    Index tiles;          // of a box, at most
    bool ahead;           // all of B is packed before the boxes are computed, else with each box
    Index bytes_offsets, bytes_b, bytes_window, bytes_tiles, bytes_group, bytes_thread;
    int threads;
  };

  static Plan plan(const ConvProblemData& p, const Geometry& g, int threads) {
    const auto& own = forward ? p.out : p.in;
    Plan plan{};
    plan.sides = Sides(g, own, p.g * (forward ? p.k : p.c), p.filter);
    const Side(&side)[kSides] = plan.sides.side;
    plan.channels = forward ? p.k : p.c;
    plan.panels = ceil_div(plan.channels, T::nr);
    plan.runs = WindowRuns(plan.sides, g.channels, T::kr, 8 * T::lanes + 1, depth, false);
    plan.sum = sum_plan(plan.sides, plan.runs);
    const SumPlan& sum = plan.sum;
    plan.group =
        most(1, least(plan.panels, depth * group_n / most(1, sum.piece * sum.runs_of_block)));

    double rows = static_cast<double>(p.g);
    for (const Side& s : side) rows *= static_cast<double>(s.rows);
    const double work = rows * static_cast<double>(plan.channels) *
                        static_cast<double>(most(plan.runs.size(), 1)) / (1 << 18);
    plan.threads = work < threads ? static_cast<int>(most(1, static_cast<Index>(work))) : threads;
    // Some boxes for every thread.
    BoxLimits limits{1024, window_limit, slice_limit, T::mr};
    if (plan.threads > 1) {
      const double share = rows / (plan.threads * parts_per_thread);
      if (share < 1024) limits.rows = most(T::mr, static_cast<Index>(share));
    }
    plan.boxes = Boxes(plan.sides, plan.runs, least(plan.runs.pixel, sum.piece), limits);
    const Index boxes = plan.boxes.count;
    plan.tiles = tiles_of(plan.boxes);
    plan.splits = 1;
    if (boxes * p.g < plan.threads * 2) {
      plan.splits = least(plan.panels, ceil_div(plan.threads * 2, boxes * p.g));
    }
    plan.parts = boxes * plan.splits;
    plan.group = least(plan.group, ceil_div(plan.panels, plan.splits));
    plan.bytes_offsets = round_up(plan.runs.runs * Index{sizeof(Index)}, 64);
    plan.bytes_b = round_up(p.g * plan.panels * T::nr * plan.runs.size() * unit, 64);
    // What is read once or twice, and does not stay in a cache in between, is packed where it is
    // used.
    plan.ahead = boxes > 2 || plan.bytes_b / p.g <= depth * group_n * T::nr * unit;
    plan.bytes_group = 0;
    if (!plan.ahead) {
      plan.bytes_b = 0;
      plan.bytes_group = round_up(plan.group * T::nr * sum.piece * sum.runs_of_block * unit, 64);
    }
    plan.bytes_window = round_up((plan.boxes.length + T::lanes) * unit, 64);
    plan.bytes_tiles = round_up(plan.tiles * Index{sizeof(TilePlace)}, 64);
    plan.bytes_thread = plan.bytes_window + plan.bytes_tiles + plan.bytes_group;
    if (sum.blocks > 1) plan.bytes_thread += plan.tiles * plan.group * tile_units * unit;
    return plan;
  }

  static std::uint64_t workspace_size(const ConvProblemData& p, const Geometry& g, int threads) {
    const Plan cut = plan(p, g, threads);
    return static_cast<std::uint64_t>(cut.bytes_offsets + cut.bytes_b +
                                      cut.bytes_thread * cut.threads);
  }

  static double seconds(const ConvProblemData& p, const Geometry& g, int threads) {
    using C = Cost<Gemm>;
    const Plan cut = plan(p, g, threads);
    if (cut.sides.empty() || cut.channels == 0) return 0;
    const double boxes = static_cast<double>(p.g) * static_cast<double>(cut.boxes.count);
    const double filled = boxes * static_cast<double>(cut.boxes.length * cut.splits);
    const double tiles = boxes * static_cast<double>(cut.tiles * cut.panels);
    const double cycles = C::step(C::multiplies(T::mr * T::nv), T::mr + T::nv, 3);
    const auto units = static_cast<double>(cut.runs.size());
    const double main =
        tiles * (units * cycles + 300.0 * static_cast<double>(cut.sum.blocks)) / C::hertz;
    const double b = static_cast<double>(cut.panels * T::nr * p.g) * units;
    const bool far = b > (1 << 18);
    const double moved =
        filled * C::copy + b * (far ? C::pack_far + T::size_b / C::memory : C::pack_near);
    return (main + moved) / cut.threads + (cut.threads > 1 ? 2 * C::start : 0);
  }

  static void run(const ConvProblemData& p, const ConvArgs& args, const Geometry& g,
                  void* workspace, int threads) {
    const Plan cut = plan(p, g, threads);
    if (cut.sides.empty() || cut.channels == 0) return;
    auto* const offsets = static_cast<Index*>(workspace);
    auto* const b = reinterpret_cast<std::uint32_t*>(at(workspace, cut.bytes_offsets));
    char* const own = at(workspace, cut.bytes_offsets + cut.bytes_b);
    cut.runs.set_offsets(cut.sides, cut.boxes.layout, offsets);
    const Call call{p, args, cut, offsets, b};
    if (cut.ahead) parallel(cut.threads, [&](int thread, int team) { pack(call, thread, team); });
    std::int64_t counter = 0;
    parallel(cut.threads, [&](int thread, int team) {
      Tickets tickets(&counter, p.g * cut.parts, team);
      char* const scratch = own + thread * cut.bytes_thread;
      for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
        compute(call, part / cut.parts, part % cut.parts, scratch);
      }
    });
  }

 private:
  struct Call {
    const ConvProblemData& p;
    const ConvArgs& args;
    const Plan& cut;
    const Index* offsets;  // in a window, of each run
    std::uint32_t* b;      // packed weights: groups, blocks of the sum, panels
  };

  static SumPlan sum_plan(const Sides& sides, const WindowRuns& runs) {
    SumPlan sum{};
    sum.piece = runs.run;
    sum.runs_of_block = most(1, runs.runs);
    // Neighbouring taps share most of a tile's pixels in the first-level cache.
    const Index limit = sides.side[kDims].taps > 1 ? 2 * depth : depth;
    if (runs.size() > limit + limit / 4) {
      if (!runs.merged) {
        const Index least_piece = least(4 * WindowRuns::line, runs.run);
        const Index share = least(runs.run, most(least_piece, limit / runs.runs));
        sum.piece = round_up(even_parts(runs.run, share), WindowRuns::line);
      }
      sum.runs_of_block = even_parts(runs.runs, most(1, limit / sum.piece));
    }
    sum.pieces = runs.runs == 0 ? 1 : ceil_div(runs.run, sum.piece);
    sum.run_blocks = ceil_div(most(1, runs.runs), sum.runs_of_block);
    sum.blocks = sum.pieces * sum.run_blocks;
    return sum;
  }

  // Runs and units of a block of the sum.
  struct SumBlock {
    Index run, runs;     // first, number
    Index start, units;  // of each run
    Index before;        // units in all blocks before it
  };
  static SumBlock sum_block(const Plan& cut, Index block) {
    const SumPlan& sum = cut.sum;
    const WindowRuns& runs = cut.runs;
    SumBlock out{};
    out.run = block % sum.run_blocks * sum.runs_of_block;
    out.runs = least(sum.runs_of_block, runs.runs - out.run);
    out.start = block / sum.run_blocks * sum.piece;
    out.units = least(sum.piece, runs.run - out.start);
    out.before = out.start * runs.runs + out.run * out.units;
    return out;
  }

  // Register tiles of a box, at most.
  static Index tiles_of(const Boxes& boxes) {
    return ceil_div(boxes.lines() * boxes.rows[kDims], T::mr);
  }

  // Each thread packs some panels of the weights.
  static CKDISP_CPU_NOINLINE void pack(const Call& call, int thread, int team) noexcept {
    const Plan& cut = call.cut;
    const Index count = cut.runs.runs == 0 ? 0 : call.p.g * cut.sum.blocks * cut.panels;
    for (Index i = part_start(count, team, thread); i < part_start(count, team, thread + 1); ++i) {
      const Index panel = i % cut.panels;
      const Index group = i / cut.panels / cut.sum.blocks;
      const SumBlock block = sum_block(cut, i / cut.panels % cut.sum.blocks);
      pack_panel(call, group, block, panel, panel_of(call, group, block, panel));
    }
  }

  // One panel of one block of the sum.
  static CKDISP_CPU_INLINE void pack_panel(const Call& call, Index group, const SumBlock& block,
                                           Index panel, std::uint32_t* to) {
    const Plan& cut = call.cut;
    const WindowRuns& runs = cut.runs;
    // All channels of each tap of a merged run, or a piece of those of one tap.
    const Index start = runs.merged ? 0 : block.start * T::kr;
    const Index units = runs.merged ? runs.units : block.units;
    for (Index run = 0; run < block.runs; ++run) {
      for (Index tap = 0; tap < runs.taps(cut.sides); ++tap) {
        pack_tap(call, group, runs.position(cut.sides, block.run + run, tap), panel, start,
                 least(units * T::kr, runs.channels - start), to);
        to += units * T::nr;
      }
    }
  }

  // `count` source channels of one tap, for the columns of one panel.
  static CKDISP_CPU_INLINE void pack_tap(const Call& call, Index group, Index position, Index panel,
                                         Index channel, Index count, std::uint32_t* to) {
    constexpr Dtype dtype = T::key.dtype_b;
    constexpr Index size = T::size_b;
    const ConvProblemData& p = call.p;
    const Index line = filter_taps(p) * p.c;  // elements between output channels
    const Index column = panel * T::nr;
    const Index left = call.cut.channels - column;
    const char* from = at(call.args.wei, (group * p.k * line + position * p.c) * size);
    if constexpr (forward) {
      from += (column * line + channel) * size;
      pack_along_k<T, dtype, T::nr>(to, from, line * size, least(T::nr, left), count);
    } else {
      from += (channel * line + column) * size;
      pack_across_k<T, dtype, T::nr>(to, from, line * size, least(T::nr, left), left, count);
    }
  }

  static std::uint32_t* panel_of(const Call& call, Index group, const SumBlock& block,
                                 Index panel) {
    const Plan& cut = call.cut;
    return call.b + (group * cut.panels * cut.runs.size() + cut.panels * block.before +
                     panel * block.runs * block.units) *
                        T::nr;
  }

  // One box of one group, or one split of its columns.
  static CKDISP_CPU_NOINLINE void compute(const Call& call, Index group, Index part,
                                          char* scratch) noexcept {
    const Plan& cut = call.cut;
    const Index split = part % cut.splits;
    const Box box = cut.boxes.box(cut.sides, part / cut.splits);
    auto* const window = reinterpret_cast<std::uint32_t*>(scratch);
    if (cut.runs.runs > 0) {
      const void* const source = forward ? call.args.in : call.args.out;
      fill_window<T, T::key.dtype_a>(cut.sides, cut.boxes.layout, box,
                                     at(source, group * cut.runs.channels * T::size_a), window);
    }
    auto* const places = reinterpret_cast<TilePlace*>(scratch + cut.bytes_window);
    auto* const own_b =
        reinterpret_cast<std::uint32_t*>(scratch + cut.bytes_window + cut.bytes_tiles);
    auto* const kept = reinterpret_cast<Acc*>(at(own_b, cut.bytes_group));
    const Index tiles = place_tiles(cut, box, group * cut.channels, places);
    const Index end = part_start(cut.panels, cut.splits, split + 1);
    for (Index first = part_start(cut.panels, cut.splits, split); first < end; first += cut.group) {
      const Index panels = least(cut.group, end - first);
      for (Index number = 0; number < cut.sum.blocks; ++number) {
        const SumBlock block = sum_block(cut, number);
        const bool begins = number == 0, ends = number + 1 == cut.sum.blocks;
        Acc* acc = cut.sum.blocks > 1 ? kept : nullptr;
        const Index size = T::nr * block.runs * block.units;
        const std::uint32_t* b = own_b;
        if (cut.ahead) {
          b = panel_of(call, group, block, first);
        } else {
          for (Index i = 0; i < panels; ++i) {
            pack_panel(call, group, block, first + i, own_b + i * size);
          }
        }
        for (Index i = 0; i < tiles; ++i) {
          for (Index panel = 0; panel < panels; ++panel) {
            one_tile(call, places[i], block, window, b + panel * size, (first + panel) * T::nr, acc,
                     begins, ends);
            if (acc != nullptr) acc += tile_units;
          }
        }
      }
    }
  }

  // The register tiles of a box, of rows of any lines. Returns their number.
  static Index place_tiles(const Plan& cut, const Box& box, Index channel, TilePlace* to) {
    const Side& last = cut.sides.side[kDims];
    const Index next_a = last.hop * cut.boxes.layout.line[kDims];
    Index rows = 0;
    for_lines(cut.sides, cut.boxes.layout, box, [&](Index a, Index own) {
      own += channel;
      for (Index i = 0; i < box.count[kDims]; ++i, ++rows) {
        TilePlace& place = to[rows / T::mr];
        place.a[rows % T::mr] = a + i * next_a;
        place.own[rows % T::mr] = own + i * last.own_stride;
        place.rows = rows % T::mr + 1;
      }
    });
    TilePlace& open = to[(rows - 1) / T::mr];
    for (Index r = open.rows; r < T::mr; ++r) {
      open.a[r] = open.a[open.rows - 1];
      open.own[r] = open.own[open.rows - 1];
    }
    return ceil_div(rows, T::mr);
  }

  // One tile of one block of the sum.
  static CKDISP_CPU_INLINE void one_tile(const Call& call, const TilePlace& place,
                                         const SumBlock& block, const std::uint32_t* window,
                                         const std::uint32_t* b, Index column, Acc* acc,
                                         bool begins, bool ends) {
    using Sizes = TileSizes<T>;
    const Index columns = least(T::nr, call.cut.channels - column);
    const auto function = Sizes::template choose<Tiles>(place.rows, ceil_div(columns, T::lanes));
    const WindowSum sum{call.offsets + block.run, block.runs, block.units, place.a};
    window += block.start;
    char* const c = at(call.args.result, column * T::size_c);
    if constexpr (E::c_is_accumulator) {
      // A row that stands for several must not be added to.
      if (columns % T::lanes == 0 && (acc == nullptr || place.rows == T::mr)) {
        return function(sum, window, b, {reinterpret_cast<Acc*>(c), place.own, !begins});
      }
    }
    alignas(64) Acc local[tile_units];
    Acc* const sums = acc != nullptr ? acc : local;
    function(sum, window, b, {sums, nullptr, !begins});
    if (!ends) return;
    // Neighbouring rows at one distance are written together.
    GemmProblemData matrix{};
    matrix.ldc = call.cut.sides.side[kDims].own_stride;
    GemmArgs args;
    for (Index row = 0, next = 1; row < place.rows; row = next++) {
      while (next < place.rows && place.own[next] - place.own[next - 1] == matrix.ldc) ++next;
      args.c = at(c, place.own[row] * T::size_c);
      E::tile(matrix, args, sums + row * T::nr, T::nr, 0, 0, next - row, columns);
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
