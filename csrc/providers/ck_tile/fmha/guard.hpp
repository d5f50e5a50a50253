// What holds for every attention key of this provider.
#pragma once

#include "../arch.hpp"
#include "mask.hpp"
#include "shape.hpp"
#include "types.hpp"

namespace ckdisp::tile {

template <class Key>
struct FmhaGuard : ArchGuard<Key> {
  static constexpr const FmhaKey& key = Key::key;
  static_assert(key.mode != FmhaMode::any, "kernels of GPUs are compiled for one mode");
  static_assert(key.bias != FmhaBias::any && key.rope != FmhaRope::any,
                "kernels of GPUs are compiled for one kind of bias and rotation");
  static_assert(!key.sink, "these CK Tile headers have no sink");
  static_assert(key.qscale == FmhaQscale::no || key.qscale == FmhaQscale::pertensor,
                "these CK Tile headers scale whole tensors only");
  static_assert(
      !is_family(key.arch, "rdna3") || key.warp[0] == 0,
      "on RDNA 3 the sums of one matrix instruction are no operand of the next, and these "
      "CK Tile headers do not move them");
  static_assert(!is_rdna(key.arch) || (key.pipeline != FmhaPipeline::qr_async &&
                                       key.pipeline != FmhaPipeline::qr_async_trload),
                "RDNA has no asynchronous copies to LDS");
  static_assert(!key.use_trload || key.arch == Arch::gfx950, "only gfx950 reads LDS transposed");
};

// What all forward families share.
template <class Key>
struct FmhaForward : FmhaGuard<Key> {
  static constexpr const FmhaKey& key = Key::key;
  using Types = FmhaTypesOf<key.dtype>;
  using In = typename Types::In;
  using Out = typename Types::Out;
  static constexpr bool is_group = key.mode == FmhaMode::group;
  static constexpr bool pad_sq = key.padding[0] != 0, pad_sk = key.padding[1] != 0,
                        pad_d = key.padding[2] != 0, pad_dv = key.padding[3] != 0;
  static constexpr bool is_quantised = key.qscale == FmhaQscale::pertensor;
  // Variants of a key are told apart by a number.
  static constexpr int variants = 1;
};

// The kernels of a family: CK's kernel of variant I is Ck<I>.
template <Family, class Key>
struct FmhaFamily;

}  // namespace ckdisp::tile
