// AMX: tiles of 16 rows x 64 bytes, whose products have 16 x 16 sums of float and 32 pairs of bf16
// for each. Inline assembly, as for vectors.
#pragma once

#include "base.hpp"

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

}  // namespace
}  // namespace ckdisp::cpu
