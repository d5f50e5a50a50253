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
  static constexpr double memory = 1e10;  // bytes per second of one core
  static constexpr double cache = 4e10;   // bytes per second to and from outer caches
  static constexpr double start = 4e-6;   // seconds to start and join a team

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
    const double team = cut.parts_m * cut.parts_n;
    const auto units = static_cast<double>(cut.units);
    const double cycles = step(multiplies(T::mr * T::nv), T::mr + T::nv, 3);
    // Panels of the busiest thread; an edge costs what its smaller tile costs, roughly.
    const Index edge = p.m % T::mr;
    double panels_m = static_cast<double>(ceil_div(cut.panels_m, cut.parts_m));
    if (edge != 0) panels_m -= 1 - static_cast<double>(Micro<Kernel>::computed_rows(edge)) / T::mr;
    const auto panels_n = static_cast<double>(ceil_div(cut.panels_n, cut.parts_n));
    const double main = panels_m * panels_n * (units * cycles + 40) / hertz;
    // Packing of A and B, and C once for each depth.
    const auto blocks_n = static_cast<double>(ceil_div(cut.panels_n, cut.block_n));
    const auto blocks_k = static_cast<double>(ceil_div(most(cut.units, 1), cut.block_k));
    const double packed_a = panels_m * T::mr * units * blocks_n;
    const double packed_b = static_cast<double>(cut.panels_n) * T::nr * units / team;
    const double c = static_cast<double>(p.m) * static_cast<double>(p.n) / team * 2 * blocks_k;
    const double bytes_b = static_cast<double>(p.n) * static_cast<double>(p.k) * T::size_b;
    return main + (packed_a + packed_b + c) * 4 / cache + bytes_b / memory / team +
           (team > 1 ? start : 0);
  }

  static double skinny(const GemmProblemData& p, int threads) {
    const SkinnyPlan cut = Skinny<Kernel>::plan(p, threads);
    const double team = static_cast<double>(cut.parts_n) * cut.parts_k;
    const auto rows = static_cast<double>(cut.rows);
    const double pass = rows < T::mr ? rows : T::mr;
    const double passes = rows / pass;
    // Vector loads of A or broadcasts per step are as many as rows.
    const double cycles = passes * step(multiplies(pass * T::nv), pass + T::nv, 3) +
                          T::nv * (conversion() + (passes > 1 ? 2 : 0)) / 2;
    const double steps = static_cast<double>(cut.units) * static_cast<double>(p.n) / T::nr;
    const double bytes = static_cast<double>(p.n) * static_cast<double>(p.k) * T::size_b;
    const double main = steps * cycles / hertz;
    const double stream = bytes / memory;
    return (main > stream ? main : stream) / team + rows * static_cast<double>(p.k) * 4 / cache +
           (team > 1 ? start : 0);
  }
};

}  // namespace
}  // namespace ckdisp::cpu
