// The weight gradient of pipeline `direct` of groups with several channels: line by line, the sums
// of some input channels and taps in registers, those of all taps in a first-level cache.
#pragma once

#include "core.hpp"
#include "lines.hpp"
#include "strips.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct GroupWeights {
  using T = Traits<Core<Kernel>>;
  using S = typename T::S;
  using F = typename T::F;
  using I = typename T::I;
  static constexpr Dtype type_dy = T::key.dtype_a, type_x = T::key.dtype_b,
                         type_dw = T::key.dtype_c;
  static constexpr int lanes = T::lanes;
  using Source = Lines<T, type_x>;
  using Own = Lines<T, type_dy>;
  static constexpr int taps_at_once = 3;

  // Zeros on both sides of a line of the output let all taps slide along all of it.
  static constexpr Index margin = taps_at_once - 1;

  static Index block(const ConvProblemData& p) {
    const Index own = (p.out[2] + 2 * margin) * lanes + p.filter[1] * line_sums(p, 1);
    constexpr Index near = 1 << 12;  // a first-level cache
    return vectors_of_block<true, T, type_x>(p, near, own);
  }

  // A part is a block of channels and a plane of the filter, or a line where those are too few. The
  // workspace of each thread, in bytes: lines of the input, a line of the output, sums.
  struct Plan {
    LineLayout in, out;
    Index blocks, lines, parts;
    Index bytes_held, bytes_in, bytes_out, bytes_sums, bytes_thread;

    Plan(const ConvProblemData& p, int threads) {
      const Index vectors = block(p);
      in = LineLayout::of<true>(p, vectors, lanes);
      out = {p.out[2], p.out[1], p.g * p.k, -margin, p.out[2] + 2 * margin, vectors, 1, 1, 0, 0, 0};
      out.vector = out.positions * lanes;
      out.line = out.size = out.vector * vectors;
      blocks = ceil_div(p.g * p.c, vectors * lanes);
      lines = blocks * p.filter[0] < threads ? 1 : p.filter[1];
      parts = blocks * p.filter[0] * (p.filter[1] / lines);
      bytes_held = round_up((in.slots() + 1) * Index{sizeof(Index)}, 64);
      bytes_in = round_up(in.size * Index{sizeof(float)}, 64);
      bytes_out = round_up(out.size * Index{sizeof(float)}, 64);
      bytes_sums = round_up(lines * line_sums(p, vectors) * Index{sizeof(float)}, 64);
      bytes_thread = bytes_held + bytes_in + bytes_out + bytes_sums;
    }
  };

  static std::uint64_t workspace_size(const ConvProblemData& p, int threads) {
    return static_cast<std::uint64_t>(Plan(p, threads).bytes_thread * threads);
  }

  static void run(const ConvProblemData& p, const ConvArgs& args, void* workspace, int threads) {
    const Plan plan(p, threads);
    const Call call{p, args, plan, forward_geometry(p)};
    std::int64_t counter = 0;
    parallel(threads, [&](int thread, int team) {
      Tickets tickets(&counter, plan.parts, team);
      char* place = at(workspace, thread * plan.bytes_thread);
      const auto next = [&](Index bytes) {
        char* const now = place;
        place += bytes;
        return now;
      };
      auto* const held = reinterpret_cast<Index*>(next(plan.bytes_held));
      Source in(plan.in, reinterpret_cast<float*>(next(plan.bytes_in)), held);
      Own out(plan.out, reinterpret_cast<float*>(next(plan.bytes_out)), held + plan.in.slots());
      auto* const sums = reinterpret_cast<float*>(next(plan.bytes_sums));
      for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
        one_part(call, part, in, out, sums);
      }
    });
  }

 private:
  struct Call {
    const ConvProblemData& p;
    const ConvArgs& args;
    const Plan& plan;
    Geometry g;
  };

  // Sums of a line of the filter: vectors x input channels of a group x taps x lanes.
  static Index line_sums(const ConvProblemData& p, Index vectors) {
    return vectors * p.c * p.filter[2] * lanes;
  }

  static CKDISP_CPU_NOINLINE void one_part(const Call& call, Index part, Source& in, Own& out,
                                           float* sums) noexcept {
    const ConvProblemData& p = call.p;
    const Plan& plan = call.plan;
    const Axis &az = call.g.axis[0], &ay = call.g.axis[1];
    const Index cuts = p.filter[1] / plan.lines;
    const Index channel = part / cuts / p.filter[0] * plan.in.vectors * lanes;
    const Index jz = part / cuts % p.filter[0], first = part % cuts * plan.lines;
    const Index line = line_sums(p, plan.in.vectors);
    __builtin_memset(sums, 0, static_cast<std::size_t>(plan.bytes_sums));
    for (Index image = 0; image < p.n; ++image) {
      in.begin(at(call.args.in, image * product(p.in) * p.g * p.c * size_of(type_x)), channel);
      out.begin(at(call.args.out, image * product(p.out) * p.g * p.k * size_of(type_dy)), channel);
      for (Index z = 0; z < p.out[0]; ++z) {
        const Index sz = az.source(z, jz);
        if (!az.has(sz)) continue;
        for (Index y = 0; y < p.out[1]; ++y) {
          for (Index j = 0; j < plan.lines; ++j) {
            const Index sy = ay.source(y, first + j);
            if (!ay.has(sy)) continue;
            add_line(call, channel, in.line(sz, sy), out.line(z, y), sums + j * line);
          }
        }
      }
    }
    for (Index j = 0; j < plan.lines; ++j) {
      put(call, channel, jz * p.filter[1] + first + j, sums + j * line);
    }
  }

  // Adds the products of a line of the output and one of the input, both of a block of channels.
  static CKDISP_CPU_INLINE void add_line(const Call& call, Index channel, const float* x,
                                         const float* dy, float* sums) {
    const ConvProblemData& p = call.p;
    const Plan& plan = call.plan;
    const Axis& axis = call.g.axis[2];
    const Index depth = p.c, all = p.filter[2];
    const bool slides = axis.step == 1 && axis.tap_step == 1;
    x += (axis.source(0, 0) - plan.in.first) * lanes;
    dy -= plan.out.first * lanes;
    for (Index v = 0; v < plan.in.vectors && channel + v * lanes < p.g * p.c; ++v) {
      for (Index d = 0; d < depth; d += depth < 4 ? 2 : 4) {
        Pass pass{dy + v * plan.out.vector,
                  x + v * plan.in.vector,
                  sums + (v * depth + d) * all * lanes,
                  p.out[2],
                  axis.step * lanes,
                  axis.tap_step * lanes,
                  all * lanes,
                  depth,
                  d};
        Index tap = 0;
        for (; tap + taps_at_once <= all; tap += taps_at_once) {
          if (slides) {
            inputs<taps_at_once, true>(pass);
          } else {
            inputs<taps_at_once, false>(pass);
          }
          pass.x += taps_at_once * pass.tap_step;
          pass.sums += taps_at_once * lanes;
        }
        for (; tap < all; ++tap) {
          inputs<1, false>(pass);
          pass.x += pass.tap_step;
          pass.sums += lanes;
        }
      }
    }
  }

  // One vector of output channels and some input channels, from `input`. Distances in floats.
  struct Pass {
    const float* dy;
    const float* x;
    float* sums;
    Index pixels, step, tap_step, input_step;
    Index depth, input;
  };

  template <int Taps, bool Slides>
  static CKDISP_CPU_INLINE void inputs(const Pass& pass) {
    if (pass.depth < 4) return add<Taps, Slides, 2, false>(pass);
    if (pass.depth < lanes) return add<Taps, Slides, 4, false>(pass);
    add<Taps, Slides, 4, true>(pass);
  }

  // `Slides`: each pixel of the input is read once for all taps. `Same`: an input channel is the
  // same lane for all output channels.
  template <int Taps, bool Slides, int Inputs, bool Same>
  static CKDISP_CPU_NOINLINE void add(const Pass& pass) noexcept {
    F acc[Inputs][Taps];
    unroll<Inputs>([&](auto d) CKDISP_CPU_LAMBDA {
      unroll<Taps>([&](auto t) CKDISP_CPU_LAMBDA {
        acc[d][t] = load<F>(pass.sums + d * pass.input_step + t * lanes);
      });
    });
    I index[Inputs];
    unroll<Inputs>([&](auto d) CKDISP_CPU_LAMBDA {
      if constexpr (!Same) {
        index[d] = first_lanes<S>(pass.depth) + static_cast<std::int32_t>(pass.input + d);
      }
    });
    const float* x = pass.x + (Same ? pass.input : 0);
    const float* dy = pass.dy;
    const auto input = [&](const float* from, auto d) CKDISP_CPU_LAMBDA {
      if constexpr (Same) {
        return splat<F>(from[d]);
      } else {
        return permute<S>(load<F>(from), index[d]);
      }
    };
    const Index count = pass.pixels + (Slides ? Taps - 1 : 0);
    for (Index i = 0; i < count; ++i, dy += lanes, x += Slides ? lanes : pass.step) {
      if constexpr (Slides) {
        F own[Taps];
        unroll<Taps>([&](auto t) CKDISP_CPU_LAMBDA { own[t] = load<F>(dy - t * lanes); });
        unroll<Inputs>([&](auto d) CKDISP_CPU_LAMBDA {
          const F in = input(x, d);
          unroll<Taps>([&](auto t) CKDISP_CPU_LAMBDA { acc[d][t] += own[t] * in; });
        });
      } else {
        const F own = load<F>(dy);
        unroll<Taps>([&](auto t) CKDISP_CPU_LAMBDA {
          unroll<Inputs>([&](auto d) CKDISP_CPU_LAMBDA {
            acc[d][t] += own * input(x + t * pass.tap_step, d);
          });
        });
      }
    }
    unroll<Inputs>([&](auto d) CKDISP_CPU_LAMBDA {
      unroll<Taps>([&](auto t) CKDISP_CPU_LAMBDA {
        store(pass.sums + d * pass.input_step + t * lanes, acc[d][t]);
      });
    });
  }

  // Writes a line of the filter.
  static void put(const Call& call, Index channel, Index line, const float* sums) {
    const ConvProblemData& p = call.p;
    const Index taps = filter_taps(p), width = p.filter[2];
    for (Index i = 0; i < least(call.plan.in.vectors * lanes, p.g * p.c - channel); ++i) {
      for (Index t = 0; t < width; ++t) {
        for (Index d = 0; d < p.c; ++d) {
          const float value = sums[((i / lanes * p.c + d) * width + t) * lanes + i % lanes];
          const Index element = ((channel + i) * taps + line * width + t) * p.c + d;
          store_partial<size_of(type_dw)>(at(call.args.result, element * size_of(type_dw)),
                                          from_float<type_dw, S>(splat<F>(value)), 1);
        }
      }
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
