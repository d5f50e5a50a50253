// The kernels of an attention key.
#pragma once

#include "../variants.hpp"
#include "backward.hpp"
#include "forward.hpp"
#include "paged.hpp"
#include "splitkv.hpp"

namespace ckdisp::tile {

template <FmhaUnit Key>
using FmhaOf = FmhaFamily<Key::key.family, Key>;

// Attention kernels of one key are told apart by a number alone.
template <FmhaUnit Key>
struct Variants<Key> {
  static constexpr std::size_t count = FmhaOf<Key>::variants;
};

// Threads of a block. CK's own figure is right in the device pass only: on the host it takes every
// wave to have 64 lanes.
constexpr int fmha_block_size(const FmhaKey& key) {
  const int lanes = facts(key.arch).wave_size;
  switch (key.family) {
    case Family::fmha_splitkv_combine:
      return 4 * lanes;
    case Family::fmha_bwd_dot_do_o:
      return key.tile[0];
    case Family::fmha_appendkv:
    case Family::fmha_bwd_convert_dq:
      return 256;
    default: {
      const int first = key.wave[0] * key.wave[1] * key.wave[2],
                second = key.wave[3] * key.wave[4] * key.wave[5];
      return lanes * (first > second ? first : second);
    }
  }
}

// What a launch of variant I passes.
template <class Key, int I>
struct FmhaKernel {
  static_assert(FmhaOf<Key>::checked);
  using Ck = typename FmhaOf<Key>::template Ck<I>;
  struct Args {
    typename Ck::Kargs ck;
  };
};

}  // namespace ckdisp::tile
