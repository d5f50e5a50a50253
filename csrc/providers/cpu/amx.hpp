// AMX: tiles of 16 rows x 64 bytes, whose products have 16 x 16 sums of float and 32 pairs of bf16
// for each. Inline assembly, as for vectors.
#pragma once

#include "convert.hpp"

namespace ckdisp::cpu {
namespace {

// The eight tiles of a thread, at full size for as long as this lives.
class Tiles {
 public:
  static constexpr int rows = 16;
  static constexpr int bytes = 1024;  // of a tile

  Tiles() {
    struct alignas(64) Config {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t heights[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    const Config config;
    static_assert(sizeof config == 64);
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
  }
  ~Tiles() { __asm__ volatile("tilerelease"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  template <int N>
  static CKDISP_CPU_INLINE void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(N));
  }

  // Rows lie `apart` bytes from each other.
  template <int N>
  static CKDISP_CPU_INLINE void load(const void* p, Index apart) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(apart), "i"(N) : "memory");
  }
  template <int N>
  static CKDISP_CPU_INLINE void store(void* p, Index apart) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(apart), "i"(N) : "memory");
  }

  // Tile C += A B. A row of A has 32 numbers; a row of B two of each of 16 columns.
  template <int C, int A, int B>
  static CKDISP_CPU_INLINE void add_product() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

// 32 numbers as bf16, or as the sums of two: the upper half of each and the rounded rest.
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
      out.part[1] = round(low - low_half, high - high_half);
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
  static CKDISP_CPU_INLINE F upper(F x) { return bits<F>(bits<U>(x) & 0xffff0000u); }
};

}  // namespace
}  // namespace ckdisp::cpu
