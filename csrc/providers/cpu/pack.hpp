// Packing: a panel of `Width` rows of A, or columns of B, becomes units[k][Width], ready for the
// micro-kernel to read in order.
#pragma once

#include "traits.hpp"

namespace ckdisp::cpu {
namespace {

// One vector of a packed panel. The lanes beyond the panel's width run into the next k, which is
// written later, or into slack behind the panel.
template <int Width, class V>
CKDISP_CPU_INLINE void store_units(std::uint32_t* to, int x, V v) {
  constexpr int lanes = sizeof(V) / 4;
  if (Width <= lanes || x + lanes <= Width) {
    store(to + x, v);
  } else {
    store_partial<4>(to + x, v, Width - x);
  }
}

// A square of lines x .. x + lanes, of which `Lines` belong to the panel, and lanes units of k.
template <class T, Dtype D, int Width, int Lines>
CKDISP_CPU_INLINE void pack_square(std::uint32_t* to, int x, const char* from, Index line) {
  constexpr int lanes = T::lanes;
  typename T::U v[lanes] = {};
  unroll<Lines>([&](auto i) CKDISP_CPU_LAMBDA {
    __builtin_prefetch(from + i * line + 256);
    v[i] = units_along_k<T, D>(from + i * line, Index{lanes} * T::kr);
  });
  transpose(v);
  unroll<lanes>([&](auto i) CKDISP_CPU_LAMBDA { store_units<Width>(to + i * Width, x, v[i]); });
}

// The same at the edges: `lines` lines exist and `count` values along k.
template <class T, Dtype D, int Width>
CKDISP_CPU_NOINLINE void pack_edge(std::uint32_t* to, int x, const char* from, Index line,
                                   Index lines, Index count) noexcept {
  constexpr int lanes = T::lanes;
  typename T::U v[lanes] = {};
  for (int i = 0; i < lanes && i < lines; ++i) v[i] = units_along_k<T, D>(from + i * line, count);
  transpose(v);
  const Index units = ceil_div(count, T::kr);
  for (Index i = 0; i < units; ++i) store_units<Width>(to + i * Width, x, v[i]);
}

// From a matrix contiguous along k: `width` lines of `depth` values, `line` bytes apart.
template <class T, Dtype D, int Width>
CKDISP_CPU_NOINLINE void pack_along_k(std::uint32_t* to, const char* from, Index line, Index width,
                                      Index depth) noexcept {
  constexpr int lanes = T::lanes;
  constexpr int whole = Width / lanes * lanes;
  constexpr Index step = Index{lanes} * T::kr;
  for (Index k = 0; k < depth; k += step) {
    if (width == Width && k + step <= depth) {
      for (int x = 0; x < whole; x += lanes) {
        pack_square<T, D, Width, lanes>(to, x, from + x * line, line);
      }
      if constexpr (whole < Width) {
        pack_square<T, D, Width, Width - whole>(to, whole, from + whole * line, line);
      }
    } else {
      for (int x = 0; x < Width; x += lanes) {
        pack_edge<T, D, Width>(to, x, from + x * line, line, width - x, least(step, depth - k));
      }
    }
    from += step * size_of(D);
    to += lanes * Width;
  }
}

// From a matrix contiguous across k: `depth` lines, of which `width` values are the panel's and
// `readable` exist.
template <class T, Dtype D, int Width>
CKDISP_CPU_NOINLINE void pack_across_k(std::uint32_t* to, const char* from, Index line, Index width,
                                       Index readable, Index depth) noexcept {
  constexpr int lanes = T::lanes;
  const bool whole = width == Width && round_up(Width, lanes) <= readable;
  for (Index k = 0; k < depth; k += T::kr) {
    const char* next = k + 1 < depth ? from + line : nullptr;
    if (whole) {
      unroll<(Width * size_of(D) + 63) / 64>(
          [&](auto i) CKDISP_CPU_LAMBDA { __builtin_prefetch(from + 8 * line + 64 * i); });
      unroll<(Width + lanes - 1) / lanes>([&](auto i) CKDISP_CPU_LAMBDA {
        const Index at = Index{i} * lanes * size_of(D);
        store_units<Width>(to, i * lanes,
                           units_across_k<T, D>(from + at, next ? next + at : next, lanes));
      });
    } else {
      for (int x = 0; x < Width; x += lanes) {
        const Index at = Index{x} * size_of(D);
        const Index count = most(0, least(lanes, width - x));
        store_units<Width>(to, x, units_across_k<T, D>(from + at, next ? next + at : next, count));
      }
    }
    from += T::kr * line;
    to += Width;
  }
}

// Panel of columns j .. j + nr of B, values k .. k + depth, with zeros up to `units`.
template <class T>
CKDISP_CPU_INLINE void pack_b(std::uint32_t* to, const GemmProblemData& p, const void* b, Index j,
                              Index k, Index depth, Index units) {
  for (Index i = ceil_div(depth, T::kr) * T::nr; i < units * T::nr; ++i) to[i] = 0;
  constexpr Dtype dtype = T::key.dtype_b;
  const Index width = least(T::nr, p.n - j);
  const Index line = p.ldb * T::size_b;
  if constexpr (T::b_along_k) {
    const char* from = at(b, j * line + k * T::size_b);
    pack_along_k<T, dtype, T::nr>(to, from, line, width, depth);
  } else {
    const char* from = at(b, k * line + j * T::size_b);
    pack_across_k<T, dtype, T::nr>(to, from, line, width, p.n - j, depth);
  }
}

// Rows of A as tiles of AMX: rows of `unit_step` units, of which those that do not exist are zero.
// From a matrix contiguous along k: `rows` lines of `depth` values, `line` bytes apart.
template <class T>
CKDISP_CPU_NOINLINE void pack_tiles_along_k(std::uint32_t* to, const char* from, Index line,
                                            Index rows, Index depth) noexcept {
  constexpr Index step = Index{T::unit_step} * T::kr;
  for (Index k = 0; k < depth; k += step) {
    for (Index i = 0; i < T::mr; ++i, to += T::unit_step) {
      using U = typename T::U;
      const char* const values = from + i * line + k * T::size_a;
      store(to, i < rows ? load_partial<U, 2>(values, depth - k) : U{});
    }
  }
}

// The same from a matrix contiguous across k: `depth` lines of `rows` values.
template <class T>
CKDISP_CPU_NOINLINE void pack_tiles_across_k(std::uint32_t* to, const char* from, Index line,
                                             Index rows, Index depth) noexcept {
  for (Index k = 0; k < depth; k += Index{T::unit_step} * T::kr) {
    for (Index i = 0; i < T::mr; i += T::lanes) {
      typename T::U v[T::lanes] = {};
      const Index count = most(0, least(T::lanes, rows - i));
      for (Index x = 0; x < T::unit_step && k + x * T::kr < depth; ++x) {
        const char* const values = from + (k + x * T::kr) * line + i * T::size_a;
        const bool pair = k + x * T::kr + 1 < depth;
        v[x] = units_across_k<T, T::key.dtype_a>(values, pair ? values + line : nullptr, count);
      }
      transpose(v);
      for (Index r = 0; r < T::lanes; ++r, to += T::unit_step) store(to, v[r]);
    }
  }
}

// Panel of rows i .. i + mr of A; may write one vector of slack behind the panel.
template <class T>
CKDISP_CPU_INLINE void pack_a(std::uint32_t* to, const GemmProblemData& p, const void* a, Index i,
                              Index k, Index depth) {
  constexpr Dtype dtype = T::key.dtype_a;
  const Index width = least(T::mr, p.m - i);
  const Index line = p.lda * T::size_a;
  if constexpr (T::a_along_k) {
    const char* from = at(a, i * line + k * T::size_a);
    if constexpr (T::amx) {
      pack_tiles_along_k<T>(to, from, line, width, depth);
    } else {
      pack_along_k<T, dtype, T::mr>(to, from, line, width, depth);
    }
  } else {
    const char* from = at(a, k * line + i * T::size_a);
    if constexpr (T::amx) {
      pack_tiles_across_k<T>(to, from, line, width, depth);
    } else {
      pack_across_k<T, dtype, T::mr>(to, from, line, width, p.m - i, depth);
    }
  }
}

}  // namespace
}  // namespace ckdisp::cpu
