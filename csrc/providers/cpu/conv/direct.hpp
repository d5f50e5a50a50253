// Pipeline `direct`: depthwise convolutions, whose groups have one channel each. Vectors run over
// the channels, which lie side by side. Of a key's register tile, m is the number of pixels and n
// that of channels.
#pragma once

#include "core.hpp"
#include "geometry.hpp"

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
  static constexpr int pixels = T::mr, vectors = T::nv, lanes = T::lanes, block = T::nr;
  // Taps along the width whose sums a weight gradient keeps in registers.
  static constexpr int taps_at_once = 3;

  static bool supports(const ConvProblemData& p, Refusal* refusal) {
    if (p.c == 1 && p.k == 1) return true;
    return refuse(
        refusal, Reason::channels,
        "a group has %lld input and %lld output channels, a direct kernel takes 1 of each",
        static_cast<long long>(p.c), static_cast<long long>(p.k));
  }

  static double seconds(const ConvProblemData& p, int threads) {
    // Two loads a cycle, one for each multiplication of a vector, at 2.5 GHz; and every tensor
    // once.
    const auto vectors_read = static_cast<double>(out_pixels(p)) *
                              static_cast<double>(filter_taps(p)) *
                              static_cast<double>(ceil_div(p.g, lanes));
    const auto moved =
        static_cast<double>(p.g) * static_cast<double>(in_pixels(p) * size_of(key.dtype_in) +
                                                       out_pixels(p) * size_of(key.dtype_out));
    return (vectors_read / 5e9 + moved / 1e10) / threads;
  }

  // The weights as taps x channels, in whole blocks.
  static std::uint64_t workspace_size(const ConvProblemData& p, int) {
    if (weights) return 0;
    return static_cast<std::uint64_t>(filter_taps(p) * padded(p) * Index{sizeof(float)});
  }

  static void run(const ConvProblemData& p, const ConvArgs& args, void* workspace, int threads) {
    if constexpr (weights) {
      weight_gradient(p, args, threads);
    } else {
      auto* const taps = static_cast<float*>(workspace);
      transpose_weights(p, args.wei, taps);
      if constexpr (forward) {
        gather(p, forward_geometry(p), args.in, taps, args.result, threads);
      } else {
        for (Index z = 0; z < residues(p, 0); ++z) {
          for (Index y = 0; y < residues(p, 1); ++y) {
            for (Index x = 0; x < residues(p, 2); ++x) {
              gather(p, backward_geometry(p, {z, y, x}), args.out, taps, args.result, threads);
            }
          }
        }
      }
    }
  }

 private:
  static constexpr Index padded(const ConvProblemData& p) { return round_up(p.g, block); }

  template <Dtype D>
  static CKDISP_CPU_INLINE F load_as_float(const char* from, Index count) {
    return to_float<D, S>(load_partial<Raw<D, S>, size_of(D)>(from, count));
  }

  static void transpose_weights(const ConvProblemData& p, const void* from, float* to) {
    const Index taps = filter_taps(p), channels = padded(p);
    for (Index t = 0; t < taps; ++t) {
      for (Index g = 0; g < channels; ++g) {
        const F value =
            g < p.g ? load_as_float<type_b>(at(from, (g * taps + t) * size_of(type_b)), 1) : F{};
        to[t * channels + g] = value[0];
      }
    }
  }

  // What stays the same for all rows of pixels.
  struct Call {
    const ConvProblemData& p;
    const Geometry& g;
    const void* source;
    const float* taps;
    void* result;
  };

  // Rows of pixels along the width, a block of channels at a time.
  static void gather(const ConvProblemData& p, const Geometry& g, const void* source,
                     const float* taps, void* result, int threads) {
    const Index lines = g.images * g.axis[0].rows * g.axis[1].rows;
    if (lines == 0 || g.axis[2].rows == 0) return;
    const Call call{p, g, source, taps, result};
    const Index parts = least(lines, Index{threads} * parts_per_thread);
    std::int64_t counter = 0;
    parallel(threads, [&](int, int team) {
      Tickets tickets(&counter, parts, team);
      for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
        for (Index line = part_start(lines, parts, part); line < part_start(lines, parts, part + 1);
             ++line) {
          one_line(call, line);
        }
      }
    });
  }

  static CKDISP_CPU_NOINLINE void one_line(const Call& call, Index line) noexcept {
    const Geometry& g = call.g;
    const Axis& width = g.axis[2];
    const Index rows_y = g.axis[1].rows;
    const Index y = line % rows_y, z = line / rows_y % g.axis[0].rows;
    const Index image = line / rows_y / g.axis[0].rows;
    const auto [low, high] = inner(width);
    for (Index channel = 0; channel < call.p.g; channel += block) {
      const bool whole = call.p.g - channel >= block;
      Index x = 0;
      while (x < width.rows) {
        const bool is_inner = x >= low && x + pixels <= high;
        const auto run = [&](auto count) CKDISP_CPU_LAMBDA {
          if (whole) {
            some_pixels<count, true>(call, image, z, y, x, channel);
          } else {
            some_pixels<count, false>(call, image, z, y, x, channel);
          }
          x += count;
        };
        if (is_inner) {
          run(Int<pixels>{});
        } else {
          run(Int<1>{});
        }
      }
    }
  }

  // Row coordinates whose taps all meet the source, along the width: from the first to behind the
  // last.
  static std::pair<Index, Index> inner(const Axis& width) {
    Index low = 0, high = width.rows;
    while (low < high && width.source(low, 0) < 0) ++low;
    while (high > low && width.source(high - 1, most(width.taps, 1) - 1) >= width.pixels) --high;
    return {low, high};
  }

  // `Whole`: all channels of the block exist.
  template <int Pixels, bool Whole>
  static CKDISP_CPU_NOINLINE void some_pixels(const Call& call, Index image, Index z, Index y,
                                              Index x, Index channel) noexcept {
    const Geometry& g = call.g;
    const ConvProblemData& p = call.p;
    const Axis *az = &g.axis[0], *ay = &g.axis[1], *ax = &g.axis[2];
    const Index channels = padded(p), rest = p.g - channel;
    F acc[Pixels][vectors] = {};
    for (Index jz = 0; jz < az->taps; ++jz) {
      const Index sz = az->source(z, jz);
      if (sz < 0 || sz >= az->pixels) continue;
      for (Index jy = 0; jy < ay->taps; ++jy) {
        const Index sy = ay->source(y, jy);
        if (sy < 0 || sy >= ay->pixels) continue;
        const Index row = ((image * az->pixels + sz) * ay->pixels + sy) * ax->pixels;
        const Index tap_row = (az->tap(jz) * p.filter[1] + ay->tap(jy)) * p.filter[2];
        for (Index jx = 0; jx < ax->taps; ++jx) {
          const Index sx = ax->source(x, jx);
          if (Pixels == 1 && (sx < 0 || sx >= ax->pixels)) continue;
          const float* tap = call.taps + (tap_row + ax->tap(jx)) * channels + channel;
          const char* from = at(call.source, ((row + sx) * g.pixel + channel) * size_of(type_a));
          const Index step = ax->step * g.pixel * size_of(type_a);
          unroll<vectors>([&](auto v) CKDISP_CPU_LAMBDA {
            const Index count = Whole ? lanes : least(lanes, rest - v * lanes);
            if (!Whole && count <= 0) return;
            const F w = load<F>(tap + v * lanes);
            unroll<Pixels>([&](auto i) CKDISP_CPU_LAMBDA {
              const char* const pixel = from + i * step + v * lanes * size_of(type_a);
              acc[i][v] += load_as_float<type_a>(pixel, count) * w;
            });
          });
        }
      }
    }
    unroll<Pixels>([&](auto i) CKDISP_CPU_LAMBDA {
      const Index own = ((image * in_or_out(p, 0) + az->own(z)) * in_or_out(p, 1) + ay->own(y)) *
                            in_or_out(p, 2) +
                        ax->own(x + i);
      char* const to = at(call.result, (own * p.g + channel) * size_of(type_c));
      unroll<vectors>([&](auto v) CKDISP_CPU_LAMBDA {
        const Index count = Whole ? lanes : least(lanes, rest - v * lanes);
        if (!Whole && count <= 0) return;
        store_partial<size_of(type_c)>(to + v * lanes * size_of(type_c),
                                       from_float<type_c, S>(acc[i][v]), count);
      });
    });
  }

  // Sizes of the tensor that is computed.
  static Index in_or_out(const ConvProblemData& p, int d) { return forward ? p.out[d] : p.in[d]; }

  // One vector of channels and some taps of one line of the filter are a piece of work.
  static void weight_gradient(const ConvProblemData& p, const ConvArgs& args, int threads) {
    const Geometry g = forward_geometry(p);
    const Index groups_x = ceil_div(p.filter[2], taps_at_once);
    const Index lines = p.filter[0] * p.filter[1] * groups_x;
    const Index parts = lines * ceil_div(p.g, lanes);
    std::int64_t counter = 0;
    parallel(threads, [&](int, int team) {
      Tickets tickets(&counter, parts, team);
      for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
        const Index line = part % lines, channel = part / lines * lanes;
        const Index first = line % groups_x * taps_at_once;
        const Index count = least(taps_at_once, p.filter[2] - first);
        const Index tap[kDims] = {line / groups_x / p.filter[1], line / groups_x % p.filter[1],
                                  first};
        if (count == taps_at_once) {
          sum_taps<taps_at_once>(p, args, g, tap, channel);
        } else {
          for (Index i = 0; i < count; ++i) {
            const Index one[kDims] = {tap[0], tap[1], first + i};
            sum_taps<1>(p, args, g, one, channel);
          }
        }
      }
    });
  }

  template <int Taps>
  static CKDISP_CPU_NOINLINE void sum_taps(const ConvProblemData& p, const ConvArgs& args,
                                           const Geometry& g, const Index (&tap)[kDims],
                                           Index channel) noexcept {
    const Index count = least(lanes, p.g - channel);
    const Axis* const axes = g.axis;
    F acc[Taps] = {};
    for (Index image = 0; image < p.n; ++image) {
      for (Index z = 0; z < p.out[0]; ++z) {
        const Index sz = axes[0].source(z, tap[0]);
        if (sz < 0 || sz >= p.in[0]) continue;
        for (Index y = 0; y < p.out[1]; ++y) {
          const Index sy = axes[1].source(y, tap[1]);
          if (sy < 0 || sy >= p.in[1]) continue;
          const Index row = ((image * p.in[0] + sz) * p.in[1] + sy) * p.in[2];
          const Index out_row = ((image * p.out[0] + z) * p.out[1] + y) * p.out[2];
          for (Index x = 0; x < p.out[2]; ++x) {
            const F dy = load_as_float<type_a>(
                at(args.out, ((out_row + x) * p.g + channel) * size_of(type_a)), count);
            unroll<Taps>([&](auto i) CKDISP_CPU_LAMBDA {
              const Index sx = axes[2].source(x, tap[2] + i);
              if (sx >= 0 && sx < p.in[2]) {
                acc[i] +=
                    dy * load_as_float<type_b>(
                             at(args.in, ((row + sx) * p.g + channel) * size_of(type_b)), count);
              }
            });
          }
        }
      }
    }
    const Index taps = filter_taps(p);
    const Index first = (tap[0] * p.filter[1] + tap[1]) * p.filter[2] + tap[2];
    for (int i = 0; i < Taps; ++i) {
      for (Index lane = 0; lane < count; ++lane) {
        char* const to = at(args.result, ((channel + lane) * taps + first + i) * size_of(type_c));
        store_partial<size_of(type_c)>(to, from_float<type_c, S>(splat<F>(acc[i][lane])), 1);
      }
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
