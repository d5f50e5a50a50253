// Few rows of Q: K and V are read once, where they lie. Packing them would take longer than all
// that is computed from them.
#pragma once

#include "core.hpp"

namespace ckdisp::cpu {
namespace {

template <class T>
struct FmhaThin {
  using S = typename T::S;
  using F = typename T::F;
  static constexpr int lanes = T::lanes, nv = T::nv, mr = T::mr, size = T::size_in;
  static constexpr int group = 32;  // keys whose rows of V stay in the first-level cache

  // scores[r][j] = row r of Q times line j, for j in start .. end, whole vectors. Rows of Q are
  // `padded` apart, with zeros behind their `depth` numbers. The next vector's lines exist, too.
  static CKDISP_CPU_NOINLINE void products(const float* q, Index padded, Index rows,
                                           const char* const* lines, Index depth, Index start,
                                           Index end, float* scores, Index apart) noexcept {
    const bool whole = depth % lanes == 0;
    for (Index j = start; j < end; j += lanes) {
      for (Index r = 0; r < rows; ++r) {
        const float* const row = q + r * padded;
        const F sums = whole ? vector_of_products<true>(row, lines + j, depth)
                             : vector_of_products<false>(row, lines + j, depth);
        store(scores + r * apart + j, sums);
      }
    }
  }

  // o[r] = keep[r] * o[r] + sum of weights[r][j] times line j, for j in start .. end.
  static CKDISP_CPU_INLINE void sums(const float* weights, Index apart, Index rows,
                                     const char* const* lines, Index width, Index start, Index end,
                                     float* o, Index padded, const float* keep) {
    for (Index r = 0; r < rows; ++r) {
      for (Index x = 0; x < padded; x += lanes) {
        store(o + r * padded + x, keep[r] * load<F>(o + r * padded + x));
      }
    }
    for (Index j = start; j < end; j += group) {
      choose(rows)(weights + j, apart, lines + j, least(group, end - j), width, o, padded);
    }
  }

 private:
  template <bool Whole>
  static CKDISP_CPU_INLINE F vector_of_products(const float* q, const char* const* lines,
                                                Index depth) {
    F acc[lanes] = {};
    for (Index x = 0; x < depth; x += lanes) {
      const F row = load<F>(q + x);
      const Index there = Whole ? lanes : least(lanes, depth - x);
      unroll<lanes>([&](auto i) CKDISP_CPU_LAMBDA {
        __builtin_prefetch(lines[lanes + i] + x * size);
        acc[i] += row * load_as_float<T::in, S>(lines[i] + x * size, there);
      });
    }
    transpose(acc);
    for (int step = lanes / 2; step > 0; step /= 2) {
      for (int i = 0; i < step; ++i) acc[i] += acc[i + step];
    }
    return acc[0];
  }

  using Function = void (*)(const float*, Index, const char* const*, Index, Index, float*,
                            Index) noexcept;

  template <int Rows = mr>
  static CKDISP_CPU_INLINE Function choose(Index rows) {
    if constexpr (Rows > 1) {
      if (rows <= (Rows + 1) / 2) return choose<(Rows + 1) / 2>(rows);
    }
    return &some_sums<Rows>;
  }

  template <int Rows>
  static CKDISP_CPU_NOINLINE void some_sums(const float* weights, Index apart,
                                            const char* const* lines, Index count, Index width,
                                            float* o, Index padded) noexcept {
    // As many accumulators as the smallest register tile has, or those of one row.
    constexpr int many = Rows == 1 ? 8 : Rows == 2 ? 4 : nv;
    Index x = 0;
    for (; x + many * lanes <= width; x += many * lanes) {
      columns<Rows, many, true>(weights, apart, lines, count, x, width, o, padded);
    }
    for (; x < width; x += nv * lanes) {
      columns<Rows, nv, false>(weights, apart, lines, count, x, width, o, padded);
    }
  }

  template <int Rows, int Vectors, bool Whole>
  static CKDISP_CPU_INLINE void columns(const float* weights, Index apart, const char* const* lines,
                                        Index count, Index x, Index width, float* o, Index padded) {
    F acc[Rows][Vectors];
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<Vectors>(
          [&](auto v) CKDISP_CPU_LAMBDA { acc[r][v] = load<F>(o + r * padded + x + v * lanes); });
    });
    for (Index j = 0; j < count; ++j) {
      const char* const line = lines[j] + x * size;
      unroll<(Vectors * lanes * size + 63) / 64>([&](auto i) CKDISP_CPU_LAMBDA {
        __builtin_prefetch(lines[group / 2 + j] + x * size + 64 * i);
      });
      F values[Vectors];
      unroll<Vectors>([&](auto v) CKDISP_CPU_LAMBDA {
        const Index there = Whole ? lanes : most(0, least(lanes, width - x - v * lanes));
        values[v] = load_as_float<T::in, S>(line + v * lanes * size, there);
      });
      unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
        const F weight = splat<F>(weights[r * apart + j]);
        unroll<Vectors>([&](auto v) CKDISP_CPU_LAMBDA { acc[r][v] += weight * values[v]; });
      });
    }
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<Vectors>([&](auto v)
                          CKDISP_CPU_LAMBDA { store(o + r * padded + x + v * lanes, acc[r][v]); });
    });
  }
};

}  // namespace
}  // namespace ckdisp::cpu
