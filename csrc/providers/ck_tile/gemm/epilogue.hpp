// The epilogue of a GEMM key.
#pragma once

#include "../epilogue.hpp"
#include "loop.hpp"

namespace ckdisp::tile {

template <GemmUnit Key, bool Atomic>
struct EpilogueOf<Key, Atomic> {
  static constexpr const GemmKey& key = Key::key;
  using Loop = MainLoop<Key>;
  static constexpr bool is_fused = key.elementwise != Elementwise::passthrough;
  static constexpr bool is_shuffled = key.epilogue == Epilogue::cshuffle;
  static constexpr bool limit_to_int8 = key.dtype_c == Dtype::int8 && !is_fused;

  static_assert(key.num_d >= 0 && key.num_d <= 4, "a kernel takes 0 to 4 D tensors");
  static_assert(key.num_d == 0 || key.layout_d == Order::r, "CK Tile reads D in the order of C");
  static_assert(!is_fused || key.family == Family::gemm_multi_d,
                "fused operations belong to gemm.multi_d");
  static_assert(is_fused || key.num_d == 0, "passthrough takes no D");
  static_assert(!(is_fused && key.split_k), "split-K sums parts behind the fused operation");
  static_assert(!(is_fused && is_shuffled && sizeof(Element<key.dtype_c>) == 1),
                "the cshuffle epilogue rounds to C before the fused operation; one byte is too "
                "little, use the default epilogue");

  using C = Element<key.dtype_c>;
  using D = Element<key.dtype_d>;
  using Ds = Repeat<D, key.num_d>;
  using DsLayout = Repeat<RowMajor, key.num_d>;
  // Where our own arguments follow those of CK.
  using CkArgs = ck::UniversalGemmKernelArgs<1, 1, key.num_d>;
  using F = ElementwiseOf<key.elementwise, key.num_d, sizeof(CkArgs)>;
  static constexpr MemoryOperation operation =
      Atomic ? MemoryOperation::atomic_add : MemoryOperation::set;

  // Neighbouring lanes hold neighbouring columns of C, if B is shuffled to that end. Only the
  // 16-wide matrix instructions of 64-lane waves have the registers for it.
  static constexpr int repeat_n = key.tile[1] / (key.warp[1] * key.wave[1]);
  static constexpr bool permutes_n =
      Loop::is_preshuffle && !is_rdna(key.arch) && key.warp[1] == 16 && repeat_n % 2 == 0;

  // Behind two wave groups the first wave alone stores C, so the epilogue never has groups.
  // CK's raw stores know neither single bytes nor additions.
  static constexpr bool stores_raw = sizeof(C) > 1 && !Atomic;

  using Shuffled = ck::CShuffleEpilogue<ck::CShuffleEpilogueProblem<
      typename Loop::A, typename Loop::B, Ds, typename Loop::Acc, C, DsLayout,
      typename Loop::CLayout, F, key.tile[0], key.tile[1], key.wave[0], key.wave[1], key.warp[0],
      key.warp[1], key.warp[2], Loop::Problem::TransposeC, operation, /*NumWaveGroups=*/1,
      /*FixedVectorSize=*/false, /*VectorSizeC=*/1, permutes_n>>;
  using Direct = ck::DefaultGemm2DEpilogue<ck::DefaultGemm2DEpilogueProblem<
      typename Loop::A, typename Loop::B, Ds, typename Loop::Acc, C, DsLayout,
      typename Loop::CLayout, F, key.tile[0], key.tile[1], key.pad_m, key.pad_n, key.warp[0],
      key.warp[1], key.warp[2], Loop::Problem::TransposeC, stores_raw, operation>>;

  using Unbounded = std::conditional_t<
      is_shuffled, ShuffledEpilogue<Shuffled, limit_to_int8>,
      DirectEpilogue<Direct, F, key.num_d, is_fused, key.dtype_c == Dtype::int8>>;
  static constexpr bool is_bounded = Atomic && adds_by_pointer<C>(key.arch);
  using type = std::conditional_t<is_bounded, BoundedEpilogue<Unbounded>, Unbounded>;
};

}  // namespace ckdisp::tile
