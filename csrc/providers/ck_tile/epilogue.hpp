// How the accumulators of a tile become elements of C.
#pragma once

#include "elementwise.hpp"
#include "pipeline.hpp"

namespace ckdisp::tile {

// Every accumulator replaced by f(accumulator), in a tile of the same distribution.
template <class To, class Tile, class F>
CK_TILE_DEVICE auto mapped(const Tile& tile, const F& f) {
  auto result = ck::make_static_distributed_tensor<To>(Tile::get_tile_distribution());
  ck::tile_elementwise_inout([&](auto& y, const auto& x) { y = f(x); }, result, tile);
  return result;
}

// int32 accumulators limited to what int8 holds: CK's conversion wraps.
template <class Tile>
CK_TILE_DEVICE auto limited(const Tile& tile) {
  return mapped<ck::int32_t>(tile,
                             [](ck::int32_t x) { return ck::int32_t{convert_to<ck::int8_t>(x)}; });
}

// C through LDS, so that lanes store whole vectors.
template <class Ck, bool LimitToInt8>
struct ShuffledEpilogue : Ck {
  template <class CWindow, class AccTile, class DWindows>
  CK_TILE_DEVICE void operator()(CWindow& c, const AccTile& acc, const DWindows& ds, void* lds) {
    if constexpr (LimitToInt8) {
      Ck::operator()(c, limited(acc), ds, lds);
    } else {
      Ck::operator()(c, acc, ds, lds);
    }
  }
};

// C straight from registers. CK applies the operation only if there is a D, and holds the result
// in the type of D; here it is applied always, and held in fp32 (integers: in int32).
template <class Ck, class F, int NumD, bool IsFused, bool LimitToInt8>
struct DirectEpilogue : Ck {
  using Problem = typename Ck::Problem;
  using Acc = typename Ck::AccDataType;

  template <class CWindow, class AccTile, class DWindows>
  CK_TILE_DEVICE void operator()(CWindow& c, const AccTile& acc, const DWindows& ds,
                                 void* = nullptr) const {
    if constexpr (IsFused) {
      using Held = std::conditional_t<is_integer<typename Ck::ODataType>, ck::int32_t, float>;
      constexpr auto distribution = AccTile::get_tile_distribution();
      auto result = ck::make_static_distributed_tensor<Held>(distribution);
      const auto d_tiles = ck::generate_tuple(
          [&](auto i) { return ck::load_tile(ck::make_tile_window(ds[i], distribution)); },
          ck::number<NumD>{});
      ck::tile_elementwise_inout_unpack(
          F{}, ck::concat_tuple_of_reference(
                   ck::tie(result, acc),
                   ck::generate_tie([&](auto i) -> const auto& { return d_tiles[i]; },
                                    ck::number<NumD>{})));
      store(c, result);
    } else {
      store(c, acc);
    }
  }

 private:
  template <class CWindow, class Tile>
  CK_TILE_DEVICE void store(CWindow& c, const Tile& tile) const {
    if constexpr (LimitToInt8) {
      Ck::operator()(c, limited(tile), nullptr);
    } else {
      Ck::operator()(c, tile, nullptr);
    }
  }
};

template <class Key, bool Atomic>
struct EpilogueOf {
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

  using type = std::conditional_t<
      is_shuffled, ShuffledEpilogue<Shuffled, limit_to_int8>,
      DirectEpilogue<Direct, F, key.num_d, is_fused, key.dtype_c == Dtype::int8>>;
};

}  // namespace ckdisp::tile
