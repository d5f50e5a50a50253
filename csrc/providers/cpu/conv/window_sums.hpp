// Forward and backward data through windows: a box of rows of C is computed from the window of
// source pixels that its taps meet. The weights are packed once, for all boxes.
#pragma once

#include "../cost.hpp"
#include "core.hpp"
#include "window.hpp"
#include "window_tiles.hpp"

namespace ckdisp::cpu {
namespace {

// How the sum over taps and channels is cut. A run is what lies side by side in a window: the
// channels of a pixel, or of all taps along its line. A block is several runs, or a piece of one.
struct SumPlan {
  bool merged;
  Index channels;       // of a pixel
  Index pixel;          // units of a pixel
  Index run, runs;      // units of a run; runs
  Index piece, pieces;  // units of a piece; pieces of a run
  Index runs_of_block, run_blocks;
  Index blocks;

  Index units() const { return run * runs; }
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
  static constexpr Index half = Tiles::half;
  static constexpr Index tile_units = Index{T::mr} * T::nr;
  // Units of a window, and of the channels of it that one block of the sum reads: these stay in a
  // second-level cache together with the group of panels of B.
  static constexpr Index window_limit = Index{1} << 19;
  static constexpr Index slice_limit = Index{1} << 16;

  // Where a register tile lies: units of the window, and elements of C. Rows beyond the first half
  // may be those of another line.
  struct TilePlace {
    Index a, a_second;
    Index own, own_second;
    Index rows, rows_second;
  };

  // How one class is computed.
  struct Plan {
    Sides sides;
    SumPlan sum;
    WindowLayout window;
    Index channels;     // columns of C
    Index box[kSides];  // rows of a box
    Index boxes[kSides];
    Index panels, group;  // of B: all, and those that a thread takes at a time
    Index splits;         // parts of the panels that different threads take
    Index parts;          // of one group of the convolution: boxes and splits
    Index tiles;          // of a box, at most
    Index bytes_offsets, bytes_b, bytes_window, bytes_tiles, bytes_thread;
    int threads;
  };

