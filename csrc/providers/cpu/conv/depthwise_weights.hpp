// The weight gradient of depthwise convolutions: sums of some taps, in registers, over all pixels.
#pragma once

#include "core.hpp"
#include "geometry.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct DepthwiseWeights {
  using T = Traits<Core<Kernel>>;
  using S = typename T::S;
  using F = typename T::F;
  static constexpr Dtype type_dy = T::key.dtype_a, type_x = T::key.dtype_b,
                         type_dw = T::key.dtype_c;
  static constexpr int size_dy = size_of(type_dy), size_x = size_of(type_x);
  static constexpr int lanes = T::lanes, vectors = T::nv, block = vectors * lanes;
  // Taps that one pass over the pixels sums, along the width and the height of the filter.
  static constexpr int columns_at_once = 3, rows_at_once = 3;

  // A block of channels and what is summed at once are a piece of work.
  static void run(const ConvProblemData& p, const ConvArgs& args, int threads) {
    const Index rows = ceil_div(p.filter[1], rows_at_once);
    const Index columns = ceil_div(p.filter[2], columns_at_once);
    const Index pieces = p.filter[0] * rows * columns;
    const Index parts = pieces * ceil_div(p.g, block);
    const Call call{p, args, forward_geometry(p), p.g};
    std::int64_t counter = 0;
    parallel(threads, [&](int, int team) {
      Tickets tickets(&counter, parts, team);
      for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
        Index rest = part % pieces;
        Sums sums{};
        sums.channel = part / pieces * block;
        sums.x = rest % columns * columns_at_once, rest /= columns;
        sums.y = rest % rows * rows_at_once;
        sums.z = rest / rows;
        if (call.channels - sums.channel >= block) {
          some_rows<true>(call, sums);
        } else {
          some_rows<false>(call, sums);
        }
      }
    });
  }

 private:
  struct Call {
    const ConvProblemData& p;
    const ConvArgs& args;
    Geometry g;
    Index channels;
  };

  // The first of some taps, and of some channels.
  struct Sums {
    Index z, y, x, channel;
  };

  // As many at once as there are, or one by one. `Whole`: all channels of the block exist.
  template <bool Whole>
  static void some_rows(const Call& call, Sums sums) {
    const Index end = least(sums.y + rows_at_once, call.p.filter[1]);
    if (end - sums.y == rows_at_once) return some_columns<Whole, rows_at_once>(call, sums);
    for (; sums.y < end; ++sums.y) some_columns<Whole, 1>(call, sums);
  }

  template <bool Whole, int Rows>
  static void some_columns(const Call& call, Sums sums) {
    const Index end = least(sums.x + columns_at_once, call.p.filter[2]);
    if (end - sums.x == columns_at_once) {
      return Pass<Whole, Rows, columns_at_once>::run(call, sums);
    }
    for (; sums.x < end; ++sums.x) Pass<Whole, Rows, 1>::run(call, sums);
  }

  template <bool Whole, int Rows, int Columns>
  struct Pass {
    const Call& call;
    const Sums& sums;
    const char* dy = nullptr;    // the first pixel of a line of the output
    const char* row[Rows] = {};  // and of the lines of the input; null outside of it
    F acc[vectors][Rows][Columns] = {};

    static CKDISP_CPU_NOINLINE void run(const Call& call, const Sums& sums) noexcept {
      const ConvProblemData& p = call.p;
      const Axis *az = &call.g.axis[0], *ay = &call.g.axis[1], *ax = &call.g.axis[2];
      const auto [low, high] = ax->inner();
      Pass pass{call, sums};
      for (Index image = 0; image < p.n; ++image) {
        for (Index z = 0; z < p.out[0]; ++z) {
          const Index sz = az->source(z, sums.z);
          if (!az->has(sz)) continue;
          for (Index y = 0; y < p.out[1]; ++y) {
            const Index out = ((image * p.out[0] + z) * p.out[1] + y) * p.out[2];
            pass.dy = at(call.args.out, (out * call.channels + sums.channel) * size_dy);
            int rows = 0;
            for (int r = 0; r < Rows; ++r) {
              const Index sy = ay->source(y, sums.y + r);
              const Index in = ((image * p.in[0] + sz) * p.in[1] + sy) * p.in[2];
              const bool there = ay->has(sy);
              pass.row[r] =
                  there ? at(call.args.in, (in * call.channels + sums.channel) * size_x) : nullptr;
              rows += there;
            }
            if (rows == 0) continue;
            for (Index x = 0; x < low; ++x) pass.edge(x);
            if (rows == Rows) {
              pass.template inner<0, Rows>(low, high);
            } else {
              unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
                if (pass.row[r] != nullptr) pass.template inner<r, r + 1>(low, high);
              });
            }
            for (Index x = high; x < ax->rows; ++x) pass.edge(x);
          }
        }
      }
      pass.store();
    }

   private:
    Index lanes_of(int v) const {
      return Whole ? lanes : least(lanes, call.channels - sums.channel - v * lanes);
    }

    // Adds the products of the output pixels from `low` to before `high` for the rows `First` to
    // before `End`, all of which lie inside.
    template <int First, int End>
    CKDISP_CPU_INLINE void inner(Index low, Index high) {
      constexpr int rows = End - First;
      const Axis& axis = call.g.axis[2];
      const Index pixel = call.channels * size_x;
      const Index step = axis.step * pixel, tap_step = axis.tap_step * pixel;
      unroll<vectors>([&](auto v) CKDISP_CPU_LAMBDA {
        const Index count = lanes_of(v);
        if (!Whole && count <= 0) return;
        F sum[rows][Columns];  // of its own, to stay in registers
        const char* from[rows];
        unroll<rows>([&](auto r) CKDISP_CPU_LAMBDA {
          from[r] = row[First + r] + axis.source(low, sums.x) * pixel + v * lanes * size_x;
          unroll<Columns>([&](auto c) CKDISP_CPU_LAMBDA { sum[r][c] = acc[v][First + r][c]; });
        });
        for (Index x = low; x < high; ++x) {
          const char* const own = dy + (x * call.channels + v * lanes) * size_dy;
          const F out = load_as_float<type_dy, S>(own, count);
          unroll<Columns>([&](auto c) CKDISP_CPU_LAMBDA {
            unroll<rows>([&](auto r) CKDISP_CPU_LAMBDA {
              sum[r][c] += out * load_as_float<type_x, S>(from[r] + c * tap_step, count);
            });
          });
          unroll<rows>([&](auto r) CKDISP_CPU_LAMBDA { from[r] += step; });
        }
        unroll<rows>([&](auto r) CKDISP_CPU_LAMBDA {
          unroll<Columns>([&](auto c) CKDISP_CPU_LAMBDA { acc[v][First + r][c] = sum[r][c]; });
        });
      });
    }

    // The same for one output pixel, some of whose taps may lie outside.
    CKDISP_CPU_NOINLINE void edge(Index x) noexcept {
      const Axis& axis = call.g.axis[2];
      for (int v = 0; v < vectors; ++v) {
        const Index count = lanes_of(v);
        if (count <= 0) return;
        const char* const own = dy + (x * call.channels + v * lanes) * size_dy;
        const F out = load_as_float<type_dy, S>(own, count);
        for (int c = 0; c < Columns; ++c) {
          const Index source = axis.source(x, sums.x + c);
          if (!axis.has(source)) continue;
          for (int r = 0; r < Rows; ++r) {
            if (row[r] == nullptr) continue;
            const char* const from = row[r] + (source * call.channels + v * lanes) * size_x;
            const F in = load_as_float<type_x, S>(from, count);
            acc[v][r][c] += out * in;
          }
        }
      }
    }

    void store() const {
      const ConvProblemData& p = call.p;
      const Index taps = filter_taps(p), count = least(block, call.channels - sums.channel);
      for (int r = 0; r < Rows; ++r) {
        for (int c = 0; c < Columns; ++c) {
          const Index tap = (sums.z * p.filter[1] + sums.y + r) * p.filter[2] + sums.x + c;
          for (Index i = 0; i < count; ++i) {
            const F value = splat<F>(acc[i / lanes][r][c][i % lanes]);
            const Index element = (sums.channel + i) * taps + tap;
            store_partial<size_of(type_dw)>(at(call.args.result, element * size_of(type_dw)),
                                            from_float<type_dw, S>(value), 1);
          }
        }
      }
    }
  };
};

}  // namespace
}  // namespace ckdisp::cpu
