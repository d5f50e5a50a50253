// The device pass of a unit: every variant of its key.
#pragma once

#include <utility>

#include "run.hpp"

namespace ckdisp::tile {

// Taking the address of a kernel makes the compiler emit it.
template <class Key, std::size_t... I>
void emit(std::index_sequence<I...>) {
  const void* kernels[] = {reinterpret_cast<const void*>(
      &ckdisp_run<Key, Variants<Key>::at(I).hot_loop, static_cast<int>(Variants<Key>::at(I).tail),
                  Variants<Key>::at(I).atomic>)...};
  (void)kernels;
}
template <class Key>
void emit_all() {
  emit<Key>(std::make_index_sequence<Variants<Key>::count>{});
  if constexpr (requires { Kernel<Key>::emit_more(); }) Kernel<Key>::emit_more();
}

}  // namespace ckdisp::tile

#define CKDISP_CK_TILE_KERNEL(symbol, Key) template void ckdisp::tile::emit_all<Key>();
