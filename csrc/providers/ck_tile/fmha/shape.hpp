// Tiles of an attention key.
#pragma once

#include "../types.hpp"

namespace ckdisp::tile {

// Three numbers of `values` from `first` on.
template <auto& values, int first>
using Triple = ck::sequence<values[first], values[first + 1], values[first + 2]>;

// Of the families with two stages of matrix instructions.
template <class Key>
struct FmhaShapeOf {
  static constexpr const FmhaKey& key = Key::key;
  static constexpr auto& t = Key::key.tile;
  using type =
      ck::TileFmhaShape<ck::sequence<t[0], t[1], t[2], t[3], t[4], t[5]>, Triple<Key::key.wave, 0>,
                        Triple<Key::key.warp, 0>, Triple<Key::key.wave, 3>,
                        Triple<Key::key.warp, 3>, key.vlayout == Order::r>;
};

// Of fmha.bwd_dq_dk_dv: S and dP share the waves and warp tiles of the first stage, dV and dK those
// of the second.
template <class Key>
struct FmhaBwdShapeOf {
  static constexpr auto& t = Key::key.tile;
  static constexpr auto& w = Key::key.warp;
  using FirstWaves = Triple<Key::key.wave, 0>;
  using FirstTile = Triple<Key::key.warp, 0>;
  using SecondWaves = Triple<Key::key.wave, 3>;
  using SecondTile = Triple<Key::key.warp, 3>;
  using type =
      ck::TileFmhaBwdShape<ck::sequence<t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]>,
                           FirstWaves, FirstTile, SecondWaves, SecondTile, FirstWaves, FirstTile,
                           SecondWaves, SecondTile, Triple<Key::key.wave, 6>,
                           Triple<Key::key.warp, 6>, Key::key.max_seq_len_q>;
};

}  // namespace ckdisp::tile
