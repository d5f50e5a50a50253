// Kernels that read or write pages of K and V: fmha.pagedkv, fmha.batch_prefill, fmha.appendkv.
#pragma once

#include "guard.hpp"

namespace ckdisp::tile {

template <class Key>
struct FmhaFamily<Family::fmha_pagedkv, Key> : FmhaForward<Key> {
  using Base = FmhaForward<Key>;
  using Base::key;
  using typename Base::In;
  using typename Base::Types;

  using Traits =
      ck::TileFmhaFwdPagedKVTraits<Base::pad_sq, Base::pad_sk, Base::pad_d, Base::pad_dv,
                                   key.logits, bias_of(key.bias),
                                   /*kHasBiasGrad=*/false, key.lse, key.paged_kv,
                                   Base::is_quantised, blocks_of(key), key.skip_min_seqlen_q>;
  using Problem = ck::BlockFmhaFwdPagedKVPipelineProblem<
      In, In, In, float, float, typename Types::Bias, float, In, float, typename Base::Out,
      typename FmhaShapeOf<Key>::type, Base::is_group, FmhaVariantOf<Key>, MaskOf<Key>, Traits>;
  using Epilogue = ck::Default2DEpilogue<
      ck::Default2DEpilogueProblem<float, typename Base::Out, Base::pad_sq, Base::pad_dv>>;

  template <int>
  using Ck = ck::FmhaFwdPagedKVKernel<ck::BlockFmhaFwdPagedKVPipelineQRKSVS<Problem>, Epilogue>;
};

template <class Key>
struct FmhaFamily<Family::fmha_batch_prefill, Key> : FmhaForward<Key> {
  using Base = FmhaForward<Key>;
  using Base::key;
  using typename Base::In;
  using typename Base::Types;
  static_assert(key.page_size == 1 && key.kv_lookup_table == FmhaKvLookup::sglang &&
                    key.kv_memory_layout == FmhaKvLayout::linear,
                "these CK Tile headers have batch prefill for pages of one row, found by ranges "
                "of one list (sglang) and stored row by row (linear)");

  using Traits = ck::TileFmhaTraits<Base::pad_sq, Base::pad_sk, Base::pad_d, Base::pad_dv,
                                    key.logits, bias_of(key.bias), /*kHasBiasGrad=*/false, key.lse,
                                    key.dropout, Base::is_quantised, blocks_of(key)>;
  using Problem =
      ck::BlockFmhaPipelineProblem<In, In, In, float, float, typename Types::Bias,
                                   typename Types::RandVal, float, In, float, typename Base::Out,
                                   typename FmhaShapeOf<Key>::type, Base::is_group,
                                   FmhaVariantOf<Key>, MaskOf<Key>, /*kUseTrLoad=*/false, Traits>;
  using Epilogue = ck::Default2DEpilogue<
      ck::Default2DEpilogueProblem<float, typename Base::Out, Base::pad_sq, Base::pad_dv>>;

  template <int>
  using Ck = ck::FmhaBatchPrefillWithPagedKVCacheKernel<
      ck::BlockFmhaBatchPrefillPipelineQRKSVSAsync<Problem>, Epilogue>;
};

template <class Key>
struct FmhaFamily<Family::fmha_appendkv, Key> : FmhaForward<Key> {
  using Base = FmhaForward<Key>;
  using Base::key;
  using typename Base::In;

  using Traits = ck::TileFmhaFwdAppendKVTraits<Base::pad_sq, Base::pad_sk, Base::pad_d,
                                               Base::pad_dv, blocks_of(key)>;
  using Problem =
      ck::BlockFmhaFwdAppendKVPipelineProblem<In, In, In, key.tile[0], key.tile[1], key.tile[2],
                                              key.tile[3], key.vlayout == Order::r,
                                              rope_of(key.rope), key.paged_kv, Traits>;

  template <int>
  using Ck = ck::FmhaFwdAppendKVKernel<ck::BlockFmhaFwdAppendKVPipeline<Problem>>;
};

}  // namespace ckdisp::tile
