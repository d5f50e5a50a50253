// The block tile, its traits and the main loop of a key.
#pragma once

#include "arch.hpp"
#include "types.hpp"

namespace ckdisp::tile {

template <Pipeline>
struct PipelineOf;
template <>
struct PipelineOf<Pipeline::mem> {
  template <class Problem>
  using type = ck::GemmPipelineAgBgCrMem<Problem>;
};
template <>
struct PipelineOf<Pipeline::compv3> {
  template <class Problem>
  using type = ck::GemmPipelineAgBgCrCompV3<Problem>;
};
template <>
struct PipelineOf<Pipeline::compv4> {
  template <class Problem>
  using type = ck::GemmPipelineAgBgCrCompV4<Problem>;
};
template <>
struct PipelineOf<Pipeline::compv5> {
  template <class Problem>
  using type = ck::GemmPipelineAgBgCrCompV5<Problem>;
};
template <>
struct PipelineOf<Pipeline::compv6> {
  template <class Problem>
  using type = ck::GemmPipelineAgBgCrCompV6<Problem>;
};
#if __has_include("ck_tile/ops/gemm/pipeline/gemm_pipeline_ag_bg_cr_comp_async.hpp")
template <>
struct PipelineOf<Pipeline::compasync> {
  template <class Problem>
  using type = ck::GemmPipelineAgBgCrCompAsync<Problem>;
};
#endif
template <>
struct PipelineOf<Pipeline::preshufflev2> {
  template <class Problem>
  using type = ck::WeightPreshufflePipelineAGmemBGmemCRegV2<Problem>;
};

constexpr ck::GemmPipelineScheduler scheduler_of(Scheduler scheduler) {
  switch (scheduler) {
    case Scheduler::intrawave:
      return ck::GemmPipelineScheduler::Intrawave;
    case Scheduler::interwave:
      return ck::GemmPipelineScheduler::Interwave;
    default:
      return ck::GemmPipelineScheduler::Default;
  }
}

// Pipelines that use two LDS buffers in turn.
constexpr bool has_two_buffers(Pipeline pipeline) {
  return pipeline == Pipeline::compv4 || pipeline == Pipeline::compasync ||
         pipeline == Pipeline::preshufflev2;
}

template <class Key>
struct MainLoop : ArchGuard<Key> {
  static constexpr const GemmKey& key = Key::key;
  static constexpr bool is_preshuffle = key.family == Family::gemm_preshuffle;

  static_assert(is_preshuffle == (key.pipeline == Pipeline::preshufflev2),
                "preshufflev2 belongs to gemm.preshuffle");
  static_assert(!is_preshuffle || key.layout == Layout::rcr, "gemm.preshuffle has layout rcr");
  static_assert(!is_preshuffle || !key.split_k, "the shuffled B has no parts of K in one piece");
  static_assert(key.num_wave_groups == (key.pipeline == Pipeline::compv5 ? 2 : 1),
                "compv5 has two wave groups, other pipelines have one");
  // CK's kernel stores C from the first wave of a block with two wave groups, and a persistent
  // one from all of them.
  static_assert(key.num_wave_groups == 1 || (key.wave[0] * key.wave[1] == 1 && !key.persistent),
                "compv5 takes 1x1x2 waves and is not persistent");

  using A = Element<key.dtype_a>;
  using B = Element<key.dtype_b>;
  using Acc = Element<key.dtype_acc>;
  using ALayout = MajorOf<a_is_row_major(key.layout)>;
  using BLayout = MajorOf<b_is_row_major(key.layout)>;
  using CLayout = RowMajor;

  using Shape = ck::TileGemmShape<ck::sequence<key.tile[0], key.tile[1], key.tile[2]>,
                                  ck::sequence<key.wave[0], key.wave[1], key.wave[2]>,
                                  ck::sequence<key.warp[0], key.warp[1], key.warp[2]>>;
  // The order in which CK's GEMM examples walk over the tiles of C.
  using Partitioner = ck::GemmSpatiallyLocalTilePartitioner<Shape, 8, 4>;
  using Traits =
      ck::TileGemmUniversalTraits<key.pad_m, key.pad_n, key.pad_k, has_two_buffers(key.pipeline),
                                  ALayout, BLayout, CLayout,
                                  /*TransposeC=*/false, /*UseStructuredSparsity=*/false,
                                  key.persistent, key.num_wave_groups, is_preshuffle>;
  using Problem =
      ck::UniversalGemmPipelineProblem<A, B, Acc, Shape, Traits, scheduler_of(key.scheduler)>;
  static_assert(has_tails<Problem>,
                "these CK Tile headers choose loop tails inside the kernel, which the ck_tile "
                "provider does not support; use headers from before that change");
  using Pipe = typename PipelineOf<key.pipeline>::template type<Problem>;
};

}  // namespace ckdisp::tile
