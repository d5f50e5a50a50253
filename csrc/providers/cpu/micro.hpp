// The micro-kernels: a register tile of C from one packed panel of A and one of B.
#pragma once

#include "traits.hpp"

namespace ckdisp::cpu {
namespace {

// Sizes of register tiles: heights and widths are those of the key halved, rounding up, so that an
// edge wastes at most half of its work.
template <class T>
struct TileSizes {
  // Tiles::tile<Rows, Vectors> for the smallest tile that covers rows x vectors.
  template <class Tiles>
  static CKDISP_CPU_INLINE auto choose(Index rows, Index vectors) {
    return by_rows<Tiles, T::mr>(rows, vectors);
  }

  // Rows that the chosen tile computes for `rows` existing ones.
  static constexpr Index computed_rows(Index rows) {
    Index covered = T::mr;
    while (covered > 1 && rows <= (covered + 1) / 2) covered = (covered + 1) / 2;
    return covered;
  }

 private:
  template <class Tiles, int Rows>
  static CKDISP_CPU_INLINE auto by_rows(Index rows, Index vectors) {
    if constexpr (Rows > 1) {
      if (rows <= (Rows + 1) / 2) return by_rows<Tiles, (Rows + 1) / 2>(rows, vectors);
    }
    return by_vectors<Tiles, Rows, T::nv>(vectors);
  }

  template <class Tiles, int Rows, int Vectors>
  static CKDISP_CPU_INLINE auto by_vectors(Index vectors) {
    if constexpr (Vectors > 1) {
      if (vectors <= (Vectors + 1) / 2) {
        return by_vectors<Tiles, Rows, (Vectors + 1) / 2>(vectors);
      }
    }
    return &Tiles::template tile<Rows, Vectors>;
  }
};

// The same of tiles of AMX: `Height` x `Width` of them.
template <class T>
struct AmxMicro {
  // Bytes of a panel of B to fetch ahead of their use: two steps.
  static constexpr int ahead = 2 * T::nr * T::unit_step * 4;

  template <int Height, int Width>
  static CKDISP_CPU_NOINLINE void tile(const std::uint32_t* a, const std::uint32_t* b, Index units,
                                       float* out, Index ldo, bool accumulate) noexcept {
    using Sums = TileSums<Height, Width>;
    Sums::begin(out, ldo, accumulate);
    for (Index k = 0; k < units; k += T::unit_step) {
      unroll<ahead / 128>([&](auto line) CKDISP_CPU_LAMBDA {
        __builtin_prefetch(reinterpret_cast<const char*>(b) + ahead + 64 * line);
      });
      Sums::load_b(b, T::lanes * 4, T::nr * 4);
      Sums::add_products(a, Tiles::bytes, T::unit_step * 4);
      a += T::mr * T::unit_step;
      b += T::nr * T::unit_step;
    }
    Sums::put(out, ldo);
  }

  static CKDISP_CPU_INLINE auto choose(Index rows, Index vectors) {
    if (rows <= Tiles::rows) return vectors == 1 ? &tile<1, 1> : &tile<1, 2>;
    return vectors == 1 ? &tile<2, 1> : &tile<2, 2>;
  }
};

template <class Kernel>
struct Micro {
  using T = Traits<Kernel>;
  using AccV = typename T::AccV;
  using U = typename T::U;
  using Sizes = TileSizes<T>;

  // Bytes of a panel of B to fetch ahead of their use: B comes from the second-level cache.
  static constexpr int ahead = 2048;

  template <int Rows, int Bytes>
  static CKDISP_CPU_INLINE void prefetch_rows(const typename T::Acc* out, Index ldo) {
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<(Bytes + 63) / 64>(
          [&](auto line) CKDISP_CPU_LAMBDA { __builtin_prefetch(out + r * ldo + 16 * line, 1); });
    });
  }

  // Writes Rows x (Vectors * lanes) accumulators at `out`, rows `ldo` apart; adds to what is there
  // if `accumulate`.
  template <int Rows, int Vectors>
  static CKDISP_CPU_NOINLINE void tile(const std::uint32_t* a, const std::uint32_t* b, Index units,
                                       typename T::Acc* out, Index ldo, bool accumulate) noexcept {
    constexpr int lanes = T::lanes;
    AccV acc[Rows][Vectors];
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<Vectors>([&](auto v) CKDISP_CPU_LAMBDA { acc[r][v] = AccV{}; });
    });
    prefetch_rows<Rows, Vectors * lanes * 4>(out, ldo);
    for (Index k = 0; k < units; ++k) {
      unroll<(Vectors * lanes * 4 + 63) / 64>([&](auto line) CKDISP_CPU_LAMBDA {
        __builtin_prefetch(reinterpret_cast<const char*>(b) + ahead + 64 * line);
      });
      U bk[Vectors];
      unroll<Vectors>([&](auto v) CKDISP_CPU_LAMBDA { bk[v] = load<U>(b + v * lanes); });
      unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
        const U ar = splat<U>(a[r]);
        unroll<Vectors>(
            [&](auto v) CKDISP_CPU_LAMBDA { acc[r][v] = multiply_add<T>(acc[r][v], ar, bk[v]); });
      });
      a += T::mr;
      b += T::nr;
    }
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<Vectors>([&](auto v) CKDISP_CPU_LAMBDA {
        typename T::Acc* to = out + r * ldo + v * lanes;
        store(to, accumulate ? add(acc[r][v], load<AccV>(to)) : acc[r][v]);
      });
    });
  }

  static CKDISP_CPU_INLINE auto choose(Index rows, Index vectors) {
    if constexpr (T::amx) {
      return AmxMicro<T>::choose(rows, vectors);
    } else {
      return Sizes::template choose<Micro>(rows, vectors);
    }
  }
  static constexpr Index computed_rows(Index rows) {
    return T::amx ? round_up(rows, Tiles::rows) : Sizes::computed_rows(rows);
  }

  // One add of two accumulator vectors; integers wrap around.
  static CKDISP_CPU_INLINE AccV add(AccV x, AccV y) {
    if constexpr (T::integer) {
      return bits<AccV>(bits<U>(x) + bits<U>(y));
    } else {
      return x + y;
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
