// Kernels of the backward families.
#pragma once

#include "guard.hpp"

namespace ckdisp::tile {

template <class Key>
struct FmhaBackward : FmhaGuard<Key> {
  static constexpr const FmhaKey& key = Key::key;
  static constexpr bool is_group = key.mode == FmhaMode::group;
  using Types = FmhaTypesOf<key.dtype>;
  using T = typename Types::In;
  static_assert(std::is_same_v<T, typename Types::Out> && sizeof(T) > 1,
                "gradients are fp32, fp16 or bf16");
  static constexpr int variants = 1;
};

// Row sums of dO * O.
template <class Key>
struct FmhaFamily<Family::fmha_bwd_dot_do_o, Key> : FmhaBackward<Key> {
  using Base = FmhaBackward<Key>;
  static constexpr const FmhaKey& key = Key::key;
  using Traits =
      ck::TileFmhaBwdOGradDotOTraits<key.padding[0] != 0, key.padding[3] != 0, blocks_of(key)>;
  using Problem =
      ck::BlockFmhaBwdOGradDotOPipelineProblem<typename Base::T, typename Base::T, float,
                                               key.tile[0], key.hdim_v, Base::is_group, Traits>;

  template <int>
  using Ck = ck::FmhaBwdOGradDotOKernel<ck::BlockFmhaBwdOGradDotO<Problem>>;
};

template <class Key>
struct FmhaFamily<Family::fmha_bwd_dq_dk_dv, Key> : FmhaBackward<Key> {
  using Base = FmhaBackward<Key>;
  static constexpr const FmhaKey& key = Key::key;
  using T = typename Base::T;
  // Without a longest sequence of Q, blocks add to dQ in fp32.
  static constexpr bool accumulates = key.max_seq_len_q == 0;
  static_assert(key.dropout == (key.dropout_warp != 0), "dropout has a warp tile of 16 or 32");
  static_assert(accumulates || key.use_trload,
                "only kernels that read LDS transposed have a longest sequence of Q");

  using Traits = ck::TileFmhaBwdTraits<key.padding[2], key.padding[3], bias_of(key.bias), key.dbias,
                                       blocks_of(key)>;
  // Without dropout CK spells the warp tile as 32.
  using Dropout = ck::BlockDropoutBwd<key.dropout, key.dropout_warp != 16, key.store_randval>;
  using Problem = ck::BlockFmhaBwdPipelineProblem<
      T, T, T, T, float, float, float, typename Base::Types::Bias, typename Base::Types::RandVal, T,
      T, T, T, T, typename Base::Types::Bias, typename FmhaBwdShapeOf<Key>::type, Base::is_group,
      key.deterministic, MaskOf<Key>, Dropout, key.use_trload, Traits>;
  template <bool pads>
  using Epilogue = ck::Default2DEpilogue<ck::Default2DEpilogueProblem<float, T, false, pads>>;

  template <int>
  using Ck = ck::FmhaBwdDQDKDVKernel<ck::BlockFmhaBwdDQDKDVPipeline<Problem>,
                                     Epilogue<(key.padding[2] > 0)>, Epilogue<(key.padding[3] > 0)>,
                                     Epilogue<(key.padding[2] > 0)>>;
};

// Sums of dQ in fp32 become dQ.
template <class Key>
struct FmhaFamily<Family::fmha_bwd_convert_dq, Key> : FmhaBackward<Key> {
  using Base = FmhaBackward<Key>;
  static constexpr const FmhaKey& key = Key::key;
  static constexpr int block_size = 256;
  using Traits =
      ck::TileFmhaBwdConvertQGradTraits<key.padding[0] != 0, key.padding[2] != 0, blocks_of(key)>;
  using Problem =
      ck::BlockFmhaBwdConvertQGradPipelineProblem<float, typename Base::T, block_size, key.tile[0],
                                                  key.tile[1], key.hdim_q, Base::is_group,
                                                  key.deterministic, Traits>;

  template <int>
  using Ck = ck::FmhaBwdConvertQGradKernel<ck::BlockFmhaBwdConvertQGrad<Problem>>;
};

}  // namespace ckdisp::tile
