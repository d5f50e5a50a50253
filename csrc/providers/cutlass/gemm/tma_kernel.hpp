// The kernels that load by TMA, made by CUTLASS's builders.
#pragma once

#include "../types.hpp"

#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/operations.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/gemm/kernel/tile_scheduler.hpp>

namespace ckdisp::sm90 {

template <class Key>
struct TmaKernel {
  static constexpr GemmKey key = Key::key;
  static_assert(key.provider == Provider::cutlass && key.arch == Arch::sm_90a);

  // C's transpose is computed, from B's times A's: few rows of C then are few columns of the
  // instruction, whose rows are 64.
  static constexpr bool exchanged = key.epilogue == Epilogue::tma_transposed;
  static constexpr int first = exchanged ? 1 : 0, second = 1 - first;
  static constexpr bool rows_a = exchanged ? !b_is_row(key.layout) : a_is_row(key.layout);
  static constexpr bool rows_b = exchanged ? !a_is_row(key.layout) : b_is_row(key.layout);

  using A = Element<exchanged ? key.dtype_b : key.dtype_a>;
  using B = Element<exchanged ? key.dtype_a : key.dtype_b>;
  using C = Element<key.dtype_c>;
  using LayoutA = std::conditional_t<rows_a, Row, Column>;
  using LayoutB = std::conditional_t<rows_b, Row, Column>;
  using LayoutC = std::conditional_t<exchanged, Column, Row>;
  using Tile =
      cute::Shape<cute::Int<key.tile[first]>, cute::Int<key.tile[second]>, cute::Int<key.tile[2]>>;
  using Cluster = cute::Shape<cute::Int<key.wave[first]>, cute::Int<key.wave[second]>, cute::_1>;

  static constexpr bool cooperates =
      key.pipeline == Pipeline::cooperative || key.pipeline == Pipeline::cooperative_fast;
  static constexpr bool is_fast =
      key.pipeline == Pipeline::cooperative_fast || key.pipeline == Pipeline::pingpong_fast;
  using Schedule = std::conditional_t<
      cooperates,
      std::conditional_t<is_fast, ::cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8FastAccum,
                         ::cutlass::gemm::KernelTmaWarpSpecializedCooperative>,
      std::conditional_t<is_fast, ::cutlass::gemm::KernelTmaWarpSpecializedPingpongFP8FastAccum,
                         ::cutlass::gemm::KernelTmaWarpSpecializedPingpong>>;
  using EpilogueSchedule =
      std::conditional_t<cooperates, ::cutlass::epilogue::TmaWarpSpecializedCooperative,
                         ::cutlass::epilogue::TmaWarpSpecialized>;

  static constexpr int align_c = kTmaBytes / sizeof(C);
  using Store = typename ::cutlass::epilogue::collective::CollectiveBuilder<
      ::cutlass::arch::Sm90, ::cutlass::arch::OpClassTensorOp, Tile, Cluster,
      ::cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, LayoutC, align_c, C,
      LayoutC, align_c, EpilogueSchedule,
      ::cutlass::epilogue::fusion::LinearCombination<C, float, void, float>>::CollectiveOp;
  using Main = typename ::cutlass::gemm::collective::CollectiveBuilder<
      ::cutlass::arch::Sm90, ::cutlass::arch::OpClassTensorOp, A, LayoutA, kTmaBytes / sizeof(A), B,
      LayoutB, kTmaBytes / sizeof(B), float, Tile, Cluster,
      ::cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename Store::SharedStorage))>,
      Schedule>::CollectiveOp;
  using Gemm = ::cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Main, Store,
                                                      ::cutlass::gemm::PersistentScheduler>;
  using Params = typename Gemm::Params;
  static constexpr int threads = Gemm::MaxThreadsPerBlock;
  static constexpr int shared_bytes = Gemm::SharedStorageSize;
  static constexpr int blocks_per_cluster = key.wave[0] * key.wave[1];

#if defined(__CUDACC__)
  __device__ static void run(const Params& params, char* shared) { Gemm{}(params, shared); }
#endif
};

}  // namespace ckdisp::sm90
