// Packing of lines of numbers, found through pointers, to panels of nr columns of float.
#pragma once

#include "core.hpp"

namespace ckdisp::cpu {
namespace {

template <class T, Dtype D>
struct FmhaPack {
  using S = typename T::S;
  using F = typename T::F;
  static constexpr int lanes = T::lanes, nr = T::nr, size = size_of(D);

  // Columns are lines: panel[k][x] = line x at k, a panel being `depth` long. Lines of the last
  // panel that do not exist are zero. `from` bytes into the lines lie the first numbers; all are
  // multiplied by `factor`.
  static CKDISP_CPU_NOINLINE void columns(float* to, const char* const* lines, Index from,
                                          Index count, Index depth, float factor) noexcept {
    for (Index first = 0; first < count; first += nr) {
      for (Index x = 0; x < nr; x += lanes) {
        const Index some = most(0, least(lanes, count - first - x));
        for (Index k = 0; k < depth; k += lanes) {
          const Index steps = least(lanes, depth - k);
          if (some == lanes && steps == lanes) {
            square<true>(to + k * nr + x, lines + first + x, from + k * size, some, steps, factor);
          } else {
            square<false>(to + k * nr + x, lines + first + x, from + k * size, some, steps, factor);
          }
        }
      }
      to += depth * nr;
    }
  }

  // Columns are positions in a line: panel[i][x] = line i at x, a panel being `length` long, of
  // which `count` lines exist. Positions of the last panel beyond `width` are zero.
  static CKDISP_CPU_NOINLINE void rows(float* to, const char* const* lines, Index count,
                                       Index width, Index length) noexcept {
    for (Index i = 0; i < count; ++i) {
      const char* const line = lines[i];
      float* row = to + i * nr;
      for (Index x = 0; x < width; x += nr) {
        unroll<T::nv>([&](auto v) CKDISP_CPU_LAMBDA {
          const Index some = most(0, width - x - v * lanes);
          store(row + v * lanes, load_as_float<D, S>(line + (x + v * lanes) * size, some));
        });
        row += length * nr;
      }
    }
  }

 private:
  template <bool Whole>
  static CKDISP_CPU_INLINE void square(float* to, const char* const* lines, Index from, Index some,
                                       Index steps, float factor) {
    F v[lanes] = {};
    if constexpr (Whole) {
      unroll<lanes>([&](auto i) CKDISP_CPU_LAMBDA {
        v[i] = load_as_float<D, S>(lines[i] + from, lanes) * factor;
      });
    } else {
      for (int i = 0; i < some; ++i) v[i] = load_as_float<D, S>(lines[i] + from, steps) * factor;
    }
    transpose(v);
    if constexpr (Whole) {
      unroll<lanes>([&](auto i) CKDISP_CPU_LAMBDA { store(to + i * nr, v[i]); });
    } else {
      for (int i = 0; i < steps; ++i) store(to + i * nr, v[i]);
    }
  }
};

// One line of `width` numbers times `factor`; zeros behind it, up to `padded`.
template <class T, Dtype D>
CKDISP_CPU_INLINE void widen_line(float* to, const char* line, Index width, Index padded,
                                  float factor) {
  using F = typename T::F;
  constexpr int lanes = T::lanes;
  for (Index x = 0; x < padded; x += lanes) {
    const Index some = most(0, width - x);
    const F v = load_as_float<D, typename T::S>(line + x * size_of(D), some);
    store_partial<4>(to + x, v * factor, padded - x);
  }
}

// The opposite: rounds to type D.
template <class T, Dtype D>
CKDISP_CPU_INLINE void narrow_line(char* line, const float* from, Index width, float factor) {
  using F = typename T::F;
  constexpr int lanes = T::lanes;
  for (Index x = 0; x < width; x += lanes) {
    const F v = load_partial<F, 4>(from + x, width - x) * factor;
    store_partial<size_of(D)>(line + x * size_of(D), from_float<D, typename T::S>(v), width - x);
  }
}

}  // namespace
}  // namespace ckdisp::cpu
