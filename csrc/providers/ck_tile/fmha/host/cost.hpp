// Estimated time of an attention kernel.
#pragma once

#include "../../host/machine.hpp"
#include "support.hpp"

namespace ckdisp::tile {

template <FmhaUnit Key>
struct Cost<Key> {
  static constexpr const FmhaKey& key = Key::key;
  static constexpr Machine machine = machine_of(key.arch);
  static constexpr double launch = 4e-6;  // seconds to start a kernel
  using Types = FmhaTypesOf<key.dtype>;
  static constexpr double size_in = sizeof(typename Types::In),
                          size_out = sizeof(typename Types::Out);

  static double seconds(const FmhaProblemData& p) {
    const double reads = memory(p) / machine.memory, work = compute(p);
    return launch + (work > reads ? work : reads) * padding;
  }

 private:
  // A kernel that pads where it need not is a little slower, and so is one that masks.
  static constexpr double padding = 1 +
                                    0.01 * ((key.padding[0] != 0) + (key.padding[1] != 0) +
                                            (key.padding[2] != 0) + (key.padding[3] != 0)) +
                                    0.02 * (key.mask != FmhaMask::no);
  static double count(std::int64_t value) { return static_cast<double>(value); }

  // Part of the peak that the main loop reaches on full tiles.
  static constexpr double efficiency() {
    switch (key.pipeline) {
      case FmhaPipeline::v3:
        return 0.7;
      case FmhaPipeline::qr_async_trload:
        return 0.6;
      case FmhaPipeline::qr_async:
        return 0.5;
      default:
        return 0.4;
    }
  }

  // Part of the pairs of rows and keys that a mask leaves.
  static double visible(const FmhaProblemData& p) {
    if (p.mask == FmhaMask::no || p.seqlen_k == 0) return 1;
    if (p.mask != FmhaMask::generic || p.window_left < 0 || p.window_right < 0) return 0.5;
    const double width = count(p.window_left) + count(p.window_right) + 1;
    return width < count(p.seqlen_k) ? width / count(p.seqlen_k) : 1;
  }

  static double compute(const FmhaProblemData& p) {
    constexpr bool backward = key.family == Family::fmha_bwd_dq_dk_dv;
    if constexpr (!backward && key.warp[0] == 0) {
      return 0;  // no matrix instructions: memory decides
    } else {
      constexpr double rate = size_in == 1   ? machine.byte
                              : size_in == 2 ? machine.half
                                             : machine.full;
      const auto tiles = [](std::int64_t size, std::int64_t tile) {
        return count(ceil_div(size, tile));
      };
      const double heads = count(p.batch) * count(p.nhead_q);
      const double splits = key.family == Family::fmha_splitkv ? count(p.num_splits) : 1;
      const double rows = tiles(p.seqlen_q, key.tile[0]), keys = tiles(p.seqlen_k, key.tile[1]);
      // Forward a block has a tile of rows and goes through the keys; backward it is the reverse.
      const double blocks = heads * (backward ? keys : rows * splits);
      const double loops = backward ? rows : keys / splits;
      constexpr double stages = backward ? 5 : 2;
      const double one = stages * (key.hdim_q + key.hdim_v) * key.tile[0] * key.tile[1] /
                         (rate * efficiency() * machine.hertz);
      const double rounds = blocks / machine.units;
      const double whole = rounds < 1 ? 1 : count(static_cast<std::int64_t>(rounds + 0.999));
      return whole * loops * one * visible(p);
    }
  }

  static double memory(const FmhaProblemData& p) {
    const double q = count(p.total_q) * count(p.nhead_q), k = count(p.total_k) * count(p.nhead_k);
    const double dq = count(p.hdim_q), dv = count(p.hdim_v);
    constexpr double sums = 4;  // bytes of what stages hand on
    switch (key.family) {
      case Family::fmha_splitkv:
        return q * dq * size_in + k * (dq + dv) * size_in + q * dv * sums * count(p.num_splits);
      case Family::fmha_splitkv_combine:
        return q * dv * (sums * count(p.num_splits) + size_out);
      case Family::fmha_appendkv:
        return 2 * count(p.batch) * count(p.nhead_k) * count(p.seqlen_new) * (dq + dv) * size_in;
      case Family::fmha_bwd_dot_do_o:
        return 2 * q * dv * size_in;
      case Family::fmha_bwd_convert_dq:
        return q * dq * (sums * count(p.num_splits) + size_in);
      case Family::fmha_bwd_dq_dk_dv:
        return q * (2 * dq * sums + dv * size_in) + 2 * k * (dq + dv) * size_in;
      default:
        return q * (dq * size_in + dv * size_out) + k * (dq + dv) * size_in;
    }
  }
};

}  // namespace ckdisp::tile
