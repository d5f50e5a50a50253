#pragma once

#include "ck_tile_fmha_probe_table.hpp"
#include "providers/ck_tile/fmha.hpp"

namespace ckdisp::tile {

template <class Key>
struct FmhaProbe {
  static constexpr Probe make(const ckdisp_kernel* kernel) {
    return {kernel, fmha_block_size(Key::key)};
  }
};

}  // namespace ckdisp::tile
