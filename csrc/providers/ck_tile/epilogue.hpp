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

// Whether CK adds elements of C through plain pointers. Elsewhere it does so by instructions that
// check the range of C: see CK_TILE_USE_AMD_BUFFER_ATOMIC_ADD_FLOAT and buffer_view::atomic_add.
template <class C>
constexpr bool adds_by_pointer(Arch arch) {
  if (is_family(arch, "rdna3")) return !std::is_same_v<C, ck::int32_t>;
  return std::is_same_v<C, ck::bf16_t> && arch != Arch::gfx950;
}

// Additions to C that end at its last row. CK pads only the contiguous side of C, and leaves the
// rows behind M to the check of the range.
template <class Ck>
struct BoundedEpilogue : Ck {
  template <class CWindow, class AccTile, class DWindows>
  CK_TILE_DEVICE void operator()(CWindow& c, const AccTile& acc, const DWindows& ds,
                                 void* lds = nullptr) {
    const auto lengths = c.get_window_lengths();
    const auto view = ck::pad_tensor_view(c.get_bottom_tensor_view(), lengths,
                                          ck::sequence</*rows=*/true, /*columns=*/false>{});
    auto window = ck::make_tile_window(view, lengths, c.get_window_origin());
    Ck::operator()(window, acc, ds, lds);
  }
};

// The epilogue of a key, with or without atomic additions to C; each op has its own.
template <class Key, bool Atomic>
struct EpilogueOf;

}  // namespace ckdisp::tile
