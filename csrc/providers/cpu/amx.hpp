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

// What stands for them where there are none.
struct NoTiles {};

// `Height` x `Width` tiles of C, up to two each way, in tiles 0 to 3; 4 and 5 are for A, 6 and 7
// for B.
template <int Height, int Width>
struct TileSums {
  static constexpr int rows = Tiles::rows, columns = 16;

  // Zero, or what is in c, whose rows lie `ldc` floats from each other.
  static CKDISP_CPU_INLINE void begin(const float* c, Index ldc, bool add) {
    each([&](auto h, auto v) CKDISP_CPU_LAMBDA {
      if (add) {
        Tiles::load<2 * h + v>(c + h * rows * ldc + v * columns, ldc * 4);
      } else {
        Tiles::zero<2 * h + v>();
      }
    });
  }

  // Distances in bytes: from a tile to the next, and of its rows.
  static CKDISP_CPU_INLINE void load_b(const void* b, Index next, Index apart) {
    unroll<Width>([&](auto v) CKDISP_CPU_LAMBDA {
      Tiles::load<6 + v>(static_cast<const char*>(b) + v * next, apart);
    });
  }
  static CKDISP_CPU_INLINE void add_products(const void* a, Index next, Index apart) {
    unroll<Height>([&](auto h) CKDISP_CPU_LAMBDA {
      Tiles::load<4 + h>(static_cast<const char*>(a) + h * next, apart);
      unroll<Width>([&](auto v)
                        CKDISP_CPU_LAMBDA { Tiles::add_product<2 * h + v, 4 + h, 6 + v>(); });
    });
  }

  static CKDISP_CPU_INLINE void put(float* c, Index ldc) {
    each([&](auto h, auto v) CKDISP_CPU_LAMBDA {
      Tiles::store<2 * h + v>(c + h * rows * ldc + v * columns, ldc * 4);
    });
  }

 private:
  template <class F>
  static CKDISP_CPU_INLINE void each(const F& f) {
    unroll<Height>([&](auto h) CKDISP_CPU_LAMBDA {
      unroll<Width>([&](auto v) CKDISP_CPU_LAMBDA { f(h, v); });
    });
  }
};

}  // namespace
}  // namespace ckdisp::cpu