  static Plan plan(const ConvProblemData& p, const Geometry& g, int threads) {
    const auto& own = forward ? p.out : p.in;
    Plan plan{};
    plan.sides = Sides(g, own, p.g * (forward ? p.k : p.c), p.filter);
    const Side(&side)[kSides] = plan.sides.side;
    plan.channels = forward ? p.k : p.c;
    plan.panels = ceil_div(plan.channels, T::nr);
    plan.sum = sum_plan(plan.sides, g.channels);
    const SumPlan& sum = plan.sum;
    plan.group =
        most(1, least(plan.panels, depth * group_n / most(1, sum.piece * sum.runs_of_block)));

    double rows = static_cast<double>(p.g);
    for (const Side& s : side) rows *= static_cast<double>(s.rows);
    const double work = rows * static_cast<double>(plan.channels) *
                        static_cast<double>(most(sum.units(), 1)) / (1 << 18);
    plan.threads = work < threads ? static_cast<int>(most(1, static_cast<Index>(work))) : threads;
    // Boxes: whole lines first, as many as a window may hold and as leave some for every thread.
    const double share = rows / (plan.threads * parts_per_thread);
    const Index most_rows =
        plan.threads == 1 ? 1024
                          : most(T::mr, static_cast<Index>(least(1024, static_cast<Index>(share))));
    Index others = 1, box_rows = 1;
    for (int i = kDims; i >= 0; --i) plan.box[i] = 1;
    for (int i = kDims; i >= 0; --i) {
      Index count = side[i].rows;
      const auto fits = [&](Index n) {
        const Index pixels = side[i].window(n) * others;
        return pixels * least(sum.pixel, sum.piece) <= slice_limit &&
               pixels * sum.pixel <= window_limit && n * box_rows <= most_rows;
      };
      if (!fits(count)) {
        Index low = 1;  // always taken
        while (low < count) {
          const Index middle = (low + count + 1) / 2;
          if (fits(middle)) {
            low = middle;
          } else {
            count = middle - 1;
          }
        }
        count = low;
        count = ceil_div(side[i].rows, ceil_div(side[i].rows, count));
        if (i == kDims && count > T::mr) count = round_up(count, T::mr);
      }
      plan.box[i] = most(1, count);
      box_rows *= plan.box[i];
      others *= side[i].window(plan.box[i]);
      if (plan.box[i] < side[i].rows) break;
    }
    Index boxes = 1, length = sum.pixel;
    for (int i = kDims; i >= 0; --i) {
      plan.boxes[i] = ceil_div(side[i].rows, plan.box[i]);
      boxes *= plan.boxes[i];
      plan.window.line[i] = length;
      length *= side[i].window(plan.box[i]);
    }
    plan.tiles = (ceil_div(plan.box[kDims], T::mr) + 1) * box_rows / plan.box[kDims];
    plan.window.channels = g.channels;
    plan.splits = 1;
    if (boxes * p.g < plan.threads * 2) {
      plan.splits = least(plan.panels, ceil_div(plan.threads * 2, boxes * p.g));
    }
    plan.parts = boxes * plan.splits;
    plan.group = least(plan.group, ceil_div(plan.panels, plan.splits));
    plan.bytes_offsets = round_up(sum.runs * Index{sizeof(Index)}, 64);
    plan.bytes_b = round_up(p.g * plan.panels * T::nr * sum.units() * unit, 64);
    // Register tiles read whole heights, also of rows that do not exist.
    const Index slack = T::mr * plan.window.line[kDims] * side[kDims].hop + T::lanes;
    plan.bytes_window = round_up((length + slack) * unit, 64);
    plan.bytes_tiles = round_up(plan.tiles * Index{sizeof(TilePlace)}, 64);
    plan.bytes_thread = plan.bytes_window + plan.bytes_tiles;
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
    double boxes = static_cast<double>(p.g), filled = boxes;
    double tiles = static_cast<double>(tiles_of_line(cut.box[kDims]) * cut.panels);
    for (int i = 0; i < kSides; ++i) {
      boxes *= static_cast<double>(cut.boxes[i]);
      if (i < kDims) tiles *= static_cast<double>(cut.box[i]);
      filled *= static_cast<double>(cut.boxes[i] * cut.sides.side[i].window(cut.box[i]));
    }
    filled *= static_cast<double>(cut.sum.pixel * cut.splits);
    const double cycles = C::step(C::multiplies(T::mr * T::nv), T::mr + T::nv, 3);
    const auto panels = static_cast<double>(cut.panels);
    tiles *= boxes;
    const auto units = static_cast<double>(cut.sum.units());
    const double main =
        tiles * (units * cycles + 40.0 * static_cast<double>(cut.sum.blocks)) / C::hertz;
    const double b = panels * T::nr * units * static_cast<double>(p.g);
    const double moved = filled * C::copy + b * (b > (1 << 18) ? C::pack_far : C::pack_near);
    return (main + moved) / cut.threads + (cut.threads > 1 ? 2 * C::start : 0);
  }

