// Estimated time of a grouped convolution.
#pragma once

#include "../../host/machine.hpp"
#include "support.hpp"

namespace ckdisp::tile {

template <ConvUnit Key>
struct Cost<Key> {
  static constexpr const ConvKey& key = Key::key;
  using Loop = MainLoop<Key>;
  using Tiles = TileCost<Key, Vectors{key.vector[0], key.vector[1], key.vector[2]}>;

  // Of the main loop of a weight gradient without a split.
  static std::int64_t trips(const ConvProblemData& p) {
    return ceil_div(p.n * ConvSizes(p).out_pixels, key.tile[2]);
  }

  static double seconds(const ConvProblemData& p, double units = Tiles::machine.units) {
    if (p.n == 0) return 0;
    const ConvSizes s(p);
    const auto n = static_cast<double>(p.n), g = static_cast<double>(p.g);
    const double merged = key.groups_to_merge;
    const auto tiles = [](double rows, double columns) {
      return up(rows, key.tile[0]) * up(columns, key.tile[1]);
    };
    double compute = 0, launches = 1;
    if constexpr (Loop::is_fwd) {
      compute =
          Tiles::compute(g / merged * tiles(n * count(s.out_pixels) * merged, count(p.k) * merged),
                         up(count(p.c) * count(s.taps), key.tile[2]));
    } else if constexpr (Loop::is_bwd_data) {
      // Residues of pixels modulo the stride; each has its share of the pixels and taps.
      double gemms = 1;
      for (int i = 0; i < kMaxSpatial; ++i) gemms *= count(std::min(p.filter[i], p.stride[i]));
      const double residues = count(ConvSizes::product(p.stride));
      compute = Tiles::compute(gemms * g * tiles(n * count(s.in_pixels) / residues, count(p.c)),
                               up(count(p.k) * count(s.taps) / gemms, key.tile[2]));
    } else {
      const double parts = p.k_batch;
      compute = Tiles::compute(
          parts * g / merged * tiles(count(p.k) * merged, count(p.c) * count(s.taps) * merged),
          up(n * count(s.out_pixels), parts * key.tile[2]), units);
      launches = key.two_stage ? 2 : 1;
    }
    return launches * kLaunch + std::max(compute, memory(p, s));
  }

 private:
  static double count(std::int64_t value) { return static_cast<double>(value); }
  static double up(double size, double tile) {
    const double whole = static_cast<double>(static_cast<std::int64_t>(size / tile));
    return whole * tile < size ? whole + 1 : whole;
  }

  static double memory(const ConvProblemData& p, const ConvSizes& s) {
    const double in = count(p.n) * count(s.in_image) * sizeof(typename Loop::In),
                 out = count(p.n) * count(s.out_image) * sizeof(typename Loop::Out),
                 wei = count(s.wei) * sizeof(typename Loop::Wei);
    // Of a split sum each part reads the result and writes it.
    const double parts = p.k_batch > 1 ? 2.0 * p.k_batch + 1 : 1;
    const double sums = count(s.wei) * Tiles::size_c;
    const double result =
        Loop::is_bwd_weight ? parts * sums + (key.two_stage ? sums + wei : 0) : wei;
    return (in + out + result) / Tiles::machine.memory;
  }
};

}  // namespace ckdisp::tile
