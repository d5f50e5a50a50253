// Element types in memory <-> lanes of float or int32. Rounds to nearest even, keeps NaN and
// infinities; values beyond the range become infinity, or NaN in fp8 e4m3, which has no infinity.
#pragma once

#include "simd.hpp"

namespace ckdisp::cpu {
namespace {

// Not the one of <ckdisp/names.hpp>: functions that kernels share must not leave their unit.
constexpr int size_of(Dtype d) {
  switch (d) {
    case Dtype::fp32:
    case Dtype::int32:
      return 4;
    case Dtype::fp16:
    case Dtype::bf16:
      return 2;
    default:
      return 1;
  }
}

constexpr bool is_integer(Dtype d) { return d == Dtype::int8 || d == Dtype::int32; }

// A binary floating-point format with a sign, `exponent` and `mantissa` bits and IEEE's bias.
// `ieee`: the top exponent holds infinity and NaN; else only all ones is NaN.
template <int Exponent, int Mantissa, bool Ieee>
struct Minifloat {
  static constexpr int bias = (1 << (Exponent - 1)) - 1;
  static constexpr int width = Exponent + Mantissa;  // without the sign
  static constexpr std::uint32_t top = ((1u << Exponent) - 1) << Mantissa;
  static constexpr std::uint32_t nan = Ieee ? top | 1u << (Mantissa - 1) : (1u << width) - 1;
  static constexpr std::uint32_t overflow = Ieee ? top : nan;

  template <class S>
  static CKDISP_CPU_INLINE typename S::F decode(typename S::U x) {
    using F = typename S::F;
    using U = typename S::U;
    const U sign = (x >> width) << 31;
    const U low = x & ((1u << width) - 1);
    U normal = (low << (23 - Mantissa)) + (static_cast<std::uint32_t>(127 - bias) << 23);
    if constexpr (Ieee) {
      constexpr std::uint32_t rest = 255 - ((1 << Exponent) - 1) - (127 - bias);
      normal += bits<U>(low >= top) & (rest << 23);
    } else {
      normal |= bits<U>(low == nan) & 0x7fc00000u;
    }
    const float step = bits<float>(static_cast<std::uint32_t>(128 - bias - Mantissa) << 23);
    const F tiny = __builtin_convertvector(bits<typename S::I>(low), F) * splat<F>(step);
    const U is_tiny = bits<U>(low < (1u << Mantissa));
    return bits<F>((is_tiny & bits<U>(tiny)) | (~is_tiny & normal) | sign);
  }

