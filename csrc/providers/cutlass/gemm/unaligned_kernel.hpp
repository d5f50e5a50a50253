// A kernel for any sizes, strides and alignments: what TMA cannot load. Elements are read one by
// one, so it is slow; it is there so that every problem has a kernel.
#pragma once

#include "../types.hpp"

#if defined(__CUDACC__)
#include <mma.h>
#endif

namespace ckdisp::sm90 {

// A and B as distances between rows and columns.
struct UnalignedParams {
  const void *a, *b;
  void* c;
  long long row_a, column_a, row_b, column_b, ldc;
  int m, n, k;
  float scale;
};

template <class Key>
struct UnalignedKernel {
  static constexpr GemmKey key = Key::key;
  using A = Element<key.dtype_a>;
  using B = Element<key.dtype_b>;
  using C = Element<key.dtype_c>;
  using Params = UnalignedParams;
  static constexpr int tile_m = 64, tile_n = 64, tile_k = 32;
  static_assert(key.tile[0] == tile_m && key.tile[1] == tile_n && key.tile[2] == tile_k);
  static constexpr int threads = 128;
  static constexpr int shared_bytes = 0;
  static constexpr int blocks_per_cluster = 1;

#if defined(__CUDACC__)
  // 8-bit floats are multiplied as fp16, which holds them and their products with fp32 sums
  // exactly.
  static constexpr bool is_bf16 = key.dtype_a == Dtype::bf16;
  using Factor = std::conditional_t<is_bf16, __nv_bfloat16, __half>;
  static constexpr int pad = 8;  // elements behind each row: other banks for the next one

  template <class T>
  __device__ static Factor factor(T value) {
    if constexpr (is_bf16) {
      return __float2bfloat16(static_cast<float>(value));
    } else {
      return __float2half(static_cast<float>(value));
    }
  }

  // Neighbouring threads read neighbouring elements, along whichever way these lie.
  template <class T, int rows, int columns>
  __device__ static void load(Factor (&to)[rows][columns + pad], const T* from, long long row,
                              long long column, int first_row, int first_column, int end_row,
                              int end_column) {
    for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += threads) {
      const bool along = column == 1;
      const int r = along ? i / columns : i % rows, c = along ? i % columns : i / rows;
      const int y = first_row + r, x = first_column + c;
      to[r][c] = y < end_row && x < end_column ? factor(from[y * row + x * column]) : factor(0.0f);
    }
  }

  __device__ static void run(const Params& p, char*) {
    namespace wmma = nvcuda::wmma;
    __shared__ __align__(32) Factor a[tile_m][tile_k + pad];
    __shared__ __align__(32) Factor b[tile_k][tile_n + pad];
    __shared__ __align__(32) float sums[tile_m][tile_n + pad];
    const int tiles_n = (p.n + tile_n - 1) / tile_n;
    const int block = static_cast<int>(blockIdx.x);
    const int m0 = block / tiles_n * tile_m, n0 = block % tiles_n * tile_n;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    constexpr int steps = tile_n / 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> part[steps];
    for (auto& sum : part) wmma::fill_fragment(sum, 0.0f);
    for (int k0 = 0; k0 < p.k; k0 += tile_k) {
      load<A, tile_m, tile_k>(a, static_cast<const A*>(p.a), p.row_a, p.column_a, m0, k0, p.m, p.k);
      load<B, tile_k, tile_n>(b, static_cast<const B*>(p.b), p.row_b, p.column_b, k0, n0, p.k, p.n);
      __syncthreads();
      for (int k = 0; k < tile_k; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, Factor, wmma::row_major> left;
        wmma::load_matrix_sync(left, &a[warp * 16][k], tile_k + pad);
        for (int i = 0; i < steps; ++i) {
          wmma::fragment<wmma::matrix_b, 16, 16, 16, Factor, wmma::row_major> right;
          wmma::load_matrix_sync(right, &b[k][i * 16], tile_n + pad);
          wmma::mma_sync(part[i], left, right, part[i]);
        }
      }
      __syncthreads();
    }
    for (int i = 0; i < steps; ++i) {
      wmma::store_matrix_sync(&sums[warp * 16][i * 16], part[i], tile_n + pad, wmma::mem_row_major);
    }
    __syncthreads();
    ::cutlass::NumericConverter<C, float> convert;
    for (int i = static_cast<int>(threadIdx.x); i < tile_m * tile_n; i += threads) {
      const int r = i / tile_n, c = i % tile_n;
      if (m0 + r < p.m && n0 + c < p.n) {
        static_cast<C*>(p.c)[(m0 + r) * p.ldc + n0 + c] = convert(p.scale * sums[r][c]);
      }
    }
  }
#endif
};

}  // namespace ckdisp::sm90
