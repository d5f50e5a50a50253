// Element types and layouts of a key as CK Tile types.
#pragma once

#include "ck.hpp"

namespace ckdisp::tile {

template <Dtype>
struct ElementOf;
template <>
struct ElementOf<Dtype::fp32> {
  using type = float;
};
template <>
struct ElementOf<Dtype::fp16> {
  using type = ck::half_t;
};
template <>
struct ElementOf<Dtype::bf16> {
  using type = ck::bf16_t;
};
template <>
struct ElementOf<Dtype::fp8> {
  using type = ck::fp8_t;
};
template <>
struct ElementOf<Dtype::bf8> {
  using type = ck::bf8_t;
};
template <>
struct ElementOf<Dtype::int8> {
  using type = ck::int8_t;
};
template <>
struct ElementOf<Dtype::int32> {
  using type = ck::int32_t;
};
template <Dtype D>
using Element = typename ElementOf<D>::type;

using RowMajor = ck::tensor_layout::gemm::RowMajor;
using ColumnMajor = ck::tensor_layout::gemm::ColumnMajor;

constexpr bool a_is_row_major(Layout layout) {
  return layout == Layout::rcr || layout == Layout::rrr;
}
constexpr bool b_is_row_major(Layout layout) {
  return layout == Layout::rrr || layout == Layout::crr;
}

template <bool is_row_major>
using MajorOf = std::conditional_t<is_row_major, RowMajor, ColumnMajor>;

// tuple<T, T, ...> of `count` elements.
template <class T, class Indices>
struct RepeatOf;
template <class T, std::size_t... I>
struct RepeatOf<T, std::index_sequence<I...>> {
  template <std::size_t>
  using Always = T;
  using type = ck::tuple<Always<I>...>;
};
template <class T, int count>
using Repeat = typename RepeatOf<T, std::make_index_sequence<count>>::type;

}  // namespace ckdisp::tile
