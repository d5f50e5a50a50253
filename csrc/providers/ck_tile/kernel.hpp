// The kernels of one key.
#pragma once

#include "epilogue.hpp"
#include "variants.hpp"

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

template <class Key>
struct Kernel {
  static constexpr const GemmKey& key = Key::key;
  using Loop = MainLoop<Key>;
  static constexpr int waves = key.wave[0] * key.wave[1] * key.wave[2];
  static constexpr int block_size = waves * facts(key.arch).wave_size;
  static constexpr bool has_bounds = key.elementwise == Elementwise::clamp;

  using CkArgs = typename EpilogueOf<Key, false>::CkArgs;
  using Args = KernelArgs<CkArgs, has_bounds>;
  static_assert(sizeof(CkArgs) % alignof(ClampBounds) == 0);

  template <bool HotLoop, TailNumber Tail, bool Atomic>
  using Ck =
      ck::UniversalGemmKernel<typename Loop::Partitioner,
                              WithTail<typename Loop::Pipe, HotLoop, Tail, Loop::is_preshuffle>,
                              typename EpilogueOf<Key, Atomic>::type>;
};

}  // namespace ckdisp::tile

// One variant. Its parameter depends on Key so that the mangled name is a pattern without
// substitutions, which the host can spell: see names.hpp.
template <class Key, bool HotLoop, int Tail, bool Atomic>
__launch_bounds__(ckdisp::tile::Kernel<Key>::block_size, Key::key.block_per_cu) __global__
    void ckdisp_run([[maybe_unused]] typename ckdisp::tile::Kernel<Key>::Args args) {
#if defined(__HIP_DEVICE_COMPILE__)
  using Ck = typename ckdisp::tile::Kernel<Key>::template Ck<
      HotLoop, static_cast<ckdisp::tile::TailNumber>(Tail), Atomic>;
  static_assert(Ck::kBlockSize == ckdisp::tile::Kernel<Key>::block_size);
  static_assert(Ck::PersistentKernel == Key::key.persistent,
                "the pipeline has no persistent kernel");
  Ck{}(args.ck);
#endif
}
