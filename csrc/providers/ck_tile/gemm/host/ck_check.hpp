// CK's own view of a problem: its kernel arguments, vector widths and argument check.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "../kernel.hpp"

namespace ckdisp::tile {

// The sizes of a problem as CK takes them. Where a matrix is a single line, its leading dimension
// means nothing to the caller, but CK computes with it.
struct Sizes {
  index_t m, n, k, k_batch;
  index_t lda, ldb, ldc, ldd[kMaxD];
};

template <class Key>
struct CkCheck {
  static constexpr const GemmKey& key = Key::key;
  using Loop = MainLoop<Key>;
  using Pipe = typename Loop::Pipe;
  using Epi = typename EpilogueOf<Key, false>::type;
  static constexpr Variant first = Variants<Key>::at(0);
  using Ck = typename Kernel<Key>::template Ck<first.hot_loop, first.tail, false>;
  using CkArgs = typename Kernel<Key>::CkArgs;
  static_assert(std::is_same_v<CkArgs, typename Ck::KernelArgs>);

  // On the host CK takes waves to have 64 lanes unless told.
  static constexpr bool is_wave32 = facts(key.arch).wave_size == 32;
  static constexpr index_t vector_a = Pipe::template GetVectorSizeA<is_wave32>();
  static constexpr index_t vector_b = Pipe::template GetVectorSizeB<is_wave32>();
  static constexpr index_t vector_c = Epi::GetVectorSizeC();
  static constexpr index_t vector_d() {
    if constexpr (key.num_d > 0) {
      return Epi::GetVectorSizeD(ck::number<0>{});
    } else {
      return 1;
    }
  }

  static CkArgs arguments(const Sizes& s, const GemmArgs& data) {
    std::array<const void*, key.num_d> d{};
    std::array<index_t, key.num_d> ldd{};
    for (std::size_t i = 0; i < d.size(); ++i) {
      d[i] = data.d[i];
      ldd[i] = s.ldd[i];
    }
    return Ck::MakeKernelArgs(ck::UniversalGemmHostArgs<1, 1, key.num_d>(
        {data.a}, {data.b}, d, data.c, s.k_batch, s.m, s.n, s.k, {s.lda}, {s.ldb}, ldd, s.ldc));
  }

  static bool accepts(const Sizes& s) { return Ck::IsSupportedArgument(arguments(s, GemmArgs{})); }
};

}  // namespace ckdisp::tile
