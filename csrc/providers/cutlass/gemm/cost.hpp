// Estimated time of a GEMM in seconds. Only the order of the estimates matters.
//
// Tiles go in rounds over the multiprocessors. A tile takes as long as its multiplications or its
// loads, whichever is more; the whole at least what its matrices need from memory. The figures are
// those of an H200, measured with the curated tiles.
#pragma once

#include "../types.hpp"

namespace ckdisp::sm90 {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The order in which tiles of C are computed.
struct Walk {
  bool along_m;
  int swizzle;
};
// Columns of tiles one after the other keep A in the cache. Where neither A nor B fits there,
// squares of 8 tiles do better.
constexpr Walk walk_of(std::int64_t m, std::int64_t n) {
  constexpr std::int64_t large = 8192;
  return {true, m >= large && n >= large ? 8 : 1};
}

template <class Key>
struct Cost {
  static constexpr GemmKey key = Key::key;
  static constexpr double units = 132;
  static constexpr double memory = 4.1e12;  // bytes a second
  static constexpr double loads = 75e9;     // the same into one multiprocessor
  static constexpr double launch = 3e-6, tile_start = 1.2e-6;

  // Operations a second of one multiprocessor.
  static constexpr double rate() {
    const double peak = (sizeof(Element<key.dtype_a>) == 1 ? 1500e12 : 800e12) / units;
    if (key.pipeline == Pipeline::unaligned) return peak * 0.02;
    const double area = static_cast<double>(key.tile[0]) * key.tile[1];
    return peak * (area >= 128 * 256   ? 1.0
                   : area >= 128 * 128 ? 0.93
                   : area >= 64 * 128  ? 0.75
                                       : 0.6);
  }

  static double seconds(const GemmProblemData& p) {
    if (p.m == 0 || p.n == 0) return 0;
    constexpr double size_a = sizeof(Element<key.dtype_a>), size_b = sizeof(Element<key.dtype_b>),
                     size_c = sizeof(Element<key.dtype_c>);
    const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
               k = static_cast<double>(p.k);
    // A cluster computes its tiles together, be they inside C or not.
    const auto side = [](std::int64_t size, int tile, int cluster) {
      const int step = cluster > 1 ? cluster : 1;
      return static_cast<double>(ceil_div(ceil_div(size, tile), step) * step);
    };
    const double tiles = side(p.m, key.tile[0], key.wave[0]) * side(p.n, key.tile[1], key.wave[1]);
    const auto rounds = static_cast<double>(
        ceil_div(static_cast<std::int64_t>(tiles), static_cast<std::int64_t>(units)));
    const double math = 2.0 * key.tile[0] * key.tile[1] * k / rate();
    // A cluster loads what its tiles share once. Rows of a tile that lie outside C cost more than
    // nothing: the instruction computes them, and fewer tiles wait for memory.
    const double shared_a = key.wave[1] > 1 ? key.wave[1] : 1,
                 shared_b = key.wave[0] > 1 ? key.wave[0] : 1;
    const double outside = p.m < key.tile[0] ? 1 - m / key.tile[0] : 0;
    const double load = (key.tile[0] * size_a / shared_a + key.tile[1] * size_b / shared_b) * k /
                        loads * (1 + 0.6 * outside);
    const double compute = rounds * ((math > load ? math : load) + tile_start);
    const double traffic = (m * k * size_a + k * n * size_b + m * n * size_c) / memory;
    // What is hidden behind the other still costs a little.
    return launch + (compute > traffic ? compute + 0.1 * traffic : traffic + 0.1 * compute);
  }
};

}  // namespace ckdisp::sm90
