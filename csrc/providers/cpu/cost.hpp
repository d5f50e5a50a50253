// Estimated time of a problem. Only the order of the estimates matters: of tiles, of pipelines and
// of CPU levels for the same problem.
#pragma once

#include "packed.hpp"
#include "skinny.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct Cost {
  using T = Traits<Kernel>;
  static constexpr const GemmKey& key = Kernel::key;

  // A core with two vector multipliers, two loads a cycle, four instructions a cycle.
  static constexpr double hertz = 2.5e9;
  static constexpr double memory = 1e10;       // bytes per second of one core
  static constexpr double cache = 4e10;        // bytes per second to and from outer caches
  static constexpr double start = 4e-6;        // seconds to start and join a team
  static constexpr double pack_near = 3e-10;   // seconds to pack a unit that comes from a cache
  static constexpr double pack_far = 8e-10;    // the same from memory
  static constexpr double copy = 4e-10;        // seconds to convert a unit in the same order
  static constexpr double sum_lanes = 1.5e-9;  // seconds to add the lanes of a vector

  // Cycles of one step of a register tile: `loads` vector loads, `work` other instructions.
  static constexpr double step(double multiplies, double loads, double work) {
    double cycles = multiplies / 2;
    if (loads / 2 > cycles) cycles = loads / 2;
    if ((multiplies + loads + work) / 4 > cycles) cycles = (multiplies + loads + work) / 4;
    return cycles < 4 ? 4 : cycles;  // the latency of the accumulators
  }

  // Multiplications take an instruction more where multiply and add are not one.
  static constexpr double multiplies(double tiles) {
    const bool fused = key.arch != Arch::generic && !T::integer;
    return fused ? tiles : 2 * tiles;
  }

  // Instructions to convert one vector of B.
  static constexpr double conversion() {
    switch (key.dtype_b) {
      case Dtype::fp32:
        return 0;
      case Dtype::bf16:
      case Dtype::int8:
        return 2;
      case Dtype::fp16:
        return key.arch == Arch::generic ? 14 : 2;
      default:
        return key.arch == Arch::generic ? 16 : 8;
    }
  }

  static double seconds(const GemmProblemData& p, int threads) {
    if (p.m == 0 || p.n == 0) return 0;
    return key.pipeline == Pipeline::skinny ? skinny(p, threads) : packed(p, threads);
  }

 private:
  static double packed(const GemmProblemData& p, int threads) {
    const PackedPlan cut = Packed<Kernel>::plan(p, threads);
    const double team = cut.threads;
    const auto units = static_cast<double>(cut.units);
    // AMX multiplies `unit_step` units of a tile in as many cycles.
    const double cycles = T::amx ? 5 : step(multiplies(T::mr * T::nv), T::mr + T::nv, 3);
    // Panels of the busiest thread; an edge costs what its smaller tile costs, roughly.
    const Index edge = p.m % T::mr;
    double panels_m = static_cast<double>(ceil_div(cut.panels_m * cut.parts_n, cut.threads));
    if (edge != 0) panels_m -= 1 - static_cast<double>(Micro<Kernel>::computed_rows(edge)) / T::mr;
    const auto panels_n = static_cast<double>(ceil_div(cut.panels_n, cut.parts_n));
    const double main = panels_m * panels_n * (units * cycles + 40) / hertz;
    const auto blocks_n = static_cast<double>(ceil_div(cut.panels_n, cut.block_n));
    const auto blocks_k = static_cast<double>(ceil_div(most(cut.units, 1), cut.block_k));
    const double packed_a = panels_m * T::mr * units * blocks_n * pack_near;
    const double packed_b =
        static_cast<double>(p.n) * units * (far(p) ? pack_far : pack_near) / team;
    // C moves once for each depth.
    const double c = static_cast<double>(p.m) * static_cast<double>(p.n) / team * 8 * blocks_k;
    return main + packed_a + packed_b + c / cache + stream_b(p) / team + (team > 1 ? start : 0);
  }

  static double skinny(const GemmProblemData& p, int threads) {
    const SkinnyPlan cut = Skinny<Kernel>::plan(p, threads);
    const double team = static_cast<double>(cut.parts_n) * cut.parts_k;
    const auto rows = static_cast<double>(cut.rows);
    const auto units = static_cast<double>(cut.units);
    const double pass = rows < T::mr ? rows : T::mr;
    const double passes = rows / pass;
    double cycles =
        passes * step(multiplies(pass * T::nv), pass + T::nv, 3) + T::nv * conversion() / 2;
    if (passes > 1) cycles *= 2;  // the block of B goes through the first-level cache again
    constexpr Index grain = T::b_along_k ? T::nv : T::nr;
    const auto columns = static_cast<double>(round_up(p.n, grain));
    double main = units * columns / T::nr * cycles / hertz;
    if (T::b_along_k) {
      main += rows * columns * sum_lanes;
    } else {
      main += static_cast<double>(p.n % T::nr == 0 ? 0 : T::nr) * units * pack_near;
    }
    return (main + stream_b(p)) / team + rows * units * pack_near + (team > 1 ? start : 0);
  }

  static double bytes_of_b(const GemmProblemData& p) {
    return static_cast<double>(p.n) * static_cast<double>(p.k) * T::size_b;
  }

  // Whether B is too large to be in a cache.
  static bool far(const GemmProblemData& p) { return bytes_of_b(p) > (1 << 20); }

  static double stream_b(const GemmProblemData& p) {
    return bytes_of_b(p) / (far(p) ? memory : cache);
  }
};

}  // namespace
}  // namespace ckdisp::cpu
