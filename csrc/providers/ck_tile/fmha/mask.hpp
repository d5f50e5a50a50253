// The mask, the variant and other enumerations of an attention key as CK Tile has them.
#pragma once

#include "../types.hpp"

namespace ckdisp::tile {

template <FmhaMask mask, bool simplified>
struct FmhaMaskOf {
  static_assert(mask != FmhaMask::any, "kernels of GPUs are compiled for one form of mask");
  static constexpr bool masks = mask != FmhaMask::no, windows = mask == FmhaMask::generic;
  using type = ck::GenericAttentionMask<masks, windows>;
};
template <FmhaMask mask>
struct FmhaMaskOf<mask, true> {
  static_assert(mask == FmhaMask::no || mask == FmhaMask::generic,
                "a simplified mask is no or generic");
  using type = ck::SimplifiedGenericAttentionMask<mask == FmhaMask::generic>;
};
template <class Key>
using MaskOf = typename FmhaMaskOf<Key::key.mask, Key::key.simplified_mask>::type;

template <class Key>
using FmhaVariantOf =
    ck::ComposedAttention<Key::key.logits ? ck::LOGITS_SOFT_CAP : 0, CK_TILE_FMHA_FWD_FAST_EXP2>;

constexpr ck::BlockAttentionBiasEnum bias_of(FmhaBias bias) {
  switch (bias) {
    case FmhaBias::bias:
      return ck::BlockAttentionBiasEnum::ELEMENTWISE_BIAS;
    case FmhaBias::alibi:
      return ck::BlockAttentionBiasEnum::ALIBI;
    default:
      return ck::BlockAttentionBiasEnum::NO_BIAS;
  }
}

constexpr ck::RotaryEmbeddingEnum rope_of(FmhaRope rope) {
  switch (rope) {
    case FmhaRope::interleaved:
      return ck::RotaryEmbeddingEnum::INTERLEAVED;
    case FmhaRope::half_rotated:
      return ck::RotaryEmbeddingEnum::HALF_ROTATED;
    default:
      return ck::RotaryEmbeddingEnum::NONE;
  }
}

// CK's word for its own choice is -1.
constexpr index_t blocks_of(const FmhaKey& key) {
  return key.block_per_cu == 0 ? -1 : key.block_per_cu;
}

}  // namespace ckdisp::tile
