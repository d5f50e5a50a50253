// Scores of a panel of rows, and their powers in the same pass: relative to numbers that are known
// before, the bases, and not to the largest score of the block.
#pragma once

#include "tile.hpp"

namespace ckdisp::cpu {
namespace {

template <class T>
class FmhaPowers {
 public:
  using S = typename T::S;
  using F = typename T::F;
  using Tile = FmhaTile<T>;
  static constexpr int lanes = T::lanes, mr = T::mr, nv = T::nv, nr = T::nr;

  // Bases as whole numbers next to some that are known, the rest 0. False if these are too large.
  bool set_bases(const float* near, Index count) {
    known = true;
    for (Index r = 0; r < mr; ++r) {
      const float base = r < count ? whole(near[r]) : 0;
      if (!(base > -largest_whole && base < largest_whole)) return false;
      rows[r].low = splat<F>(base - 127);
      rows[r].rounding = splat<F>(rounding_to_whole - base);
    }
    return true;
  }

  // Whether no score was too large.
  bool good() const { return largest_lane(top) <= rounding_to_whole + slack; }

  // Of a row.
  float base(Index r) const { return rounding_to_whole - rows[r].rounding[0]; }
  float sum(Index r) const { return sum_of_lanes(rows[r].sum); }

  // C is the powers of the scores A B. Bases that are not known come from the first panel.
  template <int Rows>
  static CKDISP_CPU_NOINLINE void strip(const typename Tile::Strip& s,
                                        FmhaPowers& powers) noexcept {
    const Index lda = s.lda, ldb = s.ldb, ldc = s.ldc, depth = s.depth;
    for (Index panel = 0; panel < s.panels; ++panel) {
      const float* a = s.a;
      const float* b = s.b + panel * s.apart;
      float* const c = s.c + panel * nr;
      F acc[Rows][nv];
      Tile::clear(acc);
      Tile::template add_products<ARows::along_k>(acc, a, lda, b, ldb, depth);
      if (!powers.known) {
        Tile::put(c, ldc, acc);
        if (!powers.find_bases(c, ldc, Rows)) return;
      }
      powers.put(c, ldc, acc);
    }
  }

 private:
  // By how much a score may exceed its base, and how much larger a base is than the scores that it
  // is taken from. Sums have as many bits less for their range.
  static constexpr float slack = 8;

  struct Row {
    F low, rounding;  // base - 127, rounding_to_whole - base
    F sum = {};
  };
  Row rows[mr];
  F top = {};  // the largest of the scores less their bases, plus rounding_to_whole
  bool known = false;

  CKDISP_CPU_NOINLINE bool find_bases(const float* scores, Index apart, Index count) noexcept {
    float near[mr];
    for (Index r = 0; r < count; ++r) {
      const float* const line = scores + r * apart;
      F largest = load<F>(line);
      for (Index x = lanes; x < nr; x += lanes) largest = larger<S>(largest, load<F>(line + x));
      near[r] = largest_lane(largest) + slack;
    }
    if (set_bases(near, count)) return true;
    top = splat<F>(-minus_infinity);
    return false;
  }

  // Powers of scores go to c.
  template <int Rows>
  CKDISP_CPU_INLINE void put(float* c, Index ldc, const F (&scores)[Rows][nv]) {
    F highest = top;
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      F sum;
      unroll<nv>([&](auto v) CKDISP_CPU_LAMBDA {
        const F power = take(rows[r], scores[r][v], highest);
        store(c + r * ldc + v * lanes, power);
        sum = v == 0 ? power : sum + power;
      });
      rows[r].sum += sum;
    });
    top = highest;
  }

  // 2^(x - base), the exponents of x and base being subtracted as integers.
  static CKDISP_CPU_INLINE F take(const Row& row, F x, F& highest) {
    x = larger<S>(row.low, x);
    const F shifted = x + row.rounding;
    highest = larger<S>(shifted, highest);
    return scaled_power<S, T::rough>(x - (shifted - row.rounding), shifted);
  }
};

}  // namespace
}  // namespace ckdisp::cpu
