// What an attention key means on a CPU: types, vectors, register tile and cache blocks. Of a key's
// tile, sq is the number of rows of Q, of all heads that share a head of K, which go over the keys
// together, and sk that of the keys packed at a time.
#pragma once

#include <ckdisp/fmha_abi.hpp>

#include "../math.hpp"
#include "../traits.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct FmhaTraits {
  static constexpr const FmhaKey& key = Kernel::key;
  static constexpr int bytes = facts(key.arch).vector_bytes;
  using S = Simd<bytes>;
  using F = typename S::F;
  static constexpr int lanes = S::lanes;

  static constexpr Dtype in = input_type(key.dtype);
  static constexpr Dtype out = output_type(key.dtype);
  static constexpr Dtype bias = size_of(in) == 1 ? Dtype::fp32 : in;
  static constexpr int size_in = size_of(in);
  static constexpr int size_out = size_of(out);
  // Whether results are good for three digits at most.
  static constexpr bool rough = out != Dtype::fp32 && out != Dtype::fp16;
  static constexpr int size_bias = size_of(bias);

  // Whether tiles of AMX multiply.
  static constexpr bool amx = key.arch == Arch::x86_64_v4_amx && in != Dtype::fp32;

  // The register tile: two vectors wide; the accumulators, a row of B and a number of A must fit.
  // Without fused instructions a product needs a register, too.
  static constexpr int mr =
      key.arch == Arch::generic ? 4 : facts(key.arch).vector_registers / 2 - 2;
  static constexpr int nv = 2;
  static constexpr int nr = nv * lanes;

  // Blocks start at multiples of 16 keys: so many random bytes come at a time.
  static constexpr int sq = static_cast<int>(round_up(key.tile[0], mr));
  static constexpr int sk = static_cast<int>(round_up(key.tile[1], most(nr, 16)));

  static_assert(key.provider == Provider::cpu);
  static_assert(bytes > 0, "not a CPU level");
  static_assert(key.dtype != FmhaDtype::mxfp8 && key.dtype != FmhaDtype::mxfp4,
                "a CPU kernel has no mx types");
};

constexpr float log2_e = 1.44269504f;
constexpr float ln_2 = 0.693147181f;
constexpr float minus_infinity = -__builtin_inff();

// Larger of both, or y if one is NaN.
template <class S>
CKDISP_CPU_INLINE typename S::F larger(typename S::F x, typename S::F y) {
#ifdef __AVX2__
  if constexpr (S::bytes >= 32) {
    typename S::F out;
    __asm__("vmaxps %2, %1, %0" : "=v"(out) : "v"(x), "vm"(y));
    return out;
  }
#endif
  return x > y ? x : y;
}

template <class F>
CKDISP_CPU_INLINE float largest_lane(F x) {
  float out = x[0];
  for (int i = 1; i < static_cast<int>(sizeof(F) / 4); ++i) out = x[i] > out ? x[i] : out;
  return out;
}

template <class F>
CKDISP_CPU_INLINE float sum_of_lanes(F x) {
  float out = 0;
  for (int i = 0; i < static_cast<int>(sizeof(F) / 4); ++i) out += x[i];
  return out;
}

// Whether none of `count` numbers of type D is infinite or NaN.
template <Dtype D, class S>
CKDISP_CPU_INLINE bool all_finite(const void* from, Index count) {
  typename S::F zeros{};
  for (Index i = 0; i < count; i += S::lanes) {
    const auto x = load_as_float<D, S>(at(from, i * size_of(D)), count - i);
    zeros += x - x;
  }
  return sum_of_lanes(zeros) == 0;
}

// Added to a number of at most 22 bits, rounds it to the nearest whole number, which the low bits
// of the sum are.
constexpr float rounding_to_whole = 12582912.0f;
constexpr float largest_whole = 4194304.0f;

// The nearest whole number, if that is one of fewer bits; else x.
CKDISP_CPU_INLINE float whole(float x) {
  const bool small = x > -largest_whole && x < largest_whole;
  return small ? (x + rounding_to_whole) - rounding_to_whole : x;
}

// 2^fraction, for at most 1/2 either way, times 2^exponent, which the low bits of `shifted` are. At
// -127 the sum of exponents is all zeros: 2^0 is 1. A few units in the last place exact, or to 1e-4
// if `Rough`.
template <class S, bool Rough>
CKDISP_CPU_INLINE typename S::F scaled_power(typename S::F fraction, typename S::F shifted) {
  using F = typename S::F;
  using U = typename S::U;
  const float fine[] = {1.0f,          0.693147004f,   0.240222424f,
                        0.0555073358f, 0.00967151299f, 0.00132647273f};
  const float rough[] = {1.0f, 0.693282928f, 0.242210954f, 0.0550089292f};
  F y;
  if constexpr (Rough) {
    y = polynomial(fraction, rough);
  } else {
    y = polynomial(fraction, fine);
  }
  return bits<F>(bits<U>(y) + (bits<U>(shifted) << 23));
}

// 2^x for x <= 126; 0 below -127. NaN goes through.
template <class S, bool Rough = false>
CKDISP_CPU_INLINE typename S::F power_of_2(typename S::F x) {
  using F = typename S::F;
  x = larger<S>(splat<F>(-127.0f), x);
  const F shifted = x + rounding_to_whole;
  return scaled_power<S, Rough>(x - (shifted - rounding_to_whole), shifted);
}

// The same of one number, of any x that is not positive.
template <class S>
CKDISP_CPU_INLINE float power_of_2(float x) {
  return power_of_2<S>(splat<typename S::F>(x))[0];
}

}  // namespace
}  // namespace ckdisp::cpu
