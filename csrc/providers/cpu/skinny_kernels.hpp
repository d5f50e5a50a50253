// The inner loops of pipeline `skinny`.
#pragma once

#include "traits.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct SkinnyKernels {
  using T = Traits<Kernel>;
  using Acc = typename T::Acc;
  using AccV = typename T::AccV;
  using U = typename T::U;
  static constexpr Dtype dtype_b = T::key.dtype_b;
  static constexpr int lanes = T::lanes;
  static constexpr int nv = T::nv;
  static constexpr int mr = T::mr;
  static constexpr int size_b = T::size_b;

  // Rows of the smallest kernel for `rows` rows, at most mr.
  static constexpr Index cover(Index rows) {
    Index covered = mr;
    while (covered > 1 && rows <= (covered + 1) / 2) covered = (covered + 1) / 2;
    return covered;
  }

  // Partial dot products of Rows rows of A with nv columns of `values` values each: a vector per
  // row and column at acc[(row * nv + column) * lanes].
  using Dot = void (*)(const std::uint32_t* a, Index line_a, const char* const* columns,
                       Index values, Acc* acc, bool accumulate) noexcept;

  template <int Rows, bool Converted>
  static CKDISP_CPU_NOINLINE void dot(const std::uint32_t* a, Index line_a,
                                      const char* const* columns, Index values, Acc* out,
                                      bool accumulate) noexcept {
    constexpr Index step = Index{lanes} * T::kr;
    constexpr Index bytes = Converted ? Index{T::bytes} : step * size_b;
    AccV acc[Rows][nv];
    const char* b[nv];
    unroll<nv>([&](auto j) CKDISP_CPU_LAMBDA { b[j] = columns[j]; });
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<nv>([&](auto j) CKDISP_CPU_LAMBDA {
        const Acc* from = out + (r * nv + j) * lanes;
        acc[r][j] = accumulate ? load<AccV>(from) : AccV{};
      });
    });
    const auto update = [&](const U(&bk)[nv]) CKDISP_CPU_LAMBDA {
      unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
        const U ar = load<U>(a + r * line_a);
        unroll<nv>([&](auto j)
                       CKDISP_CPU_LAMBDA { acc[r][j] = multiply_add<T>(acc[r][j], ar, bk[j]); });
      });
    };
    Index k = 0;
    for (; k + step <= values; k += step) {
      U bk[nv];
      unroll<nv>([&](auto j) CKDISP_CPU_LAMBDA {
        bk[j] = Converted ? load<U>(b[j]) : units_along_k<T, dtype_b>(b[j], step);
        if (!Converted) __builtin_prefetch(b[j] + 1024);
        b[j] += bytes;
      });
      update(bk);
      a += lanes;
    }
    if (k < values) {
      U bk[nv];
      unroll<nv>([&](auto j) CKDISP_CPU_LAMBDA {
        bk[j] = Converted ? load<U>(b[j]) : units_along_k<T, dtype_b>(b[j], values - k);
      });
      update(bk);
    }
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<nv>([&](auto j) CKDISP_CPU_LAMBDA { store(out + (r * nv + j) * lanes, acc[r][j]); });
    });
  }

  static CKDISP_CPU_INLINE Dot choose_dot(Index rows) { return pick_dot<mr>(rows); }

  static CKDISP_CPU_INLINE void dot_converted(const std::uint32_t* a, Index line_a,
                                              const char* const* columns, Index values, Acc* acc,
                                              bool accumulate) {
    dot<mr, true>(a, line_a, columns, values, acc, accumulate);
  }

  // `values` values of a column to units, with zeros up to a whole vector.
  static CKDISP_CPU_INLINE void convert(std::uint32_t* to, const char* from, Index values) {
    constexpr Index step = Index{lanes} * T::kr;
    for (Index k = 0; k < values; k += step) {
      store(to, units_along_k<T, dtype_b>(from, least(step, values - k)));
      __builtin_prefetch(from + 1024);
      from += step * size_b;
      to += lanes;
    }
  }

  // Adds `values` rows of B, `line` bytes apart, times Rows rows of A to accumulators.
  using Axpy = void (*)(const std::uint32_t* a, Index line_a, const char* b, Index line,
                        Index values, Acc* acc, Index ld_acc, bool accumulate) noexcept;

  template <int Rows, bool Converted>
  static CKDISP_CPU_NOINLINE void axpy(const std::uint32_t* a, Index line_a, const char* b,
                                       Index line, Index values, Acc* out, Index ld_out,
                                       bool accumulate) noexcept {
    AccV acc[Rows][nv];
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<nv>([&](auto j) CKDISP_CPU_LAMBDA {
        acc[r][j] = accumulate ? load<AccV>(out + r * ld_out + j * lanes) : AccV{};
      });
    });
    for (Index k = 0; k < values; k += T::kr) {
      U bk[nv];
      const char* next = k + 1 < values ? b + line : nullptr;
      unroll<nv>([&](auto j) CKDISP_CPU_LAMBDA {
        if constexpr (Converted) {
          bk[j] = load<U>(b + j * T::bytes);
        } else {
          constexpr Index at = Index{j} * lanes * size_b;
          bk[j] = units_across_k<T, dtype_b>(b + at, next ? next + at : next, lanes);
        }
      });
      if constexpr (!Converted) {
        // The rows are far apart; the next columns of each are needed next.
        constexpr Index width = Index{T::nr} * size_b;
        for (Index ahead = width; ahead < 2 * width; ahead += 64) {
          __builtin_prefetch(b + ahead);
          if (T::kr > 1) __builtin_prefetch(b + line + ahead);
        }
      }
      unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
        const U ar = splat<U>(a[r * line_a]);
        unroll<nv>([&](auto j)
                       CKDISP_CPU_LAMBDA { acc[r][j] = multiply_add<T>(acc[r][j], ar, bk[j]); });
      });
      ++a;
      b += Converted ? line : T::kr * line;
    }
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<nv>([&](auto j) CKDISP_CPU_LAMBDA { store(out + r * ld_out + j * lanes, acc[r][j]); });
    });
  }

  static CKDISP_CPU_INLINE Axpy choose_axpy(Index rows) { return pick_axpy<mr, false>(rows); }
  static CKDISP_CPU_INLINE Axpy choose_converted(Index rows) { return pick_axpy<mr, true>(rows); }

  static CKDISP_CPU_INLINE Acc add(Acc x, Acc y) {
    if constexpr (T::integer) {
      return static_cast<Acc>(static_cast<std::uint32_t>(x) + static_cast<std::uint32_t>(y));
    } else {
      return x + y;
    }
  }

  // The sum of all lanes, halves first.
  static CKDISP_CPU_INLINE Acc sum(AccV v) { return sum_halves<lanes / 2>(v)[0]; }

 private:
  template <int Distance>
  static CKDISP_CPU_INLINE AccV sum_halves(AccV v) {
    if constexpr (Distance == 0) {
      return v;
    } else {
      const auto rotated = rotate<Distance>(v, std::make_integer_sequence<int, lanes>{});
      if constexpr (T::integer) {
        return sum_halves<Distance / 2>(bits<AccV>(bits<U>(v) + bits<U>(rotated)));
      } else {
        return sum_halves<Distance / 2>(v + rotated);
      }
    }
  }

  template <int Distance, int... I>
  static CKDISP_CPU_INLINE AccV rotate(AccV v, std::integer_sequence<int, I...>) {
    return shuffle(v, v, std::integer_sequence<int, (I + Distance) % lanes...>{});
  }

  template <int Rows>
  static CKDISP_CPU_INLINE Dot pick_dot(Index rows) {
    if constexpr (Rows > 1) {
      if (rows <= (Rows + 1) / 2) return pick_dot<(Rows + 1) / 2>(rows);
    }
    return &dot<Rows, false>;
  }

  template <int Rows, bool Converted>
  static CKDISP_CPU_INLINE Axpy pick_axpy(Index rows) {
    if constexpr (Rows > 1) {
      if (rows <= (Rows + 1) / 2) return pick_axpy<(Rows + 1) / 2, Converted>(rows);
    }
    return &axpy<Rows, Converted>;
  }
};

}  // namespace
}  // namespace ckdisp::cpu