  static void run(const ConvProblemData& p, const ConvArgs& args, const Geometry& g,
                  void* workspace, int threads) {
    const Plan cut = plan(p, g, threads);
    if (cut.sides.empty() || cut.channels == 0) return;
    auto* const offsets = static_cast<Index*>(workspace);
    auto* const b = reinterpret_cast<std::uint32_t*>(at(workspace, cut.bytes_offsets));
    char* const own = at(workspace, cut.bytes_offsets + cut.bytes_b);
    set_offsets(cut, offsets);
    const Call call{p, args, cut, offsets, b};
    parallel(cut.threads, [&](int thread, int team) { pack(call, thread, team); });
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

  // The size, at most `limit`, of nearly equal parts of n.
  static constexpr Index even(Index n, Index limit) { return ceil_div(n, ceil_div(n, limit)); }

  static SumPlan sum_plan(const Sides& sides, Index channels) {
    const Side& last = sides.side[kDims];
    SumPlan sum{};
    sum.channels = channels;
    const Index units = ceil_div(channels, T::kr);
    sum.merged =
        last.taps > 1 && last.reach == 1 && units < 2 * T::lanes && units * last.taps <= depth;
    // An odd number of cache lines, so that the rows of a tile fall into different sets.
    constexpr Index line = 16;
    sum.pixel = units < 2 * line ? units : (ceil_div(units, line) | 1) * line;
    sum.run = units * (sum.merged ? last.taps : 1);
    sum.runs = sum.run == 0 ? 0 : sides.taps() / (sum.merged ? last.taps : 1);
    sum.piece = sum.run;
    sum.runs_of_block = most(1, sum.runs);
    // Neighbouring taps share most of a tile's pixels in the first-level cache.
    const Index limit = last.taps > 1 ? 2 * depth : depth;
    if (sum.units() > limit + limit / 4) {
      if (!sum.merged) {
        const Index share = most(least(4 * line, sum.run), limit / sum.runs);
        sum.piece = round_up(even(sum.run, least(share, sum.run)), line);
      }
      sum.runs_of_block = even(sum.runs, most(1, limit / least(sum.piece, limit)));
    }
    sum.pieces = sum.runs == 0 ? 1 : ceil_div(sum.run, sum.piece);
    sum.run_blocks = ceil_div(most(1, sum.runs), sum.runs_of_block);
    sum.blocks = sum.pieces * sum.run_blocks;
    return sum;
  }

  // Runs and units of a block of the sum.
  struct SumBlock {
    Index run, runs;     // first, number
    Index start, units;  // of each run
    Index before;        // units in all blocks before it
  };
  static SumBlock sum_block(const SumPlan& sum, Index block) {
    SumBlock out{};
    out.run = block % sum.run_blocks * sum.runs_of_block;
    out.runs = least(sum.runs_of_block, sum.runs - out.run);
    out.start = block / sum.run_blocks * sum.piece;
    out.units = least(sum.piece, sum.run - out.start);
    out.before = out.start * sum.runs + out.run * out.units;
    return out;
  }

  static void set_offsets(const Plan& cut, Index* offsets) {
    if (cut.sum.runs == 0) return;
    const Side(&s)[kSides] = cut.sides.side;
    const Index across = cut.sum.merged ? 1 : s[3].taps;
    for (Index i = 0; i < s[0].taps; ++i) {
      for (Index j = 0; j < s[1].taps; ++j) {
        for (Index k = 0; k < s[2].taps; ++k) {
          for (Index l = 0; l < across; ++l) {
            const Index(&line)[kSides] = cut.window.line;
            *offsets++ = i * s[0].reach * line[0] + j * s[1].reach * line[1] +
                         k * s[2].reach * line[2] + l * s[3].reach * line[3];
          }
        }
      }
    }
  }

  // Height of the next register tile of a line of which `rest` rows are left.
  static constexpr Index height(Index rest) {
    if (rest >= T::mr) return T::mr;
    return rest > half && 5 * rest < 4 * T::mr ? half : rest;
  }
  static constexpr Index tiles_of_line(Index rows) {
    Index tiles = 0;
    for (Index rest = rows; rest > 0; rest -= height(rest)) ++tiles;
    return tiles;
  }

  // Position in the filter of a run's tap.
  static Index filter_position(const Plan& cut, Index run, Index tap) {
    const Side(&s)[kSides] = cut.sides.side;
    Index position = 0;
    if (cut.sum.merged) {
      position = s[3].tap_first + tap * s[3].tap_stride;
    } else {
      position = s[3].tap_first + run % s[3].taps * s[3].tap_stride;
      run /= s[3].taps;
    }
    for (int i = kDims - 1; i >= 0; --i) {
      position += s[i].tap_first + run % s[i].taps * s[i].tap_stride;
      run /= s[i].taps;
    }
    return position;
  }

  // Each thread packs some panels of the weights.
  static CKDISP_CPU_NOINLINE void pack(const Call& call, int thread, int team) noexcept {
    const Plan& cut = call.cut;
    const SumPlan& sum = cut.sum;
    const Index count = sum.runs == 0 ? 0 : call.p.g * sum.blocks * cut.panels;
    for (Index i = part_start(count, team, thread); i < part_start(count, team, thread + 1); ++i) {
      const Index panel = i % cut.panels;
      const Index group = i / cut.panels / sum.blocks;
      const SumBlock block = sum_block(sum, i / cut.panels % sum.blocks);
      std::uint32_t* to = panel_of(call, group, block, panel);
      for (Index run = 0; run < block.runs; ++run) {
        if (sum.merged) {
          const Index taps = cut.sides.side[kDims].taps;
          for (Index tap = 0; tap < taps; ++tap) {
            pack_tap(call, group, filter_position(cut, block.run + run, tap), panel, 0,
                     sum.channels, to);
            to += sum.run / taps * T::nr;
          }
        } else {
          const Index start = block.start * T::kr;
          pack_tap(call, group, filter_position(cut, block.run + run, 0), panel, start,
                   least(block.units * T::kr, sum.channels - start), to);
          to += block.units * T::nr;
        }
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
      pack_along_k<T, dtype, T::nr>(to, EvenLines{from, line * size}, least(T::nr, left), count);
    } else {
      from += (channel * line + column) * size;
      pack_across_k<T, dtype, T::nr>(to, EvenLines{from, line * size}, least(T::nr, left), left,
                                     count);
    }
  }

  static std::uint32_t* panel_of(const Call& call, Index group, const SumBlock& block,
                                 Index panel) {
    const Plan& cut = call.cut;
    return call.b + (group * cut.panels * cut.sum.units() + cut.panels * block.before +
                     panel * block.runs * block.units) *
                        T::nr;
  }

  // One box of one group, or one split of its columns.
  static CKDISP_CPU_NOINLINE void compute(const Call& call, Index group, Index part,
                                          char* scratch) noexcept {
    const Plan& cut = call.cut;
    const Index split = part % cut.splits;
    Box box{};
    Index rest = part / cut.splits;
    for (int i = kDims; i >= 0; --i) {
      box.first[i] = rest % cut.boxes[i] * cut.box[i];
      box.count[i] = least(cut.box[i], cut.sides.side[i].rows - box.first[i]);
      rest /= cut.boxes[i];
    }
    auto* const window = reinterpret_cast<std::uint32_t*>(scratch);
    if (cut.sum.runs > 0) {
      const void* const source = forward ? call.args.in : call.args.out;
      fill_window<T, T::key.dtype_a>(cut.sides, cut.window, box,
                                     at(source, group * cut.sum.channels * T::size_a), window);
    }
    auto* const places = reinterpret_cast<TilePlace*>(scratch + cut.bytes_window);
    auto* const kept = reinterpret_cast<Acc*>(scratch + cut.bytes_window + cut.bytes_tiles);
    const Index tiles = place_tiles(cut, box, group * cut.channels, places);
    const Index end = part_start(cut.panels, cut.splits, split + 1);
    for (Index first = part_start(cut.panels, cut.splits, split); first < end; first += cut.group) {
      const Index panels = least(cut.group, end - first);
      for (Index number = 0; number < cut.sum.blocks; ++number) {
        const SumBlock block = sum_block(cut.sum, number);
        const bool begins = number == 0, ends = number + 1 == cut.sum.blocks;
        Acc* acc = cut.sum.blocks > 1 ? kept : nullptr;
        for (Index i = 0; i < tiles; ++i) {
          for (Index panel = first; panel < first + panels; ++panel) {
            one_tile(call, places[i], block, window, panel_of(call, group, block, panel),
                     panel * T::nr, acc, begins, ends);
            if (acc != nullptr) acc += tile_units;
          }
        }
      }
    }
  }

  // The register tiles of a box. Returns their number.
  static Index place_tiles(const Plan& cut, const Box& box, Index channel, TilePlace* to) {
    const Side(&s)[kSides] = cut.sides.side;
    const Index(&line)[kSides] = cut.window.line;
    const TilePlace* const begin = to;
    TilePlace* open = nullptr;  // a tile whose second half is free
    for (Index i = 0; i < box.count[0]; ++i) {
      for (Index j = 0; j < box.count[1]; ++j) {
        for (Index k = 0; k < box.count[2]; ++k) {
          const Index row[3] = {i, j, k};
          Index a = 0;
          Index own = channel + s[3].own_first + box.first[3] * s[3].own_stride;
          for (int d = 0; d < kDims; ++d) {
            a += row[d] * s[d].hop * line[d];
            own += s[d].own_first + (box.first[d] + row[d]) * s[d].own_stride;
          }
          const Index next_a = s[3].hop * line[3];
          for (Index l = 0; l < box.count[3];) {
            const Index rows = height(box.count[3] - l);
            const Index at_a = a + l * next_a, at_own = own + l * s[3].own_stride;
            if (open != nullptr && rows <= half && 2 * rows > half) {
              open->a_second = at_a - open->a;
              open->own_second = at_own - open->own;
              open->rows_second = rows;
              open = nullptr;
            } else {
              const Index first = least(rows, half);
              *to = {at_a, half * next_a, at_own, half * s[3].own_stride, first, rows - first};
              if (rows <= half && 2 * rows > half) open = to;
              ++to;
            }
            l += rows;
          }
        }
      }
    }
    return to - begin;
  }

  // One tile of one block of the sum.
  static CKDISP_CPU_INLINE void one_tile(const Call& call, const TilePlace& place,
                                         const SumBlock& block, const std::uint32_t* window,
                                         const std::uint32_t* b, Index column, Acc* acc,
                                         bool begins, bool ends) {
    using Sizes = TileSizes<T>;
    const Plan& cut = call.cut;
    const Side& last = cut.sides.side[kDims];
    const Index columns = least(T::nr, cut.channels - column);
    const Index rows = place.rows_second > 0 ? half + place.rows_second : place.rows;
    const auto function = Sizes::template choose<Tiles>(rows, ceil_div(columns, T::lanes));
    const std::uint32_t* const a = window + block.start + place.a;
    const WindowSum sum{call.offsets + block.run, block.runs, block.units,
                        last.hop * cut.window.line[kDims], place.a_second};
    char* const c = at(call.args.result, (place.own + column) * T::size_c);
    if constexpr (E::c_is_accumulator) {
      const bool whole = Sizes::computed_rows(rows) == rows && columns % T::lanes == 0 &&
                         (place.rows_second == 0 || place.rows == half);
      if (whole && acc == nullptr) {
        const TileTarget<Acc> target{reinterpret_cast<Acc*>(c), last.own_stride, place.own_second,
                                     false};
        return function(sum, a, b, target);
      }
    }
    alignas(64) Acc local[tile_units];
    const TileTarget<Acc> target{acc != nullptr ? acc : local, T::nr, half * T::nr, !begins};
    function(sum, a, b, target);
    if (!ends) return;
    GemmProblemData matrix{};
    matrix.ldc = last.own_stride;
    GemmArgs args;
    args.c = c;
    E::tile(matrix, args, target.first, T::nr, 0, 0, place.rows, columns);
    if (place.rows_second == 0) return;
    args.c = at(c, place.own_second * T::size_c);
    E::tile(matrix, args, target.first + target.second, T::nr, 0, 0, place.rows_second, columns);
  }
};

}  // namespace
}  // namespace ckdisp::cpu
