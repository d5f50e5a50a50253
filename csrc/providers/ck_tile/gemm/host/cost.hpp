// Estimated time of a GEMM.
#pragma once

#include "../../host/machine.hpp"
#include "support.hpp"

namespace ckdisp::tile {

template <GemmUnit Key>
struct Cost<Key> {
  static constexpr const GemmKey& key = Key::key;
  using Check = CkCheck<Key>;
  using Tiles = TileCost<Key, Vectors{Check::vector_a, Check::vector_b, Check::vector_c}>;
  static constexpr double size_d = sizeof(Element<key.dtype_d>);

  // Of the main loop without a split.
  static std::int64_t trips(const GemmProblemData& p) { return ceil_div(p.k, key.tile[2]); }

  static double seconds(const GemmProblemData& p, double units = Tiles::machine.units) {
    if (p.m == 0 || p.n == 0) return 0;
    const auto tiles_m = static_cast<double>(ceil_div(p.m, key.tile[0]));
    const auto tiles_n = static_cast<double>(ceil_div(p.n, key.tile[1]));
    const double parts = p.k_batch;
    const Parts<Key> cut(p.k, p.k_batch);
    const auto loops = static_cast<double>(Parts<Key>::loops(cut.whole));
    const double compute = Tiles::compute(tiles_m * tiles_n * parts, loops, units);

    const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
               k = static_cast<double>(p.k);
    // A part of a split K reads C and writes it.
    const double c = m * n * (Tiles::size_c * (parts > 1 ? 2 * parts + 1 : 1) + key.num_d * size_d);
    const double memory =
        (m * k * Tiles::size_a + n * k * Tiles::size_b + c) / Tiles::machine.memory;
    // A kernel that pads where it need not is a little slower.
    constexpr double padding = 1 + 0.01 * (key.pad_m + key.pad_n + key.pad_k);
    return kLaunch + (compute > memory ? compute : memory) * padding;
  }
};

}  // namespace ckdisp::tile
