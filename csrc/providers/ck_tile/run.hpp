// The entry point of a variant of a key.
#pragma once

#include "variants.hpp"

namespace ckdisp::tile {

// The kernels of one key; each op has its own. It has
//   Args                      what a launch passes; `ck` of it is what CK's kernel takes
//   Ck<HotLoop, Tail, Atomic> CK's kernel
//   block_size                threads of a block
//   check<Ck>()               what must hold for it, asserted
template <class Key>
struct Kernel;

}  // namespace ckdisp::tile

// Its parameter depends on Key so that the mangled name is a pattern without substitutions, which
// the host can spell: see host/module.hpp.
template <class Key, bool HotLoop, int Tail, bool Atomic>
__launch_bounds__(ckdisp::tile::Kernel<Key>::block_size, Key::key.block_per_cu) __global__
    void ckdisp_run([[maybe_unused]] typename ckdisp::tile::Kernel<Key>::Args args) {
#if defined(__HIP_DEVICE_COMPILE__)
  using Ck = typename ckdisp::tile::Kernel<Key>::template Ck<
      HotLoop, static_cast<ckdisp::tile::TailNumber>(Tail), Atomic>;
  static_assert(Ck::kBlockSize == ckdisp::tile::Kernel<Key>::block_size);
  ckdisp::tile::Kernel<Key>::template check<Ck>();
  Ck{}(args.ck);
#endif
}
