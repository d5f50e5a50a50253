// The micro-kernels of pipeline `packed` for convolutions: A is read where it lies in a window,
// each row of a register tile at a place of its own.
#pragma once

#include "../micro.hpp"

namespace ckdisp::cpu {
namespace {

// What one register tile sums: runs of units that begin at offsets of A and follow each other in a
// panel of B.
struct WindowSum {
  const Index* offsets;
  Index runs;
  Index units;        // of a run
  const Index* rows;  // units from A to each row
};

// Where the accumulators of a tile go: elements to each row, or null for rows as long as a tile.
template <class Acc>
struct TileTarget {
  Acc* first;
  const Index* rows;
  bool add;  // to what is there
};

template <class Kernel>
struct WindowTiles {
  using T = Traits<Kernel>;
  using M = Micro<Kernel>;
  using Acc = typename T::Acc;
  using AccV = typename T::AccV;
  using U = typename T::U;
  static constexpr int lanes = T::lanes;

  // Rows x (Vectors * lanes) accumulators.
  template <int Rows, int Vectors>
  static CKDISP_CPU_NOINLINE void tile(const WindowSum& sum, const std::uint32_t* a,
                                       const std::uint32_t* b,
                                       const TileTarget<Acc>& target) noexcept {
    const auto out = [&](int row) CKDISP_CPU_LAMBDA {
      return target.first + (target.rows != nullptr ? target.rows[row] : Index{row} * T::nr);
    };
    AccV acc[Rows][Vectors];
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<Vectors>([&](auto v) CKDISP_CPU_LAMBDA {
        acc[r][v] = AccV{};
        __builtin_prefetch(out(r) + v * lanes, 1);
      });
    });
    for (Index run = 0; run < sum.runs; ++run) {
      const std::uint32_t* from[Rows];
      unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
        from[r] = a + sum.offsets[run] + sum.rows[r];
        __asm__("" : "+r"(from[r]));  // to stay in a register
      });
#pragma GCC unroll 2
      for (Index k = 0; k < sum.units; ++k) {
        unroll<(Vectors * lanes * 4 + 63) / 64>([&](auto i) CKDISP_CPU_LAMBDA {
          __builtin_prefetch(reinterpret_cast<const char*>(b) + M::ahead + 64 * i);
        });
        U bk[Vectors];
        unroll<Vectors>([&](auto v) CKDISP_CPU_LAMBDA { bk[v] = load<U>(b + v * lanes); });
        unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
          const U ar = splat<U>(from[r][k]);
          unroll<Vectors>(
              [&](auto v) CKDISP_CPU_LAMBDA { acc[r][v] = multiply_add<T>(acc[r][v], ar, bk[v]); });
        });
        b += T::nr;
      }
    }
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<Vectors>([&](auto v) CKDISP_CPU_LAMBDA {
        Acc* to = out(r) + v * lanes;
        store(to, target.add ? M::add(acc[r][v], load<AccV>(to)) : acc[r][v]);
      });
    });
  }
};

// A line of pixels of a box: where it begins, in units of the copied output and of the window.
struct PixelLine {
  Index a, b;
};

// What a register tile of backward weight sums: lines of pixels.
struct PixelSum {
  const PixelLine* lines;
  Index lines_count;
  Index count;           // pixels of a line
  Index next_a, next_b;  // units from one pixel to the next
  bool add;              // to what is there
};

template <class Kernel>
struct PixelTiles {
  using T = Traits<Kernel>;
  using Acc = typename T::Acc;
  using AccV = typename T::AccV;
  using U = typename T::U;
  static constexpr int lanes = T::lanes;

  // Rows x (Vectors * lanes) accumulators at `out`, in lines of the whole tile's width.
  template <int Rows, int Vectors>
  static CKDISP_CPU_NOINLINE void tile(const PixelSum& sum, const std::uint32_t* a,
                                       const std::uint32_t* b, Acc* out) noexcept {
    AccV acc[Rows][Vectors];
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<Vectors>([&](auto v) CKDISP_CPU_LAMBDA {
        acc[r][v] = AccV{};
        __builtin_prefetch(out + r * T::nr + v * lanes, 1);
      });
    });
    for (Index i = 0; i < sum.lines_count; ++i) {
      const std::uint32_t* from_a = a + sum.lines[i].a;
      const std::uint32_t* from_b = b + sum.lines[i].b;
#pragma GCC unroll 2
      for (Index pixel = 0; pixel < sum.count; ++pixel) {
        U bk[Vectors];
        unroll<Vectors>([&](auto v) CKDISP_CPU_LAMBDA { bk[v] = load<U>(from_b + v * lanes); });
        unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
          const U ar = splat<U>(from_a[r]);
          unroll<Vectors>(
              [&](auto v) CKDISP_CPU_LAMBDA { acc[r][v] = multiply_add<T>(acc[r][v], ar, bk[v]); });
        });
        from_a += sum.next_a;
        from_b += sum.next_b;
      }
    }
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<Vectors>([&](auto v) CKDISP_CPU_LAMBDA {
        Acc* to = out + r * T::nr + v * lanes;
        store(to, sum.add ? acc[r][v] + load<AccV>(to) : acc[r][v]);
      });
    });
  }
};

}  // namespace
}  // namespace ckdisp::cpu
