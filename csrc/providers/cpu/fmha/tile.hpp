// The micro-kernel of attention: rows of C from rows of A and panels of B.
#pragma once

#include "core.hpp"

namespace ckdisp::cpu {
namespace {

// How the rows of A lie.
enum class ARows {
  along_k,   // row r is a[r * lda ..]
  across_k,  // row r is a[r], a[r + lda], ..
};

template <class T>
struct FmhaTile {
  using F = typename T::F;
  static constexpr int lanes = T::lanes, mr = T::mr, nv = T::nv, nr = T::nr;
  static constexpr int ahead = 32;  // rows of B to fetch ahead of their use

  // Operands of one strip of C: rows of A times `panels` panels of B. A panel has rows of nr
  // numbers, ldb apart, and begins `apart` behind the last one.
  struct Strip {
    const float* a;
    Index lda;
    const float* b;
    Index ldb, apart;
    Index depth, panels;
    float* c;
    Index ldc;
  };

  template <int Rows>
  static CKDISP_CPU_INLINE void clear(F (&acc)[Rows][nv]) {
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<nv>([&](auto v) CKDISP_CPU_LAMBDA { acc[r][v] = F{}; });
    });
  }

  // Adds the products of the next `steps` columns of A and rows of B.
  template <ARows Order, int Rows>
  static CKDISP_CPU_INLINE void add_products(F (&acc)[Rows][nv], const float*& a, Index lda,
                                             const float*& b, Index ldb, Index steps) {
    for (Index k = 0; k < steps; ++k) {
      unroll<(nr * 4 + 63) / 64>(
          [&](auto line) CKDISP_CPU_LAMBDA { __builtin_prefetch(b + ahead * ldb + 16 * line); });
      F bk[nv];
      unroll<nv>([&](auto v) CKDISP_CPU_LAMBDA { bk[v] = load<F>(b + v * lanes); });
      unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
        const F ar = splat<F>(Order == ARows::along_k ? a[r * lda] : a[r]);
        unroll<nv>([&](auto v) CKDISP_CPU_LAMBDA { acc[r][v] += ar * bk[v]; });
      });
      a += Order == ARows::along_k ? 1 : lda;
      b += ldb;
    }
  }

  template <int Rows>
  static CKDISP_CPU_INLINE void put(float* c, Index ldc, const F (&acc)[Rows][nv]) {
    unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
      unroll<nv>([&](auto v) CKDISP_CPU_LAMBDA { store(c + r * ldc + v * lanes, acc[r][v]); });
    });
  }

  // C = A B; C's old rows times `keep` are added, if it is not null.
  template <int Rows, ARows Order>
  static CKDISP_CPU_NOINLINE void strip(const Strip& s, const float* keep) noexcept {
    const Index lda = s.lda, ldb = s.ldb, ldc = s.ldc, depth = s.depth;
    for (Index panel = 0; panel < s.panels; ++panel) {
      const float* a = s.a;
      const float* b = s.b + panel * s.apart;
      float* const c = s.c + panel * nr;
      if (keep != nullptr) {
        unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA { __builtin_prefetch(c + r * ldc, 1); });
      }
      F acc[Rows][nv];
      clear(acc);
      add_products<Order>(acc, a, lda, b, ldb, depth);
      if (keep != nullptr) {
        unroll<Rows>([&](auto r) CKDISP_CPU_LAMBDA {
          const F factor = splat<F>(keep[r]);
          unroll<nv>([&](auto v) CKDISP_CPU_LAMBDA {
            acc[r][v] += factor * load<F>(c + r * ldc + v * lanes);
          });
        });
      }
      put(c, ldc, acc);
    }
  }

  using Function = void (*)(const Strip&, const float*) noexcept;

  // f(height) for the smallest height that covers `rows`: heights are mr halved, rounding up.
  template <class Choose, int Rows = mr>
  static CKDISP_CPU_INLINE auto by_height(Index rows, const Choose& f) {
    if constexpr (Rows > 1) {
      if (rows <= (Rows + 1) / 2) return by_height<Choose, (Rows + 1) / 2>(rows, f);
    }
    return f(std::integral_constant<int, Rows>{});
  }

  template <ARows Order>
  static CKDISP_CPU_INLINE Function choose(Index rows) {
    return by_height(rows, [](auto height) { return &strip<height, Order>; });
  }

  // The tallest height that does not exceed `rows`.
  template <int Rows = mr>
  static CKDISP_CPU_INLINE Index height(Index rows) {
    if constexpr (Rows > 1) {
      if (rows < Rows) return height<(Rows + 1) / 2>(rows);
    }
    return Rows;
  }
};

}  // namespace
}  // namespace ckdisp::cpu
