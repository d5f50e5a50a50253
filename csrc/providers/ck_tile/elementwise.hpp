// The fused element-wise operations: C = f(product, D...), as functors for CK's epilogues.
//
// Sums and products of D, then the activation, in fp32; integers stay integers where the operation
// is exact in them. Results round to nearest and saturate.
#pragma once

#include "types.hpp"

namespace ckdisp::tile {

// What our kernels take beside CK's kernel arguments, behind them in the same struct.
struct ClampBounds {
  float low, high;
};

// Bounds at byte `Offset` of the arguments of the running kernel. CK's epilogues construct their
// functors themselves and have no place for run-time values.
template <std::size_t Offset>
CK_TILE_DEVICE ClampBounds clamp_bounds() {
#if defined(__HIP_DEVICE_COMPILE__)
  using Constant = const __attribute__((address_space(4))) char;
  using Bound = const __attribute__((address_space(4))) float;
  Constant* const arguments = (Constant*)__builtin_amdgcn_kernarg_segment_ptr();
  return {*(Bound*)(arguments + Offset), *(Bound*)(arguments + Offset + sizeof(float))};
#else
  return {};
#endif
}

template <class T>
inline constexpr bool is_integer = std::is_integral_v<T>;

// x as an element of C. CK's conversions to integers truncate and wrap.
template <class To, class From>
CK_TILE_DEVICE To convert_to(From x) {
  if constexpr (is_integer<To> && is_integer<From>) {
    constexpr From low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    return static_cast<To>(x < low ? low : x > high ? high : x);
  } else if constexpr (is_integer<To>) {
    // The largest float below 2^31: the next one does not fit.
    constexpr float low = static_cast<float>(std::numeric_limits<To>::min());
    constexpr float high =
        sizeof(To) == 1 ? static_cast<float>(std::numeric_limits<To>::max()) : 2147483520.0f;
    const float y = __builtin_rintf(ck::type_convert<float>(x));
    return static_cast<To>(y < low ? low : y > high ? high : y == y ? y : 0.0f);
  } else {
    return ck::type_convert<To>(ck::type_convert<float>(x));
  }
}

CK_TILE_DEVICE float logistic(float x) { return __builtin_amdgcn_rcpf(1.0f + __expf(-x)); }

template <Elementwise op>
inline constexpr bool is_product =
    op == Elementwise::multiply || op == Elementwise::multi_d_multiply;

// The activation alone; clamp is in Fused, since it needs the kernel arguments.
template <Elementwise op>
CK_TILE_DEVICE float activate(float x) {
  if constexpr (op == Elementwise::relu) {
    return x < 0.0f ? 0.0f : x;
  } else if constexpr (op == Elementwise::gelu) {
    return 0.5f * x * (1.0f + ::erff(x * 0.70710678f));
  } else if constexpr (op == Elementwise::fast_gelu) {
    // tanh form: x * logistic of twice the argument of tanh.
    return x * logistic(x * (1.5957691216f + 0.0713548162726f * x * x));
  } else if constexpr (op == Elementwise::sigmoid) {
    return logistic(x);
  } else if constexpr (op == Elementwise::tanh) {
    return ::tanhf(x);
  } else if constexpr (op == Elementwise::swish) {
    return x * logistic(x);
  } else if constexpr (op == Elementwise::hard_swish) {
    const float gate = x + 3.0f;
    return x * (gate < 0.0f ? 0.0f : gate > 6.0f ? 6.0f : gate) * (1.0f / 6.0f);
  } else {
    return x;
  }
}

// e = f(c, d...). `Offset`: where the kernel's arguments hold the bounds of clamp.
template <Elementwise op, std::size_t Offset>
struct Fused {
  static constexpr bool stays_integer =
      op == Elementwise::add || op == Elementwise::multiply || op == Elementwise::multi_d_add ||
      op == Elementwise::multi_d_multiply || op == Elementwise::relu;

  template <class E, class C, class... Ds>
  CK_TILE_DEVICE void operator()(E& e, const C& c, const Ds&... ds) const {
    if constexpr (stays_integer && is_integer<C> && (is_integer<Ds> && ...)) {
      unsigned x = static_cast<unsigned>(static_cast<int>(c));
      if constexpr (is_product<op>) {
        ((x *= static_cast<unsigned>(static_cast<int>(ds))), ...);
      } else {
        ((x += static_cast<unsigned>(static_cast<int>(ds))), ...);
      }
      int y = static_cast<int>(x);
      if constexpr (op == Elementwise::relu) y = y < 0 ? 0 : y;
      e = convert_to<E>(y);
    } else {
      float x = ck::type_convert<float>(c);
      if constexpr (is_product<op>) {
        ((x *= ck::type_convert<float>(ds)), ...);
      } else {
        ((x += ck::type_convert<float>(ds)), ...);
      }
      if constexpr (op == Elementwise::clamp) {
        const ClampBounds bounds = clamp_bounds<Offset>();
        x = x < bounds.low ? bounds.low : x;
        x = x > bounds.high ? bounds.high : x;
      }
      e = convert_to<E>(activate<op>(x));
    }
  }
};

template <Elementwise op, int num_d, std::size_t Offset>
using ElementwiseOf = std::conditional_t<op == Elementwise::passthrough,
                                         ck::element_wise::PassThrough, Fused<op, Offset>>;

}  // namespace ckdisp::tile
