// A convolution as CK takes it: its host arguments, the arguments of its kernel, the launches.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "../../host/parts.hpp"
#include "../kernel.hpp"

namespace ckdisp::tile {

// Sizes that follow from a problem.
struct ConvSizes {
  std::int64_t taps, in_pixels, out_pixels;
  std::int64_t in_image, out_image;  // elements of one image, of all groups
  std::int64_t wei;                  // elements of the weights of all groups

  explicit ConvSizes(const ConvProblemData& p)
      : taps(product(p.filter)),
        in_pixels(product(p.in)),
        out_pixels(product(p.out)),
        in_image(in_pixels * p.g * p.c),
        out_image(out_pixels * p.g * p.k),
        wei(p.g * p.k * p.c * taps) {}

  static std::int64_t product(const std::int64_t (&sizes)[kMaxSpatial]) {
    return sizes[0] * sizes[1] * sizes[2];
  }
};

template <class Key>
struct ConvArguments {
  static constexpr const ConvKey& key = Key::key;
  using Loop = MainLoop<Key>;
  static constexpr Variant first = Variants<Key>::at(0);
  using Ck = typename Kernel<Key>::template Ck<first.hot_loop, first.tail, false>;
  using CkArgs = typename Kernel<Key>::CkArgs;
  using Long = ck::long_index_t;

  // CK's arguments. `images` of the problem are what one layer of the grid works on: they divide
  // the images of the problem, and CK may take fewer of them.
  static CkArgs make(const ConvProblemData& p, std::int64_t images, const ConvArgs& data) {
    CkArgs args = Ck::MakeKernelArgs(host_arguments(p, images, data));
    if constexpr (!Loop::is_bwd_weight) {
      args.original_n = static_cast<index_t>(p.n);
      args.n_splits = static_cast<index_t>(p.n / args.n_per_split);
    }
    if constexpr (Loop::is_fwd && key.groups_to_merge > 1) {
      // CK's descriptors merge groups, and its arguments do not know.
      constexpr index_t merged = key.groups_to_merge;
      args.GemmBatch /= merged;
      args.GemmM *= merged;
      args.GemmN *= merged;
      args.group_stride_a *= merged;
      args.group_stride_b *= merged;
      args.group_stride_c *= merged;
    }
    return args;
  }

 private:
  static auto host_arguments(const ConvProblemData& p, std::int64_t images, const ConvArgs& data) {
    const ck::conv::ConvParam param(Long{Loop::Layout::rank}, Long{p.g}, Long{images}, Long{p.k},
                                    Long{p.c}, used(p.filter), used(p.in), used(p.stride),
                                    used(p.dilation), used(p.left_pad), used(p.right_pad));
    const std::vector<const void*> no_d;
    if constexpr (Loop::is_fwd) {
      ck::GroupedConvFwdHostArgs<> args(param, data.in, data.wei, no_d, data.result, 1);
      // CK multiplies three sizes, whatever the rank.
      args.input_spatial_lengths_.resize(kMaxSpatial, 1);
      args.output_spatial_lengths_.resize(kMaxSpatial, 1);
      return args;
    } else if constexpr (Loop::is_bwd_data) {
      return ck::GroupedConvBwdDataHostArgs(param, data.result, data.wei, no_d, data.out, 1);
    } else {
      return ck::GroupedConvBwdWeightHostArgs(param, data.in, data.result, no_d, data.out,
                                              p.k_batch);
    }
  }

  static std::vector<Long> used(const std::int64_t (&sizes)[kMaxSpatial]) {
    return {sizes + kMaxSpatial - Loop::Layout::rank, sizes + kMaxSpatial};
  }
};

// The launches of one call: one, but for a data gradient. That has a GEMM for each residue of the
// input's pixels modulo the stride, each with a K of its own, and those of one loop tail share a
// launch.
template <class Key>
struct ConvLaunches {
  static constexpr const ConvKey& key = Key::key;
  using Loop = MainLoop<Key>;
  using CkArgs = typename Kernel<Key>::CkArgs;
  static constexpr index_t tile_k = key.tile[2];

  // Calls use(arguments, variant) for each launch until one returns false.
  template <class Use>
  static bool each(const CkArgs& args, const Use& use) {
    if constexpr (Loop::is_fwd) {
      return use(args, variant(args.GemmK));
    } else if constexpr (Loop::is_bwd_weight) {
      return use(
          args, Variants<Key>::for_loops(ck::integer_divide_ceil(args.GemmK, args.k_batch * tile_k),
                                         args.k_batch > 1));
    } else {
      return each_tail(args, use);
    }
  }

 private:
  static Variant variant(index_t k) {
    return Variants<Key>::for_loops(ck::integer_divide_ceil(k, tile_k), false);
  }

  template <class Use>
  static bool each_tail(const CkArgs& args, const Use& use) {
    const auto variant_of = [&](index_t gemm) {
      return variant(args.a_grid_descs_m_k[gemm].get_length(ck::number<1>{}));
    };
    std::array<bool, CkArgs::MaxGroupedGemmGroupsNum> done{};
    for (index_t i = 0; i < args.gemm_count; ++i) {
      if (done[static_cast<std::size_t>(i)]) continue;
      const Variant wanted = variant_of(i);
      CkArgs some = args;
      some.gemm_count = some.grid_size_ = 0;
      for (index_t j = i; j < args.gemm_count; ++j) {
        if (!(variant_of(j) == wanted)) continue;
        done[static_cast<std::size_t>(j)] = true;
        append(some, args, j);
      }
      if (some.grid_size_ > 0 && !use(some, wanted)) return false;
    }
    return true;
  }

  static void append(CkArgs& to, const CkArgs& from, index_t gemm) {
    // The search that a block makes for its GEMM does not end at one without blocks.
    if (from.block_ends[gemm] == from.block_starts[gemm]) return;
    const index_t at = to.gemm_count++;
    to.a_grid_descs_m_k[at] = from.a_grid_descs_m_k[gemm];
    to.b_grid_descs_n_k[at] = from.b_grid_descs_n_k[gemm];
    to.c_grid_descs_m_n[at] = from.c_grid_descs_m_n[gemm];
    to.block_starts[at] = to.grid_size_;
    to.grid_size_ += from.block_ends[gemm] - from.block_starts[gemm];
    to.block_ends[at] = to.grid_size_;
  }
};

}  // namespace ckdisp::tile
