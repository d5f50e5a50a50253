// The order in which gemm.preshuffle kernels read B: shuffled once, beforehand, on the host.
//
// B is K x N, column-major: element (k, n) is at n * ldb + k. The shuffled B is dense, and has the
// elements in the order in which lanes load them, outermost index first:
//
//   [n_tile][n_repeat][n_wave][k_warp][k_group][n_lane][k_outer][k_inner]
//
// with k = ((k_warp * outer + k_outer) * groups + k_group) * inner + k_inner
// and  n = n_tile * tile_n + (n_repeat * waves + n_wave) * warp_n + n_lane,
// or, where `neighbours`, n = n_tile * tile_n + (n_wave * warp_n + n_lane) * repeats + n_repeat:
// then a lane holds neighbouring columns of C and can store them together.
//
// A lane loads [k_outer][k_inner] at once, and the lanes of a wave are [k_group][n_lane]. C++17.
#pragma once

#include <cstdint>
#include <cstring>

#include <ckdisp/abi.hpp>
#include <ckdisp/generated/arches.hpp>

namespace ckdisp {

struct ShuffledB {
  std::int64_t tile_n, waves, warp_n, repeats;        // tile_n = repeats * waves * warp_n
  std::int64_t tile_k, warp_k, groups, outer, inner;  // warp_k = outer * groups * inner
  bool neighbours;
};

// The order for the kernel of `key`, which belongs to gemm.preshuffle.
inline ShuffledB shuffled_b(const GemmKey& key) {
  ShuffledB order{};
  order.tile_n = key.tile[1];
  order.waves = key.wave[1];
  order.warp_n = key.warp[1];
  order.repeats = order.tile_n / (order.waves * order.warp_n);
  order.tile_k = key.tile[2];
  order.warp_k = key.warp[2];
  order.outer = 1;
  const ArchFacts& arch = kArches[static_cast<int>(key.arch)];
  if (arch.wave_size == 64) {
    order.groups = 64 / order.warp_n;
    order.neighbours = order.warp_n == 16 && order.repeats % 2 == 0;
  } else if (std::strcmp(arch.family, "rdna3") == 0) {
    order.groups = 1;  // both halves of a wave hold the same values
  } else {
    order.groups = 2;
    order.outer = order.warp_k / 16;
  }
  order.inner = order.warp_k / (order.groups * order.outer);
  return order;
}

// Writes B, n columns of k elements of `size` bytes, in `order`. False, and nothing written, if n
// or k is not a multiple of the tile.
inline bool shuffle_b(const ShuffledB& order, std::int64_t n, std::int64_t k, std::size_t size,
                      const void* b, std::int64_t ldb, void* shuffled) {
  if (n % order.tile_n != 0 || k % order.tile_k != 0) return false;
  const auto* from = static_cast<const char*>(b);
  auto* to = static_cast<char*>(shuffled);
  const std::int64_t run = order.inner * static_cast<std::int64_t>(size);
  for (std::int64_t block = 0; block < n / order.warp_n; ++block) {
    const std::int64_t wave = block % order.waves;
    const std::int64_t repeat = block / order.waves % order.repeats;
    const std::int64_t tile = block / order.waves / order.repeats;
    for (std::int64_t k_warp = 0; k_warp < k / order.warp_k; ++k_warp) {
      for (std::int64_t group = 0; group < order.groups; ++group) {
        for (std::int64_t lane = 0; lane < order.warp_n; ++lane) {
          const std::int64_t in_tile = order.neighbours
                                           ? (wave * order.warp_n + lane) * order.repeats + repeat
                                           : (repeat * order.waves + wave) * order.warp_n + lane;
          const std::int64_t column = (tile * order.tile_n + in_tile) * ldb;
          for (std::int64_t outer = 0; outer < order.outer; ++outer) {
            const std::int64_t row =
                ((k_warp * order.outer + outer) * order.groups + group) * order.inner;
            std::memcpy(to, from + (column + row) * static_cast<std::int64_t>(size),
                        static_cast<std::size_t>(run));
            to += run;
          }
        }
      }
    }
  }
  return true;
}

}  // namespace ckdisp
