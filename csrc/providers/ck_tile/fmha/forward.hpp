// Kernels of fmha.fwd.
#pragma once

#include "guard.hpp"

namespace ckdisp::tile {

template <FmhaPipeline, class Problem>
struct FmhaFwdPipeline;
template <class Problem>
struct FmhaFwdPipeline<FmhaPipeline::qr, Problem> {
  using type = ck::BlockFmhaPipelineQRKSVS<Problem>;
};
template <class Problem>
struct FmhaFwdPipeline<FmhaPipeline::qr_async, Problem> {
  using type = ck::BlockFmhaPipelineQRKSVSAsync<Problem>;
};
template <class Problem>
struct FmhaFwdPipeline<FmhaPipeline::qs, Problem> {
  using type = ck::BlockFmhaPipelineQSKSVS<Problem>;
};
template <class Problem>
struct FmhaFwdPipeline<FmhaPipeline::qr_async_trload, Problem> {
  static_assert(Problem::kUseTrLoad, "qr_async_trload reads LDS transposed");
  using type = ck::BlockFmhaPipelineQRKSVSAsyncTrload<Problem>;
};

template <class Key>
struct FmhaFamily<Family::fmha_fwd, Key> : FmhaForward<Key> {
  using Base = FmhaForward<Key>;
  using Base::key;
  using typename Base::In;
  using typename Base::Types;

  using Traits =
      ck::TileFmhaTraits<Base::pad_sq, Base::pad_sk, Base::pad_d, Base::pad_dv, key.logits,
                         bias_of(key.bias), /*kHasBiasGrad=*/false, key.lse, key.dropout,
                         Base::is_quantised, blocks_of(key), key.skip_min_seqlen_q>;
  using Problem =
      ck::BlockFmhaPipelineProblem<In, In, In, float, float, typename Types::Bias,
                                   typename Types::RandVal, float, In, float, typename Base::Out,
                                   typename FmhaShapeOf<Key>::type, Base::is_group,
                                   FmhaVariantOf<Key>, MaskOf<Key>, key.use_trload, Traits>;
  using Epilogue = ck::Default2DEpilogue<
      ck::Default2DEpilogueProblem<float, typename Base::Out, Base::pad_sq, Base::pad_dv>>;

  template <int>
  using Ck = ck::FmhaFwdKernel<typename FmhaFwdPipeline<key.pipeline, Problem>::type, Epilogue>;
};

// The pipeline with two groups of waves that alternate between matrix instructions and softmax.
template <class Key>
  requires(Key::key.pipeline == FmhaPipeline::v3)
struct FmhaFamily<Family::fmha_fwd, Key> : FmhaForward<Key> {
  using Base = FmhaForward<Key>;
  using Base::key;
  using typename Base::In;
  using typename Base::Types;
  static_assert(!key.logits && !key.dropout && key.bias == FmhaBias::no && !Base::is_quantised &&
                    !key.skip_min_seqlen_q && !key.use_trload,
                "v3 has no soft cap, dropout, bias or scales, and skips nothing");

  using Traits = ck::TileFmhaFwdV3Traits<Base::pad_sq, Base::pad_sk, Base::pad_d, Base::pad_dv,
                                         key.lse, blocks_of(key)>;
  using Problem =
      ck::BlockFmhaFwdV3PipelineProblem<In, In, In, float, float, float, In, float,
                                        typename Base::Out, typename FmhaShapeOf<Key>::type,
                                        Base::is_group, MaskOf<Key>, Traits>;
  using Epilogue = ck::Default2DEpilogue<
      ck::Default2DEpilogueProblem<float, typename Base::Out, /*kPadM=*/true, /*kPadN=*/true>>;

  template <int>
  using Ck = ck::FmhaFwdV3Kernel<ck::BlockFmhaFwdV3Pipeline<Problem>, Epilogue>;
};

}  // namespace ckdisp::tile
