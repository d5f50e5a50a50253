// Kernels of fmha.splitkv and fmha.splitkv_combine.
#pragma once

#include "guard.hpp"

namespace ckdisp::tile {

template <FmhaPipeline, class Problem>
struct FmhaSplitPipeline;
template <class Problem>
struct FmhaSplitPipeline<FmhaPipeline::qr, Problem> {
  using type = ck::BlockFmhaFwdSplitKVPipelineQRKSVS<Problem>;
};
template <class Problem>
struct FmhaSplitPipeline<FmhaPipeline::qr_nwarp_sshuffle, Problem> {
  using type = ck::BlockFmhaFwdSplitKVPipelineNWarpSShuffleQRKSVS<Problem>;
};

// Variants: whether some part of the keys is no multiple of the tile, and whether the heads of a
// group, each with a single row of Q, are one tile.
template <class Key>
struct FmhaFamily<Family::fmha_splitkv, Key> : FmhaForward<Key> {
  using Base = FmhaForward<Key>;
  using Base::key;
  using typename Base::In;
  using typename Base::Types;

  static constexpr bool merges =
      key.hdim_q == 128 && key.bias == FmhaBias::no && key.mask == FmhaMask::no;
  static constexpr int evens = Base::is_group ? 1 : 2;  // in mode group parts are never even
  static constexpr int variants = evens * (merges ? 2 : 1);
  static constexpr int variant(bool uneven, bool merged) {
    return (evens == 2 && !uneven ? 1 : 0) + (merged ? evens : 0);
  }

  template <int I>
  using Traits = ck::TileFmhaFwdSplitKVTraits<
      Base::pad_sq, Base::pad_sk, Base::pad_d, Base::pad_dv, key.logits, bias_of(key.bias),
      /*kHasBiasGrad=*/false, key.lse, Base::is_quantised, key.paged_kv,
      /*kHasUnevenSplits=*/I % evens == 0, /*kMergeNumHeadGroupsSeqLenQ=*/I / evens == 1,
      blocks_of(key)>;
  template <int I>
  using Problem = ck::BlockFmhaFwdSplitKVPipelineProblem<
      In, In, In, float, float, typename Types::Bias, float, In, float, float,
      typename FmhaShapeOf<Key>::type, Base::is_group, FmhaVariantOf<Key>, MaskOf<Key>, Traits<I>>;
  // It never pads: CK's raw stores would write beyond the rows of a tile.
  using Epilogue = ck::Default2DEpilogue<ck::Default2DEpilogueProblem<float, float, false, false>>;

  template <int I>
  using Ck = ck::FmhaFwdSplitKVKernel<typename FmhaSplitPipeline<key.pipeline, Problem<I>>::type,
                                      Epilogue>;
};

// Variants: at most 8, 16, 32, 64 or 128 parts.
template <class Key>
struct FmhaFamily<Family::fmha_splitkv_combine, Key> : FmhaForward<Key> {
  using Base = FmhaForward<Key>;
  using Base::key;
  using typename Base::Types;

  static constexpr int fewest = 3, variants = 5;
  static constexpr int most_splits = 1 << (fewest + variants - 1);
  // For a number of parts, which is not more than most_splits.
  static constexpr int variant(std::int64_t splits) {
    int i = 0;
    while (splits > (std::int64_t{1} << (fewest + i))) ++i;
    return i;
  }

  template <int I>
  using Traits =
      ck::TileFmhaFwdSplitKVCombineTraits<Base::pad_sq, Base::pad_dv, key.lse, Base::is_quantised,
                                          fewest + I, blocks_of(key)>;
  template <int I>
  using Problem =
      ck::BlockFmhaSplitKVCombinePipelineProblem<float, float, typename Base::Out, key.hdim_v,
                                                 Base::is_group, key.tile[0], Traits<I>>;
  using Epilogue =
      ck::Default2DEpilogue<ck::Default2DEpilogueProblem<float, typename Base::Out, false, false>>;

  template <int I>
  using Ck =
      ck::FmhaFwdSplitKVCombineKernel<ck::BlockFmhaFwdSplitKVCombinePipeline<Problem<I>>, Epilogue>;
};

}  // namespace ckdisp::tile
