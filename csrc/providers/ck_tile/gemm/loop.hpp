// The main loop of a GEMM key.
#pragma once

#include "../pipeline.hpp"

namespace ckdisp::tile {

template <GemmUnit Key>
struct MainLoop<Key> : BlockTile<Key> {
  using Tile = BlockTile<Key>;
  static constexpr const GemmKey& key = Key::key;
  static constexpr bool is_preshuffle = key.family == Family::gemm_preshuffle;

  static_assert(is_preshuffle == (key.pipeline == Pipeline::preshufflev2),
                "preshufflev2 belongs to gemm.preshuffle");
  static_assert(!is_preshuffle || key.layout == Layout::rcr, "gemm.preshuffle has layout rcr");
  static_assert(!is_preshuffle || !key.split_k, "the shuffled B has no parts of K in one piece");
  // CK's kernel stores C from the first wave of a block with two wave groups, and a persistent
  // one from all of them.
  static_assert(key.num_wave_groups == 1 || (key.wave[0] * key.wave[1] == 1 && !key.persistent),
                "compv5 takes 1x1x2 waves and is not persistent");

  using A = Element<key.dtype_a>;
  using B = Element<key.dtype_b>;
  using Acc = Element<key.dtype_acc>;
  using ALayout = MajorOf<a_is_row_major(key.layout)>;
  using BLayout = MajorOf<b_is_row_major(key.layout)>;
  using CLayout = RowMajor;

  using Traits =
      ck::TileGemmUniversalTraits<key.pad_m, key.pad_n, key.pad_k, has_two_buffers(key.pipeline),
                                  ALayout, BLayout, CLayout,
                                  /*TransposeC=*/false, /*UseStructuredSparsity=*/false,
                                  key.persistent, key.num_wave_groups, is_preshuffle>;
  using Problem = ck::UniversalGemmPipelineProblem<A, B, Acc, typename Tile::Shape, Traits,
                                                   scheduler_of(key.scheduler)>;
  using Pipe = typename CkPipeline<key.pipeline, Problem>::type;
};

}  // namespace ckdisp::tile
