// The kernels of a grouped convolution key.
#pragma once

#include "../run.hpp"
#include "convert.hpp"
#include "epilogue.hpp"

namespace ckdisp::tile {

template <Family>
struct ConvKernelOf;
template <>
struct ConvKernelOf<Family::conv_fwd> {
  template <class... T>
  using type = ck::GroupedConvolutionForwardKernel<T...>;
};
template <>
struct ConvKernelOf<Family::conv_bwd_data> {
  template <class... T>
  using type = ck::GroupedConvolutionBackwardDataKernel<T...>;
};
template <>
struct ConvKernelOf<Family::conv_bwd_weight> {
  template <class... T>
  using type = ck::GroupedConvolutionBackwardWeightKernel<T...>;
};

template <ConvUnit Key>
struct Kernel<Key> {
  static constexpr const ConvKey& key = Key::key;
  using Loop = MainLoop<Key>;
  static constexpr int block_size = block_size_of(key);

  template <bool HotLoop, TailNumber Tail, bool Atomic>
  using Ck = typename ConvKernelOf<key.family>::template type<
      typename Loop::Conv, typename Loop::Partitioner,
      WithTail<typename Loop::Pipe, HotLoop, Tail, /*Preshuffle=*/false>,
      typename EpilogueOf<Key, Atomic>::type>;

  template <Family, class Traits, class Partitioner>
  struct ArgsOf;
  template <class Traits, class Partitioner>
  struct ArgsOf<Family::conv_fwd, Traits, Partitioner> {
    using type = ck::GroupedConvFwdKernelArgs<Traits, ck::element_wise::PassThrough>;
  };
  template <class Traits, class Partitioner>
  struct ArgsOf<Family::conv_bwd_data, Traits, Partitioner> {
    using type = ck::GroupedConvBwdDataKernelArgs<Traits, Partitioner>;
  };
  template <class Traits, class Partitioner>
  struct ArgsOf<Family::conv_bwd_weight, Traits, Partitioner> {
    using type = ck::GroupedConvBwdWeightKernelArgs<Traits>;
  };
  using CkArgs = typename ArgsOf<key.family, typename Loop::Conv, typename Loop::Partitioner>::type;

  struct Args {
    CkArgs ck;
  };

  template <class Ck>
  static constexpr void check() {}

  static void emit_more() {
    if constexpr (key.two_stage) {
      const void* const kernel = reinterpret_cast<const void*>(&ckdisp_convert<Key>);
      (void)kernel;
    }
  }
};

}  // namespace ckdisp::tile
