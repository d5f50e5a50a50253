// The implicit GEMM of a grouped convolution key.
#pragma once

#include "../pipeline.hpp"

namespace ckdisp::tile {

template <ConvLayout>
struct ConvLayoutOf;
template <>
struct ConvLayoutOf<ConvLayout::nwgc> {
  static constexpr int rank = 1;
  using In = ck::tensor_layout::convolution::NWGC;
  using Wei = ck::tensor_layout::convolution::GKXC;
  using Out = ck::tensor_layout::convolution::NWGK;
};
template <>
struct ConvLayoutOf<ConvLayout::nhwgc> {
  static constexpr int rank = 2;
  using In = ck::tensor_layout::convolution::NHWGC;
  using Wei = ck::tensor_layout::convolution::GKYXC;
  using Out = ck::tensor_layout::convolution::NHWGK;
};
template <>
struct ConvLayoutOf<ConvLayout::ndhwgc> {
  static constexpr int rank = 3;
  using In = ck::tensor_layout::convolution::NDHWGC;
  using Wei = ck::tensor_layout::convolution::GKZYXC;
  using Out = ck::tensor_layout::convolution::NDHWGK;
};

constexpr ck::ConvolutionSpecialization specialization_of(ConvSpecialization specialization) {
  switch (specialization) {
    case ConvSpecialization::filter1x1_pad0:
      return ck::ConvolutionSpecialization::Filter1x1Pad0;
    case ConvSpecialization::filter1x1_stride1_pad0:
      return ck::ConvolutionSpecialization::Filter1x1Stride1Pad0;
    case ConvSpecialization::filter3x3:
      return ck::ConvolutionSpecialization::Filter3x3;
    default:
      return ck::ConvolutionSpecialization::Default;
  }
}

template <ConvUnit Key>
struct MainLoop<Key> : BlockTile<Key> {
  using Tile = BlockTile<Key>;
  static constexpr const ConvKey& key = Key::key;
  static constexpr bool is_fwd = key.family == Family::conv_fwd;
  static constexpr bool is_bwd_data = key.family == Family::conv_bwd_data;
  static constexpr bool is_bwd_weight = key.family == Family::conv_bwd_weight;

  static_assert(key.double_buffer == has_two_buffers(key.pipeline),
                "the pipeline decides whether there are two tiles in LDS");
  // CK's kernel of the data gradient does not compile with two of them.
  static_assert(!(is_bwd_data && key.double_buffer), "conv.bwd_data takes one tile in LDS");
  static_assert(is_bwd_weight || !key.split_k, "only conv.bwd_weight splits its sums");
  static_assert(is_bwd_weight || !key.two_stage, "only conv.bwd_weight has two stages");
  static_assert(!is_bwd_data || key.groups_to_merge == 1, "conv.bwd_data does not merge groups");
  static_assert(is_fwd || !key.split_image, "only conv.fwd splits images");
  static_assert(!key.explicit_gemm, "these CK Tile headers have no explicit GEMM");
  static_assert(key.num_wave_groups == 1 || key.wave[0] * key.wave[1] == 1,
                "compv5 takes 1x1x2 waves");

  using In = Element<key.dtype_in>;
  using Wei = Element<key.dtype_wei>;
  using Out = Element<key.dtype_out>;
  using A = std::conditional_t<is_fwd, In, Out>;
  using B = std::conditional_t<is_bwd_weight, In, Wei>;
  using Acc = Element<key.dtype_acc>;

  // CK's kernel of the weight gradient takes the output of one dimension for its transpose. In two,
  // one of them of one pixel, the tensors are the same.
  static constexpr bool is_flat = is_bwd_weight && key.layout == ConvLayout::nwgc;
  using Layout = ConvLayoutOf<is_flat ? ConvLayout::nhwgc : key.layout>;
  struct Conv : ck::GroupedConvTraits<Layout::rank, specialization_of(key.specialization),
                                      typename Layout::In, typename Layout::Wei, ck::tuple<>,
                                      typename Layout::Out, key.vector[0], key.vector[1],
                                      key.vector[2], key.groups_to_merge> {
    // What the check of specialized gradients calls it.
    static constexpr index_t NDimSpatial_ = Layout::rank;
  };
  using ALayout = MajorOf<!is_bwd_weight>;
  using BLayout = MajorOf<!is_fwd>;
  using CLayout = RowMajor;

  using Traits = ck::TileGemmUniversalTraits</*kPadM=*/true, /*kPadN=*/true, /*kPadK=*/true,
                                             key.double_buffer, ALayout, BLayout, CLayout,
                                             /*TransposeC=*/false, /*UseStructuredSparsity=*/false,
                                             /*UsePersistentKernel=*/false, key.num_wave_groups>;
  using Problem = ck::UniversalGemmPipelineProblem<
      A, B, Acc, typename Tile::Shape, Traits, scheduler_of(key.scheduler), /*HasHotLoop=*/true,
      TailNumber::Full, ck::element_wise::PassThrough, ck::element_wise::PassThrough,
      /*ComputeDataType=*/A, /*FixedVectorSize=*/true, key.vector[0], key.vector[1]>;
  using Pipe = typename CkPipeline<key.pipeline, Problem>::type;
};

}  // namespace ckdisp::tile
