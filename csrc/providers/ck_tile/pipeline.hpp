// The block tile of a key, and what its main loop is made of.
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

// The tile of one block.
template <class Key>
struct BlockTile : ArchGuard<Key> {
  static constexpr auto& key = Key::key;
  static_assert(key.num_wave_groups == (key.pipeline == Pipeline::compv5 ? 2 : 1),
                "compv5 has two wave groups, other pipelines have one");

  using Shape = ck::TileGemmShape<ck::sequence<key.tile[0], key.tile[1], key.tile[2]>,
                                  ck::sequence<key.wave[0], key.wave[1], key.wave[2]>,
                                  ck::sequence<key.warp[0], key.warp[1], key.warp[2]>>;
  // The order in which CK's examples walk over the tiles of C.
  using Partitioner = ck::GemmSpatiallyLocalTilePartitioner<Shape, 8, 4>;
};

// CK's pipeline for a problem.
template <Pipeline pipeline, class Problem>
struct CkPipeline {
  static_assert(has_tails<Problem>,
                "these CK Tile headers choose loop tails inside the kernel, which the ck_tile "
                "provider does not support; use headers from before that change");
  using type = typename PipelineOf<pipeline>::template type<Problem>;
};

// The types, layouts and main loop of a key; each op has its own.
template <class Key>
struct MainLoop;

}  // namespace ckdisp::tile
