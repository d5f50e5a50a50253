// Types of CUTLASS by the enumerations of a key, for both passes.
#pragma once

#include <ckdisp/abi.hpp>

#include <cutlass/cutlass.h>
#include <cutlass/gemm/gemm.h>
#include <cutlass/numeric_types.h>

#include <type_traits>

namespace ckdisp::sm90 {

template <Dtype>
struct ElementOf;
template <>
struct ElementOf<Dtype::fp32> {
  using type = float;
};
template <>
struct ElementOf<Dtype::fp16> {
  using type = ::cutlass::half_t;
};
template <>
struct ElementOf<Dtype::bf16> {
  using type = ::cutlass::bfloat16_t;
};
template <>
struct ElementOf<Dtype::fp8> {
  using type = ::cutlass::float_e4m3_t;
};
template <>
struct ElementOf<Dtype::bf8> {
  using type = ::cutlass::float_e5m2_t;
};
template <Dtype dtype>
using Element = typename ElementOf<dtype>::type;

using Row = ::cutlass::layout::RowMajor;
using Column = ::cutlass::layout::ColumnMajor;

constexpr bool a_is_row(Layout layout) { return layout == Layout::rcr || layout == Layout::rrr; }
constexpr bool b_is_row(Layout layout) { return layout == Layout::rrr || layout == Layout::crr; }

// Bytes that a TMA access is aligned to.
inline constexpr int kTmaBytes = 16;

template <class Key>
struct TmaKernel;
template <class Key>
struct UnalignedKernel;

template <class Key>
inline constexpr bool uses_tma = Key::key.pipeline != Pipeline::unaligned;

// The kernel of a key. It has
//   Params                       what a launch passes
//   threads, shared_bytes        of a block
//   blocks_per_cluster
//   run(params, shared memory)   on the device
// Two templates and not two specialisations of one: nvcc takes their members for the same.
template <class Key>
using Kernel = std::conditional_t<uses_tma<Key>, TmaKernel<Key>, UnalignedKernel<Key>>;

}  // namespace ckdisp::sm90
