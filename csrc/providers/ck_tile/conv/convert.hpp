// The second stage of a weight gradient: sums in fp32 become elements of the weights.
#pragma once

#include "epilogue.hpp"

namespace ckdisp::tile {

template <class Key>
struct Convert {
  using From = typename MainLoop<Key>::Acc;
  using To = typename EpilogueOf<Key, false>::Result;
  static constexpr int block_size = 256;
  static constexpr int width = 4;  // elements of a lane, next to each other
  static constexpr int block_elements = block_size * width;

  struct Args {
    const From* sums;
    To* weights;
    long long count;
  };

  CK_TILE_DEVICE static void run(const Args& args) {
    using Sums = ck::ext_vector_t<From, width>;
    using Weights = ck::ext_vector_t<To, width>;
    const long long first =
        static_cast<long long>(blockIdx.x) * block_elements + threadIdx.x * width;
    if (first + width <= args.count) {
      const Sums sums = *reinterpret_cast<const Sums*>(args.sums + first);
      Weights weights;
      for (int i = 0; i < width; ++i) weights[i] = convert_to<To>(sums[i]);
      *reinterpret_cast<Weights*>(args.weights + first) = weights;
    } else {
      for (long long i = first; i < args.count; ++i) {
        args.weights[i] = convert_to<To>(args.sums[i]);
      }
    }
  }
};

}  // namespace ckdisp::tile

// As with ckdisp_run, the host spells the mangled name.
template <class Key>
__launch_bounds__(ckdisp::tile::Convert<Key>::block_size) __global__
    void ckdisp_convert([[maybe_unused]] typename ckdisp::tile::Convert<Key>::Args args) {
#if defined(__HIP_DEVICE_COMPILE__)
  ckdisp::tile::Convert<Key>::run(args);
#endif
}
