// The list of pages that a batch prefill reads: a copy that ends behind the last tile.
#pragma once

#include "../types.hpp"

namespace ckdisp::tile {

// CK looks up the pages of whole tiles, and those of the step behind. Behind the list stands its
// last page, whose rows are numbers as good as any: no query sees them, but they are multiplied.
template <class Key>
struct Pages {
  static constexpr int block_size = 256;
  static constexpr long long margin = Key::key.tile[1] + Key::key.tile[4];

  struct Args {
    const int* list;
    const int* starts;  // first places of the sequences, and behind the last one
    int batch;
    int* copy;
    long long count;  // of the copy
  };

  CK_TILE_DEVICE static void run(const Args& args) {
    const long long i = static_cast<long long>(blockIdx.x) * block_size + threadIdx.x;
    if (i >= args.count) return;
    const long long end = args.starts[args.batch];
    args.copy[i] = end == 0 ? 0 : args.list[i < end ? i : end - 1];
  }
};

}  // namespace ckdisp::tile

// As with ckdisp_run, the host spells the mangled name.
template <class Key>
__launch_bounds__(ckdisp::tile::Pages<Key>::block_size) __global__
    void ckdisp_pages([[maybe_unused]] typename ckdisp::tile::Pages<Key>::Args args) {
#if defined(__HIP_DEVICE_COMPILE__)
  ckdisp::tile::Pages<Key>::run(args);
#endif
}
