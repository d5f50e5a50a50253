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
