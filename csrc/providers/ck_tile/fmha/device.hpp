// The device pass of an attention unit: every variant of its key.
#pragma once

#include <utility>

#include "kernel.hpp"
#include "pages.hpp"

// Its parameter depends on Key and I so that the mangled name is a pattern without substitutions,
// which the host can spell: see ../host/module.hpp.
template <class Key, int I>
__launch_bounds__((ckdisp::tile::FmhaKernel<Key, I>::Ck::kBlockSize),
                  (ckdisp::tile::FmhaKernel<Key, I>::Ck::kBlockPerCu)) __global__
    void ckdisp_fmha([[maybe_unused]] typename ckdisp::tile::FmhaKernel<Key, I>::Args args) {
#if defined(__HIP_DEVICE_COMPILE__)
  using Ck = typename ckdisp::tile::FmhaKernel<Key, I>::Ck;
  static_assert(Ck::kBlockSize == ckdisp::tile::fmha_block_size(Key::key));
  Ck{}(args.ck);
#endif
}

namespace ckdisp::tile {

template <class Key, std::size_t... I>
void emit_fmha(std::index_sequence<I...>) {
  // Taking the address of a kernel makes the compiler emit it.
  const void* kernels[] = {
      reinterpret_cast<const void*>(&ckdisp_fmha<Key, static_cast<int>(I)>)...};
  (void)kernels;
}
template <class Key>
void emit_fmha() {
  emit_fmha<Key>(std::make_index_sequence<Variants<Key>::count>{});
  if constexpr (Key::key.family == Family::fmha_batch_prefill) {
    const void* const pages = reinterpret_cast<const void*>(&ckdisp_pages<Key>);
    (void)pages;
  }
}

}  // namespace ckdisp::tile

#define CKDISP_CK_TILE_FMHA_KERNEL(symbol, Key) template void ckdisp::tile::emit_fmha<Key>();
