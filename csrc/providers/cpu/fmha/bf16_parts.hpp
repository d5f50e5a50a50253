// Numbers as bf16 whose neighbours are multiplied in pairs.
#pragma once

#include "../convert.hpp"

namespace ckdisp::cpu {
namespace {

// 32 numbers as bf16, or as the sums of two: the nearest one and the rounded rest, of which nothing
// is left of an infinite number. A NaN may be in the rest alone.
template <class S, int Parts>
struct Bf16Parts {
  using F = typename S::F;
  using U = typename S::U;
  U part[Parts];

  static CKDISP_CPU_INLINE U round(F low, F high) {
    U both;
    __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(high), "v"(low));
    return both;
  }

  static CKDISP_CPU_INLINE Bf16Parts of(F low, F high) {
    Bf16Parts out;
    if constexpr (Parts == 1) {
      out.part[0] = round(low, high);
    } else {
      static_assert(Parts == 2);
      const F low_half = upper(low), high_half = upper(high);
      out.part[0] = round(low_half, high_half);
      out.part[1] = round(rest(low, low_half), rest(high, high_half));
    }
    return out;
  }

  // The first `count` numbers of type D at p, zeros behind them.
  template <Dtype D>
  static CKDISP_CPU_INLINE Bf16Parts load(const char* p, Index count) {
    if constexpr (D == Dtype::bf16) {
      static_assert(Parts == 1);
      return {{load_partial<U, 2>(p, most(0, count))}};
    } else {
      return of(load_as_float<D, S>(p, most(0, count)),
                load_as_float<D, S>(p + S::lanes * size_of(D), most(0, count - S::lanes)));
    }
  }

 private:
  static CKDISP_CPU_INLINE F rest(F x, F part) { return x == part ? F{} : x - part; }
  static CKDISP_CPU_INLINE F upper(F x) { return bits<F>((bits<U>(x) + 0x8000u) & 0xffff0000u); }
};

}  // namespace
}  // namespace ckdisp::cpu
