// The epilogue of a grouped convolution key.
#pragma once

#include "../epilogue.hpp"
#include "loop.hpp"

namespace ckdisp::tile {

template <ConvUnit Key, bool Atomic>
struct EpilogueOf<Key, Atomic> {
  static constexpr const ConvKey& key = Key::key;
  using Loop = MainLoop<Key>;

  // What the kernel stores: of two stages the first leaves its sums as they are.
  using Result = std::conditional_t<
      Loop::is_fwd, typename Loop::Out,
      std::conditional_t<Loop::is_bwd_data, typename Loop::In, typename Loop::Wei>>;
  using C = std::conditional_t<key.two_stage, typename Loop::Acc, Result>;
  using F = ck::element_wise::PassThrough;
  static constexpr bool limit_to_int8 = std::is_same_v<C, ck::int8_t>;
  static constexpr MemoryOperation operation =
      Atomic ? MemoryOperation::atomic_add : MemoryOperation::set;

  // Two halves are added at once, and there is no addition of one.
  static_assert(!Atomic || sizeof(C) != 2 || key.vector[2] % 2 == 0,
                "parts of 16 bits are added in pairs: the vector of C must be even");

  using Shuffled = ck::CShuffleEpilogue<ck::CShuffleEpilogueProblem<
      typename Loop::A, typename Loop::B, ck::tuple<>, typename Loop::Acc, C, ck::tuple<>,
      typename Loop::CLayout, F, key.tile[0], key.tile[1], key.wave[0], key.wave[1], key.warp[0],
      key.warp[1], key.warp[2], Loop::Problem::TransposeC, operation, /*NumWaveGroups=*/1,
      /*FixedVectorSize=*/true, key.vector[2]>>;
  // CK's raw stores know neither single bytes nor additions.
  using Direct = ck::DefaultGemm2DEpilogue<ck::DefaultGemm2DEpilogueProblem<
      typename Loop::A, typename Loop::B, ck::tuple<>, typename Loop::Acc, C, ck::tuple<>,
      typename Loop::CLayout, F, key.tile[0], key.tile[1], /*kPadM=*/true, /*kPadN=*/true,
      key.warp[0], key.warp[1], key.warp[2], Loop::Problem::TransposeC,
      /*UseRawStore=*/sizeof(C) != 1 && !Atomic, operation>>;

  using type = std::conditional_t<key.epilogue == Epilogue::cshuffle,
                                  ShuffledEpilogue<Shuffled, limit_to_int8>,
                                  DirectEpilogue<Direct, F, 0, /*IsFused=*/false, limit_to_int8>>;
};

}  // namespace ckdisp::tile
