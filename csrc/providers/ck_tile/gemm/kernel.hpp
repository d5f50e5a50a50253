// The kernels of a GEMM key.
#pragma once

#include "../run.hpp"
#include "epilogue.hpp"

namespace ckdisp::tile {

// The arguments of a kernel: CK's, then ours.
template <class Ck, bool HasBounds>
struct KernelArgs {
  Ck ck;
};
template <class Ck>
struct KernelArgs<Ck, true> {
  Ck ck;
  ClampBounds bounds;
};

template <GemmUnit Key>
struct Kernel<Key> {
  static constexpr const GemmKey& key = Key::key;
  using Loop = MainLoop<Key>;
  static constexpr int block_size = block_size_of(key);
  static constexpr bool has_bounds = key.elementwise == Elementwise::clamp;

  using CkArgs = typename EpilogueOf<Key, false>::CkArgs;
  using Args = KernelArgs<CkArgs, has_bounds>;
  static_assert(sizeof(CkArgs) % alignof(ClampBounds) == 0);

  template <bool HotLoop, TailNumber Tail, bool Atomic>
  using Ck =
      ck::UniversalGemmKernel<typename Loop::Partitioner,
                              WithTail<typename Loop::Pipe, HotLoop, Tail, Loop::is_preshuffle>,
                              typename EpilogueOf<Key, Atomic>::type>;

  template <class Ck>
  static constexpr void check() {
    static_assert(Ck::PersistentKernel == key.persistent, "the pipeline has no persistent kernel");
  }
};

}  // namespace ckdisp::tile
