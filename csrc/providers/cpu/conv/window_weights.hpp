// Backward weight through windows. Rows of C are output channels, its columns taps and input
// channels, and the sum runs over the pixels of one box after the other. The sums stay in register
// tiles in the workspace until all boxes are done.
#pragma once

#include "../cost.hpp"
#include "core.hpp"
#include "window_cut.hpp"
#include "window_tiles.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct WindowWeights {
  using Gemm = Core<Kernel>;
  using T = Traits<Gemm>;
  using Acc = typename T::Acc;
  using AccV = typename T::AccV;
  using E = Finish<Gemm>;
  using Tiles = PixelTiles<Gemm>;
  using Sizes = TileSizes<T>;
  static constexpr Index unit = sizeof(std::uint32_t);
  static constexpr Index tile_units = Index{T::mr} * T::nr;
  static_assert(T::kr == 1, "pixels are summed one by one");

  // How a problem is computed. A part is a split of the boxes, a group and some of its tiles' rows.
  struct Plan {
    Sides sides;
    WindowRuns runs;
    Boxes boxes;
    Index line_out;         // units between pixels of the box's output
    Index panels_of_run;    // columns
    Index panels, heights;  // tiles of one group: panels of columns, heights of rows
    Index parts_k;          // parts of the heights
    Index splits;           // parts of the boxes, summed separately
    Index bytes_sums;       // of one split
    Index bytes_offsets, bytes_window, bytes_out, bytes_thread;
    int threads;
  };

  static Plan plan(const ConvProblemData& p, int threads) {
    Plan plan{};
    const Geometry g = forward_geometry(p);
    plan.sides = Sides(g, p.out, p.g * p.k, p.filter);
    // Merged runs fill vectors where the channels of one tap do not.
    plan.runs = WindowRuns(plan.sides, p.c, T::kr, T::nr, Index{1} << 12, true);
    plan.panels_of_run = ceil_div(plan.runs.run, T::nr);
    plan.panels = plan.runs.runs * plan.panels_of_run;
    plan.heights = heights_of(p.k);
    const double tiles = static_cast<double>(plan.panels) * static_cast<double>(plan.heights);
    double rows = 1;
    for (const Side& s : plan.sides.side) rows *= static_cast<double>(s.rows);
    const double work = rows * static_cast<double>(p.g) * tiles * tile_units / (1 << 18);
    plan.threads = work < threads ? static_cast<int>(most(1, static_cast<Index>(work))) : threads;

    // The pixels of a box of a panel stay in a first-level cache, unless the tiles are so many that
    // they come from memory each time.
    BoxLimits limits{tiles * tile_units > (1 << 19) ? 256 : 160, Index{1} << 19, Index{1} << 19, 1};
    plan.boxes = Boxes(plan.sides, plan.runs, 0, limits);
    plan.line_out = (ceil_div(p.k, WindowRuns::line) | 1) * WindowRuns::line;

    plan.parts_k = plan.splits = 1;
    if (plan.threads > 1) {
      const Index wanted = ceil_div(parts_per_thread * plan.threads, p.g);
      plan.parts_k = least(wanted, ceil_div(plan.heights, 2));
      plan.splits = least(ceil_div(wanted, plan.parts_k), ceil_div(plan.boxes.count, 4));
      const double limit = static_cast<double>(Index{1} << 24) / (tiles * tile_units);
      plan.splits = most(1, least(plan.splits, static_cast<Index>(limit < 1 ? 1 : limit)));
    }
    plan.bytes_sums = round_up(p.g * plan.panels * plan.heights * tile_units * unit, 64);
    plan.bytes_offsets = round_up(plan.runs.runs * Index{sizeof(Index)}, 64);
    // Register tiles read whole vectors and heights, also behind the last pixel.
    plan.bytes_window = round_up((plan.boxes.length + T::nr + T::lanes) * unit, 64);
    const Index pixels = plan.boxes.lines() * plan.boxes.rows[kDims];
    plan.bytes_out = round_up((pixels * plan.line_out + T::mr + T::lanes) * unit, 64);
    plan.bytes_thread = plan.bytes_window + plan.bytes_out +
                        round_up(plan.boxes.lines() * Index{sizeof(PixelLine)}, 64);
    return plan;
  }

  static std::uint64_t workspace_size(const ConvProblemData& p, int threads) {
    const Plan cut = plan(p, threads);
    return static_cast<std::uint64_t>(cut.bytes_sums * cut.splits + cut.bytes_offsets +
                                      cut.bytes_thread * cut.threads);
  }

  static double seconds(const ConvProblemData& p, int threads) {
    using C = Cost<Gemm>;
    const Plan cut = plan(p, threads);
    const auto tiles = static_cast<double>(p.g * cut.panels * cut.heights);
    const auto boxes = static_cast<double>(cut.boxes.count);
    const double pixels = boxes * static_cast<double>(cut.boxes.lines() * cut.boxes.rows[kDims]);
    const double cycles = C::step(C::multiplies(T::mr * T::nv), T::mr + T::nv, 3);
    const double main = tiles * (pixels * cycles + 60 * boxes) / C::hertz;
    const double copied = boxes * static_cast<double>(cut.boxes.length * cut.parts_k) +
                          pixels * static_cast<double>(p.k);
    const double sums = tiles * tile_units;
    const double moved = static_cast<double>(p.g) * copied * C::copy +
                         2 * sums * (sums > (1 << 18) ? C::pack_far : C::copy);
    return (main + moved) / cut.threads + (cut.threads > 1 ? 2 * C::start : 0);
  }

  static void run(const ConvProblemData& p, const ConvArgs& args, void* workspace, int threads) {
    const Plan cut = plan(p, threads);
    if (cut.panels == 0 || cut.heights == 0) return;
    auto* const sums = static_cast<Acc*>(workspace);
    auto* const offsets = reinterpret_cast<Index*>(at(workspace, cut.bytes_sums * cut.splits));
    char* const own = at(offsets, cut.bytes_offsets);
    cut.runs.set_offsets(cut.sides, cut.boxes.layout, offsets);
    const Call call{p, args, cut, offsets, sums};
    std::int64_t counter = 0;
    parallel(cut.threads, [&](int thread, int team) {
      const Index parts = cut.parts_k * p.g;
      Tickets tickets(&counter, parts * cut.splits, team);
      char* const scratch = own + thread * cut.bytes_thread;
      for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
        sum(call, part / parts, part % parts / cut.parts_k, part % cut.parts_k, scratch);
      }
    });
    parallel(cut.threads, [&](int thread, int team) { finish(call, thread, team); });
  }

 private:
  struct Call {
    const ConvProblemData& p;
    const ConvArgs& args;
    const Plan& cut;
    const Index* offsets;  // in a window, of each run
    Acc* sums;             // splits, groups, panels, heights
  };

  // Heights of tiles that cover n rows: whole ones, and what is left as one or two.
  static constexpr Index heights_of(Index n) {
    return n / T::mr + (n % T::mr == 0 ? 0 : n % T::mr == last_of(n) ? 1 : 2);
  }
  // Rows of the tile behind the whole ones: what is left, or half a tile where that and another
  // small one take less time.
  static constexpr Index last_of(Index n) {
    constexpr Index half = (T::mr + 1) / 2;
    const Index rest = n % T::mr;
    return rest > half && steps(half) + steps(rest - half) < steps(T::mr) ? half : rest;
  }
  // Cycles that a tile of so many rows takes for a pixel: no fewer than the latency of a sum.
  static constexpr Index steps(Index rows) {
    return most(4, ceil_div(Sizes::computed_rows(rows) * T::nv, 2));
  }
  static Index first_row(Index n, Index height) {
    const Index whole = n / T::mr;
    return height <= whole ? height * T::mr : whole * T::mr + last_of(n);
  }
  static Index rows_of(Index n, Index height, Index heights) {
    return (height + 1 == heights ? n : first_row(n, height + 1)) - first_row(n, height);
  }

  static Acc* sums_of(const Call& call, Index split, Index group, Index panel, Index height) {
    const Plan& cut = call.cut;
    const Index tile = (group * cut.panels + panel) * cut.heights + height;
    return call.sums + split * (cut.bytes_sums / unit) + tile * tile_units;
  }

  // The sums of some tiles over a split of the boxes.
  static CKDISP_CPU_NOINLINE void sum(const Call& call, Index split, Index group, Index part,
                                      char* scratch) noexcept {
    const Plan& cut = call.cut;
    const ConvProblemData& p = call.p;
    auto* const window = reinterpret_cast<std::uint32_t*>(scratch);
    auto* const out = reinterpret_cast<std::uint32_t*>(scratch + cut.bytes_window);
    auto* const lines = reinterpret_cast<PixelLine*>(scratch + cut.bytes_window + cut.bytes_out);
    const Index from = part_start(cut.heights, cut.parts_k, part);
    const Index to = part_start(cut.heights, cut.parts_k, part + 1);
    const Index first = first_row(p.k, from);
    const Index channels = (to == cut.heights ? p.k : first_row(p.k, to)) - first;
    const Index begin = part_start(cut.boxes.count, cut.splits, split);
    const Index end = part_start(cut.boxes.count, cut.splits, split + 1);
    const Side& last = cut.sides.side[kDims];
    PixelSum pixels{lines, 0, 0, cut.line_out, last.hop * cut.boxes.layout.line[kDims], false};
    for (Index number = begin; number < most(end, begin + 1); ++number) {
      pixels.lines_count = 0;
      if (number < end) {
        const Box box = cut.boxes.box(cut.sides, number);
        fill_window<T, T::key.dtype_b>(cut.sides, cut.boxes.layout, box,
                                       at(call.args.in, group * p.c * T::size_b), window);
        pixels.count = box.count[kDims];
        Index copied = 0;
        for_lines(cut.sides, cut.boxes.layout, box, [&](Index in_window, Index own) {
          lines[pixels.lines_count++] = {copied, in_window};
          for (Index i = 0; i < pixels.count; ++i) {
            const Index element = own + i * last.own_stride + group * p.k + first;
            copy_units<T, T::key.dtype_a>(out + copied, at(call.args.out, element * T::size_a),
                                          channels);
            copied += cut.line_out;
          }
        });
      }
      pixels.add = number > begin;
      for (Index panel = 0; panel < cut.panels; ++panel) {
        const Index run = panel / cut.panels_of_run;
        const Index column = panel % cut.panels_of_run * T::nr;
        const Index vectors = ceil_div(least(T::nr, cut.runs.run - column), T::lanes);
        const std::uint32_t* b = window + call.offsets[run] + column;
        for (Index height = from; height < to; ++height) {
          const auto function =
              Sizes::template choose<Tiles>(rows_of(p.k, height, cut.heights), vectors);
          function(pixels, out + first_row(p.k, height) - first, b,
                   sums_of(call, split, group, panel, height));
        }
      }
    }
  }

  // Adds the splits and writes the weights, each thread some tiles.
  static CKDISP_CPU_NOINLINE void finish(const Call& call, int thread, int team) noexcept {
    const Plan& cut = call.cut;
    const ConvProblemData& p = call.p;
    const Index line = filter_taps(p) * p.c;
    GemmProblemData matrix{};
    matrix.ldc = line;
    const Index count = p.g * cut.panels * cut.heights;
    for (Index i = part_start(count, team, thread); i < part_start(count, team, thread + 1); ++i) {
      Acc* const sums = call.sums + i * tile_units;
      for (Index split = 1; split < cut.splits; ++split) {
        const Acc* other = sums + split * (cut.bytes_sums / unit);
        for (Index j = 0; j < tile_units; j += T::lanes) {
          store(sums + j, load<AccV>(sums + j) + load<AccV>(other + j));
        }
      }
      const Index height = i % cut.heights;
      const Index panel = i / cut.heights % cut.panels;
      const Index group = i / cut.heights / cut.panels;
      const Index run = panel / cut.panels_of_run;
      const Index column = panel % cut.panels_of_run * T::nr;
      const Index row = group * p.k + first_row(p.k, height);
      const Index element = row * line + cut.runs.position(cut.sides, run, 0) * p.c + column;
      GemmArgs args;
      args.c = at(call.args.result, element * T::size_c);
      E::tile(matrix, args, sums, T::nr, 0, 0, rows_of(p.k, height, cut.heights),
              least(T::nr, cut.runs.run - column));
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