  template <class S>
  static CKDISP_CPU_INLINE typename S::U encode(typename S::F x) {
    using F = typename S::F;
    using U = typename S::U;
    constexpr int shift = 23 - Mantissa;
    const U all = bits<U>(x);
    const U sign = (all >> 31) << width;
    const U low = all & 0x7fffffffu;
    // Adding half a step, less one on even values, rounds; a carry moves into the exponent.
    U normal = (low + ((1u << (shift - 1)) - 1) + ((low >> shift) & 1u)) >> shift;
    normal -= static_cast<std::uint32_t>(127 - bias) << Mantissa;
    // Below the normal range: the float adder rounds to the format's smallest step.
    const std::uint32_t magic = static_cast<std::uint32_t>(127 + 24 - bias - Mantissa) << 23;
    const U tiny = bits<U>(bits<F>(low) + splat<F>(bits<float>(magic))) - magic;
    const U is_tiny = bits<U>(low < (static_cast<std::uint32_t>(128 - bias) << 23));
    U out = (is_tiny & tiny) | (~is_tiny & normal);
    constexpr std::uint32_t largest = Ieee ? top - 1 : nan - 1;
    const U is_over = bits<U>(out > largest);
    out = (is_over & overflow) | (~is_over & out);
    const U is_nan = bits<U>(low > 0x7f800000u);
    return (is_nan & nan) | (~is_nan & out) | sign;
  }
};

template <Dtype D>
struct FormatOf;
template <>
struct FormatOf<Dtype::fp16> : Minifloat<5, 10, true> {};
template <>
struct FormatOf<Dtype::fp8> : Minifloat<4, 3, false> {};
template <>
struct FormatOf<Dtype::bf8> : Minifloat<5, 2, true> {};

// Lanes of 16 bits get zeros in front. GCC would do it in halves.
template <class S>
CKDISP_CPU_INLINE typename S::U widen_halves(typename S::H x) {
#ifdef __AVX2__
  if constexpr (S::bytes >= 32) {
    typename S::U y;
    __asm__("vpmovzxwd %1, %0" : "=v"(y) : "vm"(x));
    return y;
  }
#endif
  return __builtin_convertvector(x, typename S::U);
}

// The narrow vector that holds one element of type D per lane.
template <Dtype D, class S>
using Raw = std::conditional_t<
    size_of(D) == 2, typename S::H,
    std::conditional_t<size_of(D) == 1,
                       std::conditional_t<D == Dtype::int8, typename S::C, typename S::Q>,
                       std::conditional_t<D == Dtype::int32, typename S::I, typename S::F>>>;

#ifdef __F16C__
template <class S>
inline constexpr bool has_half = S::bytes >= 32;

template <class S>
CKDISP_CPU_INLINE typename S::F half_to_float(typename S::H x) {
  typename S::F y;
  __asm__("vcvtph2ps %1, %0" : "=v"(y) : "vm"(x));
  return y;
}

template <class S>
CKDISP_CPU_INLINE typename S::H float_to_half(typename S::F x) {
  typename S::H y;
  __asm__("vcvtps2ph $0, %1, %0" : "=v"(y) : "v"(x));
  return y;
}
#else
template <class S>
inline constexpr bool has_half = false;
#endif

// Between bytes and lanes through 16 bits: GCC takes a conversion of one step apart into scalars.
template <class S>
CKDISP_CPU_INLINE typename S::U widen(typename S::Q x) {
  return __builtin_convertvector(__builtin_convertvector(x, typename S::H), typename S::U);
}
template <class S>
CKDISP_CPU_INLINE typename S::I widen(typename S::C x) {
  return __builtin_convertvector(__builtin_convertvector(x, typename S::W), typename S::I);
}
template <class S>
CKDISP_CPU_INLINE typename S::Q narrow(typename S::U x) {
  return __builtin_convertvector(__builtin_convertvector(x, typename S::H), typename S::Q);
}
template <class S>
CKDISP_CPU_INLINE typename S::C narrow(typename S::I x) {
  return __builtin_convertvector(__builtin_convertvector(x, typename S::W), typename S::C);
}

template <Dtype D, class S>
CKDISP_CPU_INLINE typename S::F to_float(Raw<D, S> x) {
  using F = typename S::F;
  using U = typename S::U;
  if constexpr (D == Dtype::fp32) {
    return x;
  } else if constexpr (D == Dtype::int8) {
    return __builtin_convertvector(widen<S>(x), F);
  } else if constexpr (D == Dtype::int32) {
    return __builtin_convertvector(x, F);
  } else if constexpr (D == Dtype::bf16) {
    return bits<F>(widen_halves<S>(x) << 16);
#ifdef __F16C__
  } else if constexpr (D == Dtype::fp16 && has_half<S>) {
    return half_to_float<S>(x);
  } else if constexpr (D == Dtype::bf8 && has_half<S>) {
    return half_to_float<S>(__builtin_convertvector(x, typename S::H) << 8);
  } else if constexpr (D == Dtype::fp8 && has_half<S>) {
    // As bits of a half the value is 2^-8 of what it means; 480 would be the NaN.
    using H = typename S::H;
    const H h = __builtin_convertvector(x, H);
    const F y = half_to_float<S>((h & 0x80) << 8 | (h & 0x7f) << 7) * splat<F>(256.0f);
    const U low = bits<U>(y) & 0x7fffffffu;
    return bits<F>(bits<U>(y) | (bits<U>(low == 0x43f00000u) & 0x7fc00000u));
#endif
  } else {
    if constexpr (size_of(D) == 1) {
      return FormatOf<D>::template decode<S>(widen<S>(x));
    } else {
      return FormatOf<D>::template decode<S>(__builtin_convertvector(x, U));
    }
  }
}

// Nearest integers, saturated; NaN gives 0.
template <class S>
CKDISP_CPU_INLINE typename S::I round_to_int(typename S::F x, float low, float high) {
  using F = typename S::F;
  using U = typename S::U;
  const F sign = bits<F>(bits<U>(x) & 0x80000000u);
  const F big = bits<F>(bits<U>(splat<F>(8388608.0f)) | bits<U>(sign));
  const U small = bits<U>(bits<F>(bits<U>(x) & 0x7fffffffu) < 8388608.0f);
  const F rounded = (x + big) - big;
  x = bits<F>((small & bits<U>(rounded)) | (~small & bits<U>(x)));
  x = x == x ? x : F{};
  x = x < low ? splat<F>(low) : x;
  x = x > high ? splat<F>(high) : x;
  return __builtin_convertvector(x, typename S::I);
}

template <Dtype D, class S>
CKDISP_CPU_INLINE Raw<D, S> from_float(typename S::F x) {
  using U = typename S::U;
  if constexpr (D == Dtype::fp32) {
    return x;
  } else if constexpr (D == Dtype::int8) {
    return narrow<S>(round_to_int<S>(x, -128.0f, 127.0f));
  } else if constexpr (D == Dtype::int32) {
    // No float lies between the highest one below 2^31 and 2^31.
    const U over = bits<U>(x >= 2147483648.0f);
    const U whole = bits<U>(round_to_int<S>(x, -2147483648.0f, 2147483520.0f));
    return bits<typename S::I>((over & 0x7fffffffu) | (~over & whole));
  } else if constexpr (D == Dtype::bf16) {
    const U all = bits<U>(x);
    const U rounded = all + 0x7fffu + ((all >> 16) & 1u);
    const U is_nan = bits<U>(x != x);
    return __builtin_convertvector(((is_nan & (all | 0x400000u)) | (~is_nan & rounded)) >> 16,
                                   typename S::H);
#ifdef __F16C__
  } else if constexpr (D == Dtype::fp16 && has_half<S>) {
    return float_to_half<S>(x);
#endif
  } else {
    const U code = FormatOf<D>::template encode<S>(x);
    if constexpr (size_of(D) == 1) {
      return narrow<S>(code);
    } else {
      return __builtin_convertvector(code, typename S::H);
    }
  }
}

// Lanes of int32 from memory type D (int8 or int32) and back, with saturation.
template <Dtype D, class S>
CKDISP_CPU_INLINE typename S::I to_int(Raw<D, S> x) {
  if constexpr (D == Dtype::int8) {
    return widen<S>(x);
  } else {
    return x;
  }
}

template <Dtype D, class S>
CKDISP_CPU_INLINE Raw<D, S> from_int(typename S::I x) {
  using I = typename S::I;
  if constexpr (D == Dtype::int32) {
    return x;
  } else if constexpr (D == Dtype::int8) {
    x = x < -128 ? splat<I>(-128) : x;
    x = x > 127 ? splat<I>(127) : x;
    return narrow<S>(x);
  } else {
    return from_float<D, S>(__builtin_convertvector(x, typename S::F));
  }
}

// The first `count` lanes from memory, zeros behind them.
template <Dtype D, class S>
CKDISP_CPU_INLINE typename S::F load_as_float(const void* from, Index count) {
  return to_float<D, S>(load_partial<Raw<D, S>, size_of(D)>(from, count));
}

}  // namespace
}  // namespace ckdisp::cpu
