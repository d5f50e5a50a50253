// Estimated time of tiles in seconds. Only the order of the estimates matters.
//
// A launch is rounds of tiles over the compute units. A tile takes as long as its multiplications
// or its loads through the caches, whichever is more, on a pipeline that hides the other with some
// success; the whole launch takes at least what its tensors need from memory.
#pragma once

#include "../epilogue.hpp"
#include "parts.hpp"

namespace ckdisp::tile {

struct Machine {
  double units, hertz;
  double half, byte, full;  // fp16, 8-bit and fp32 operations a cycle of one unit
  double memory, cache;     // bytes a second
};

// One typical product of each arch, from its published figures.
constexpr Machine machine_of(Arch arch) {
  switch (arch) {
    case Arch::gfx908:
      return {120, 1.5e9, 1024, 1024, 256, 1.2e12, 4e12};
    case Arch::gfx90a:
      return {104, 1.7e9, 1024, 1024, 256, 1.6e12, 6e12};
    case Arch::gfx942:
      return {304, 2.1e9, 2048, 4096, 256, 5.3e12, 1.7e13};
    case Arch::gfx950:
      return {256, 2.4e9, 4096, 8192, 256, 8e12, 2e13};
    case Arch::gfx1100:
      return {96, 2.5e9, 512, 512, 256, 0.96e12, 3.5e12};
    case Arch::gfx1200:
      return {32, 2.7e9, 1024, 2048, 256, 0.32e12, 2e12};
    default:
      return {64, 2.9e9, 1024, 2048, 256, 0.64e12, 4e12};
  }
}

constexpr double kLaunch = 4e-6;  // seconds to start a kernel

// The widths of a kernel's accesses to A, B and C in elements.
struct Vectors {
  index_t a, b, c;
};

template <class Key, Vectors vectors>
struct TileCost {
  static constexpr auto& key = Key::key;
  static constexpr Machine machine = machine_of(key.arch);
  using A = typename MainLoop<Key>::A;
  static constexpr double size_a = sizeof(A), size_b = sizeof(typename MainLoop<Key>::B),
                          size_c = sizeof(typename EpilogueOf<Key, false>::C);
  static constexpr double latency = 1e-6;  // seconds from a load to its first value

  // Part of the peak that the main loop reaches on full tiles.
  static constexpr double efficiency() {
    switch (key.pipeline) {
      case Pipeline::mem:
        return key.scheduler == Scheduler::interwave ? 0.6 : 0.55;
      case Pipeline::compv3:
        return 0.75;
      case Pipeline::compv5:
        return 0.5;
      case Pipeline::compv6:
        return 0.8;
      default:
        return 0.82;
    }
  }

  // Steps of K that a block loads ahead: what hides the latency of memory.
  static constexpr double ahead() { return key.pipeline == Pipeline::mem ? 4 : 2; }

  // Blocks whose tiles fit the LDS of a unit at once; registers allow few in any case.
  static constexpr double resident() {
    const double tiles = (key.tile[0] * size_a + key.tile[1] * size_b) * key.tile[2] *
                         (has_two_buffers(key.pipeline) ? 2 : 1);
    const double fit = facts(key.arch).lds_bytes / tiles;
    return fit > 4 ? 4 : fit < 1 ? 1 : fit;
  }

  static constexpr double operations() {
    return std::is_same_v<A, float> ? machine.full : size_a == 1 ? machine.byte : machine.half;
  }

  // Narrow accesses use less of a cache line's way.
  static constexpr double access(double bytes) { return bytes >= 16 ? 1 : bytes >= 8 ? 0.8 : 0.5; }

  // Computing `tiles` tiles of C, each in `loops` steps of K, on so many compute units.
  static double compute(double tiles, double loops, double units = machine.units) {
    constexpr double tile_m = key.tile[0], tile_n = key.tile[1], tile_k = key.tile[2];
    constexpr double math =
        2 * tile_m * tile_n * tile_k / (operations() * machine.hertz * efficiency());
    constexpr double bytes = tile_m * tile_k * size_a / access(vectors.a * size_a) +
                             tile_n * tile_k * size_b / access(vectors.b * size_b);
    const double busy = tiles < units ? tiles : units;
    const double load = bytes * busy / machine.cache;
    // Blocks that share a unit wait at different times.
    const double shared = tiles / units < resident() ? tiles / units : resident();
    const double wait = latency / ahead() / (shared > 1 ? shared : 1);
    double step = math > load ? math : load;
    if (wait > step) step = wait;
    constexpr double store = tile_m * tile_n * size_c / access(vectors.c * size_c);
    const double end = latency + store * busy / machine.cache;
    const double rounds = static_cast<double>(
        ceil_div(static_cast<std::int64_t>(tiles), static_cast<std::int64_t>(units)));
    return rounds * (loops * step + latency + end);
  }
};

}  // namespace ckdisp::tile
