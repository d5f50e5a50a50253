// Element types of an attention key.
#pragma once

#include "../types.hpp"

namespace ckdisp::tile {

// Q, K, V and P; O; the bias, which has the type of Q but for bytes. Sums, the softmax and its
// logarithm are fp32.
template <class In_, class Out_, class Bias_>
struct FmhaElements {
  using In = In_;
  using Out = Out_;
  using Bias = Bias_;
  using RandVal = std::uint8_t;
};

template <FmhaDtype>
struct FmhaTypesOf;
template <>
struct FmhaTypesOf<FmhaDtype::fp32> : FmhaElements<float, float, float> {};
template <>
struct FmhaTypesOf<FmhaDtype::fp16> : FmhaElements<ck::half_t, ck::half_t, ck::half_t> {};
template <>
struct FmhaTypesOf<FmhaDtype::bf16> : FmhaElements<ck::bf16_t, ck::bf16_t, ck::bf16_t> {};
template <>
struct FmhaTypesOf<FmhaDtype::fp8> : FmhaElements<ck::fp8_t, ck::fp8_t, float> {};
template <>
struct FmhaTypesOf<FmhaDtype::bf8> : FmhaElements<ck::bf8_t, ck::bf8_t, float> {};
template <>
struct FmhaTypesOf<FmhaDtype::fp8fp16> : FmhaElements<ck::fp8_t, ck::half_t, float> {};
template <>
struct FmhaTypesOf<FmhaDtype::fp8bf16> : FmhaElements<ck::fp8_t, ck::bf16_t, float> {};
template <>
struct FmhaTypesOf<FmhaDtype::fp8fp32> : FmhaElements<ck::fp8_t, float, float> {};

}  // namespace ckdisp::tile
