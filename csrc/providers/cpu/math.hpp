// Vector functions of the fused element-wise operations, a few units in the last place exact. NaN
// goes through. Polynomials are minimax fits made for these ranges.
#pragma once

#include "simd.hpp"

namespace ckdisp::cpu {
namespace {

template <class F, int N>
CKDISP_CPU_INLINE F polynomial(F x, const float (&c)[N]) {
  F y = splat<F>(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) y = y * x + c[i];
  return y;
}

template <class S>
CKDISP_CPU_INLINE typename S::F exponential(typename S::F x) {
  using F = typename S::F;
  using I = typename S::I;
  x = x < -104.0f ? splat<F>(-104.0f) : x;  // below: rounds to zero
  x = x > 89.0f ? splat<F>(89.0f) : x;      // above: overflows to infinity
  const F to_nearest = splat<F>(12582912.0f);
  const F n = (x * 1.44269504f + to_nearest) - to_nearest;
  // ln 2 in two parts; the product with the first is exact.
  const F r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  const float c[] = {1.0f,        1.0f,          0.49999993f,  0.16666520f,
                     0.04166839f, 0.0083687804f, 0.0013814467f};
  // 2^n as two factors, each in range even where the result is subnormal or infinite.
  const I e = __builtin_convertvector(n == n ? n : F{}, I);
  const I half = e >> 1;
  const F low = bits<F>((half + 127) << 23);
  const F high = bits<F>((e - half + 127) << 23);
  return polynomial(r, c) * low * high;
}

template <class S>
CKDISP_CPU_INLINE typename S::F logistic(typename S::F x) {
  return 1.0f / (1.0f + exponential<S>(-x));
}

template <class S>
CKDISP_CPU_INLINE typename S::F hyperbolic_tangent(typename S::F x) {
  using F = typename S::F;
  using U = typename S::U;
  const U sign = bits<U>(x) & 0x80000000u;
  const F size = bits<F>(bits<U>(x) & 0x7fffffffu);
  const F square = x * x;
  const float c[] = {-0.33333260f, 0.13330830f, -0.053688023f, 0.020469420f, -0.0055151644f};
  const F small = x + x * square * polynomial(square, c);
  const F large = 1.0f - 2.0f / (exponential<S>(size + size) + 1.0f);
  return size < 0.625f ? small : bits<F>(bits<U>(large) | sign);
}

// Probability that a standard normal variable is below x: (1 + erf(x / sqrt 2)) / 2. Through
// erfc(t) = exp(-t^2) * p(1 / (1 + t / 2)), without cancellation for negative x.
template <class S>
CKDISP_CPU_INLINE typename S::F normal_cdf(typename S::F x) {
  using F = typename S::F;
  using U = typename S::U;
  const F t = bits<F>(bits<U>(x) & 0x7fffffffu) * 0.70710678f;
  const float c[] = {0.28208502f, 0.28239979f,  0.24292558f, 0.20339172f,  -0.028290638f,
                     0.28048221f, -0.48930897f, 0.28559254f, -0.059277313f};
  const F u = 2.0f / (2.0f + t);
  const F tail = 0.5f * (u * polynomial(u, c)) * exponential<S>(x * x * -0.5f);
  return x > 0.0f ? 1.0f - tail : tail;
}

}  // namespace
}  // namespace ckdisp::cpu
