// Pipeline `direct`: convolutions of small groups that have as many input as output channels, one
// of each in depthwise ones. Vectors run over the channels of all groups, which lie side by side.
// Of a key's register tile, m x n is the number of sums that are kept in registers.
#pragma once

#include "../cost.hpp"
#include "../pack.hpp"
#include "depthwise_weights.hpp"
#include "group_weights.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct ConvDirect {
  using T = Traits<Core<Kernel>>;
  using S = typename T::S;
  using F = typename T::F;
  static constexpr const ConvKey& key = Kernel::key;
  static constexpr bool forward = key.family == Family::conv_fwd;
  static constexpr bool weights = key.family == Family::conv_bwd_weight;
  static constexpr Dtype type_a = T::key.dtype_a, type_b = T::key.dtype_b, type_c = T::key.dtype_c;
  static constexpr int size_c = size_of(type_c);
  static constexpr int lanes = T::lanes;
  using Strips = cpu::Strips<T, type_c>;
  using Source = Lines<T, type_a>;
  using Weights = GroupWeights<Kernel>;
  static constexpr bool along_input = forward || weights;  // the lines that are copied
  static constexpr Index largest_group = weights ? lanes : 32;
  static constexpr Index largest_lines = Index{1} << 22;  // floats

  static bool supports(const ConvProblemData& p, Refusal* refusal) {
    const bool vectors = p.c > 0 && (lanes % p.c == 0 || p.c % lanes == 0);
    if (p.c != p.k || !vectors || p.c > largest_group) {
      return refuse(refusal, Reason::channels,
                    "a group has %lld input and %lld output channels; a direct kernel takes equal "
                    "numbers up to %lld that divide %d or that it divides",
                    static_cast<long long>(p.c), static_cast<long long>(p.k),
                    static_cast<long long>(largest_group), lanes);
    }
    const Index held = LineLayout::of<along_input>(p, block(p), lanes).size;
    if (held > largest_lines) {
      return refuse(refusal, Reason::shape,
                    "the lines that a line of the result meets, with their padding, take %lld "
                    "values; a direct kernel holds up to %lld",
                    static_cast<long long>(held), static_cast<long long>(largest_lines));
    }
    return true;
  }

  static double seconds(const ConvProblemData& p, int threads) {
    using C = Cost<Core<Kernel>>;
    const Axis along = axis<along_input>(p, 2, 0);
    const bool slides = along.tap_step == 1 && along.step <= 2 && along.taps >= 3;
    // A load for each multiplication, or for each three.
    double cycles = C::multiplies(1) * (slides ? 0.6 : 1);
    if (!weights && along.rows > 0) {
      cycles *= static_cast<double>(Strips::strips(along.rows) * Strips::longest) /
                static_cast<double>(along.rows);
    }
    // Sums leave registers behind each line.
    if (weights && p.c > 1) {
      cycles = C::multiplies(1) * (0.55 + 1.5 / static_cast<double>(most(1, p.out[2])));
    }
    const auto vectors = static_cast<double>(ceil_div(p.g * p.c, lanes));
    const double sums = static_cast<double>(out_pixels(p) * filter_taps(p) * p.c) * cycles;
    const auto copied = static_cast<double>(along_input ? in_pixels(p) : out_pixels(p));
    const double moved = static_cast<double>(p.g * p.c) *
                         static_cast<double>(in_pixels(p) * size_of(key.dtype_in) +
                                             out_pixels(p) * size_of(key.dtype_out));
    return (vectors * (sums + 3 * copied) / C::hertz + moved / C::cache) / threads;
  }

  static std::uint64_t workspace_size(const ConvProblemData& p, int threads) {
    if constexpr (weights) return p.c == 1 ? 0 : Weights::workspace_size(p, threads);
    return static_cast<std::uint64_t>(Plan(p, threads).size);
  }

  static void run(const ConvProblemData& p, const ConvArgs& args, void* workspace, int threads) {
    if constexpr (weights) {
      if (p.c == 1) {
        DepthwiseWeights<Kernel>::run(p, args, threads);
      } else {
        Weights::run(p, args, workspace, threads);
      }
    } else {
      const Plan plan(p, threads);
      if (plan.parts == 0) return;
      Call call{p, plan, {}, forward ? args.in : args.out, nullptr, args.result};
      auto* axes_of = reinterpret_cast<Axis*>(workspace);
      for (int d = 0; d < kDims; ++d) {
        call.axes[d] = axes_of;
        for (Index i = 0; i < plan.axes[d]; ++i) *axes_of++ = axis<forward>(p, d, i);
      }
      auto* const packed = reinterpret_cast<float*>(at(workspace, plan.weights));
      transpose_weights(p, args.wei, packed);
      call.weights = packed;
      std::int64_t counter = 0;
      parallel(threads, [&](int thread, int team) {
        Tickets tickets(&counter, plan.parts, team);
        char* const own = at(workspace, plan.threads + thread * plan.bytes_thread);
        auto* const met = reinterpret_cast<MetLine*>(own);
        auto* const held = reinterpret_cast<Index*>(own + plan.bytes_met);
        auto* const floats = reinterpret_cast<float*>(own + plan.bytes_met + plan.bytes_held);
        Source source(plan.lines, floats, held);
        for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
          some_lines(call, part, source, met);
        }
      });
    }
  }

 private:
  static Index block(const ConvProblemData& p) {
    if constexpr (weights) return Weights::block(p);
    // Lines are used one after the other: long pieces of pixels are worth a second-level cache.
    constexpr Index far = 1 << 14;
    return vectors_of_block<along_input, T, type_a>(p, far);
  }
  static Index padded(const ConvProblemData& p) { return round_up(p.g * p.c, block(p) * lanes); }

  // How the work is cut, and the workspace: axes, weights, and of each thread the lines of the
  // source that a line of the result meets, and those that are held. A part is a cut of the lines
  // of a plane of the result, for a block of channels.
  struct Plan {
    LineLayout lines;
    Index axes[kDims];
    Index blocks, cuts, parts;
    Index weights, threads, size;  // bytes before these, and of all
    Index bytes_met, bytes_held, bytes_thread;

    Plan(const ConvProblemData& p, int team) {
      lines = LineLayout::of<forward>(p, block(p), lanes);
      const auto& result = forward ? p.out : p.in;
      blocks = padded(p) / (lines.vectors * lanes);
      const Index planes = p.n * result[0] * blocks;
      cuts = 1;
      if (team > 1 && planes > 0) {
        cuts = most(1, least(ceil_div(Index{team} * parts_per_thread, planes), result[1] / 4));
      }
      parts = result[1] * result[2] == 0 ? 0 : planes * cuts;
      Index count = 0;
      for (int d = 0; d < kDims; ++d) count += axes[d] = cpu::axes<forward>(p, d);
      weights = round_up(count * Index{sizeof(Axis)}, 64);
      threads = weights + filter_taps(p) * p.c * padded(p) * Index{sizeof(float)};
      bytes_met = round_up(p.filter[0] * p.filter[1] * Index{sizeof(MetLine)}, 64);
      bytes_held = round_up(lines.slots() * Index{sizeof(Index)}, 64);
      bytes_thread = bytes_met + bytes_held + round_up(lines.size * Index{sizeof(float)}, 64);
      size = threads + team * bytes_thread;
    }
  };

  struct Call {
    const ConvProblemData& p;
    const Plan& plan;
    const Axis* axes[kDims];
    const void* source;
    const float* weights;
    void* result;

    // The axis of a pixel of the result.
    const Axis& axis(int d, Index pixel) const { return axes[d][pixel % plan.axes[d]]; }
    Index row(int d, Index pixel) const { return pixel / plan.axes[d]; }
  };

  // Where the weights of a vector of the result's channels begin: taps x summed channels of a group
  // x lanes.
  static Index weights_of(const ConvProblemData& p, Index channel) {
    return channel * filter_taps(p) * p.c;
  }

  static void transpose_weights(const ConvProblemData& p, const void* from, float* to) {
    constexpr Index size = size_of(type_b);
    const Index taps = filter_taps(p), channels = p.g * p.c, depth = p.c;
    const Index filter = taps * depth;  // elements of an output channel
    for (Index vector = 0; vector < channels; vector += lanes, to += filter * lanes) {
      const Index count = least(lanes, channels - vector);
      if (forward || depth == 1) {
        pack_along_k<T, type_b, lanes>(reinterpret_cast<std::uint32_t*>(to),
                                       at(from, vector * filter * size), filter * size, count,
                                       filter);
        continue;
      }
      const char* first[lanes];  // of each input channel
      for (Index i = 0; i < count; ++i) {
        const Index group = (vector + i) / depth * depth;
        first[i] = at(from, (group * filter + vector + i - group) * size);
      }
      for (Index t = 0; t < taps; ++t) {
        for (Index d = 0; d < depth; ++d) {
          F own{};
          for (Index i = 0; i < count; ++i) {
            own[i] = load_as_float<type_b, S>(first[i] + (d * taps + t) * depth * size, 1)[0];
          }
          store(to + (t * depth + d) * lanes, own);
        }
      }
    }
  }

  static CKDISP_CPU_NOINLINE void some_lines(const Call& call, Index part, Source& source,
                                             MetLine* met) noexcept {
    const ConvProblemData& p = call.p;
    const Plan& plan = call.plan;
    const auto& size = forward ? p.out : p.in;
    const Index cut = part % plan.cuts, rest = part / plan.cuts;
    const Index channel = rest % plan.blocks * plan.lines.vectors * lanes;
    const Index z = rest / plan.blocks % size[0], image = rest / plan.blocks / size[0];
    const auto& pixels = forward ? p.in : p.out;
    source.begin(at(call.source, image * product(pixels) * p.g * p.c * size_of(type_a)), channel);
    for (Index y = part_start(size[1], plan.cuts, cut); y < part_start(size[1], plan.cuts, cut + 1);
         ++y) {
      const Index lines = meet(call, z, y, source, met);
      const Index row = ((image * size[0] + z) * size[1] + y) * size[2];
      char* const to = at(call.result, (row * p.g * p.c + channel) * size_c);
      for (Index x = 0; x < plan.axes[2]; ++x)
        one_line(call, call.axes[2][x], met, lines, channel, to);
    }
  }

  // The lines of the source that the taps of a line of the result meet. Returns their number.
  static CKDISP_CPU_INLINE Index meet(const Call& call, Index z, Index y, Source& source,
                                      MetLine* met) {
    const Axis &az = call.axis(0, z), &ay = call.axis(1, y);
    const Index row_z = call.row(0, z), row_y = call.row(1, y);
    Index count = 0;
    for (Index jz = 0; jz < az.taps; ++jz) {
      const Index sz = az.source(row_z, jz);
      if (!az.has(sz)) continue;
      for (Index jy = 0; jy < ay.taps; ++jy) {
        const Index sy = ay.source(row_y, jy);
        if (!ay.has(sy)) continue;
        const Index tap = (az.tap(jz) * call.p.filter[1] + ay.tap(jy)) * call.p.filter[2];
        met[count++] = {source.line(sz, sy), tap};
      }
    }
    return count;
  }

  // The pixels of an axis in a line of the result that begins at `to`.
  static CKDISP_CPU_INLINE void one_line(const Call& call, const Axis& axis, const MetLine* met,
                                         Index lines, Index channel, char* to) {
    const ConvProblemData& p = call.p;
    const LineLayout& layout = call.plan.lines;
    const Index channels = p.g * p.c, pixel = channels * size_c, depth = p.c;
    const Index begin = (axis.source(0, 0) - layout.first) * lanes;
    char* const line = to + axis.out_first * pixel;
    Strip strip{met,
                lines,
                nullptr,
                begin,
                axis.step * lanes,
                axis.taps,
                axis.tap_step * lanes,
                axis.tap_first * depth * lanes,
                axis.tap_stride * depth * lanes,
                depth,
                layout.vector,
                line,
                axis.out_stride * pixel,
                lanes,
                (forward ? p.out : p.in)[2] * pixel,
                false};
    // A piece of the line for all channels, then the next: whole cache lines of the result.
    constexpr Index piece = 8 * Strips::wide;
    for (Index row = 0, rows; row < axis.rows; row += rows) {
      rows = axis.rows - row < 2 * piece ? axis.rows - row : piece;
      for (Index v = 0; v < layout.vectors && channel + v * lanes < channels; ++v) {
        strip.weights = call.weights + weights_of(p, channel + v * lanes);
        strip.channels = least(lanes, channels - channel - v * lanes);
        // The first vector of the source that is summed.
        const Index first = depth <= lanes ? v : v * lanes / depth * (depth / lanes);
        strip.offset = begin + row * strip.step + first * layout.vector;
        strip.to = line + row * strip.to_step + v * lanes * size_c;
        strip.odd = v % 2 == 1;
        if (depth == 1) {
          Strips::template line<Summed::own>(strip, rows);
        } else if (depth < lanes) {
          Strips::template line<Summed::lanes>(strip, rows);
        } else {
          Strips::template line<Summed::vectors>(strip, rows);
        }
      }
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
