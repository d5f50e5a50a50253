/* lane.h - helpers of the generated instruction functions: number formats, rounding, bit operations
 */
#pragma once
#include "emu.h"

static inline float bf32(u32 x) {
  float f;
  memcpy(&f, &x, 4);
  return f;
}
static inline u32 fb32(float f) {
  u32 x;
  memcpy(&x, &f, 4);
  return x;
}
static inline double bf64(u64 x) {
  double f;
  memcpy(&f, &x, 8);
  return f;
}
static inline u64 fb64(double f) {
  u64 x;
  memcpy(&x, &f, 8);
  return x;
}

/* half precision. The compiler's _Float16 converts with one rounding from float and from double. */
static inline float h2f(u16 x) {
  _Float16 h;
  memcpy(&h, &x, 2);
  float f = (float)h;
#if defined(__F16C__)
  __asm__(""
          : "+x"(f)); /* keeps the one-instruction conversion: half to double in one step is a
                         library call */
#endif
  return f;
}
static inline u16 f2h(float f) {
  _Float16 h = (_Float16)f;
  u16 x;
  memcpy(&x, &h, 2);
  return x;
}
static inline float hr(float f) { return (float)(_Float16)f; }
static inline float hfma(float a, float b, float c) {
  return (float)(_Float16)fma((double)a, (double)b, (double)c);
}
static inline float b2f(u16 x) { return bf32((u32)x << 16); }
static inline u16 f2b(float f) {
  u32 u = fb32(f);
  if ((u & 0x7fffffff) > 0x7f800000) return (u16)(u >> 16 | 0x40);
  return (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static inline float br(float f) { return b2f(f2b(f)); }

#define SEXT32(x, n) ((i32)((u32)(x) << (32 - (n))) >> (32 - (n)))
#define SEXT64(x, n) ((i64)((u64)(x) << (64 - (n))) >> (64 - (n)))
#define NZ(x)                \
  ({                         \
    __typeof__(x) nz_ = (x); \
    nz_ ? nz_ : 1;           \
  })
static inline u32 SHL32(u32 a, u32 n) { return n < 32 ? a << n : 0; }
static inline u32 SHR32(u32 a, u32 n) { return n < 32 ? a >> n : 0; }
static inline i32 SAR32(i32 a, u32 n) { return a >> (n < 32 ? n : 31); }
static inline u64 SHL64(u64 a, u32 n) { return n < 64 ? a << n : 0; }
static inline u64 SHR64(u64 a, u32 n) { return n < 64 ? a >> n : 0; }
static inline i64 SAR64(i64 a, u32 n) { return a >> (n < 64 ? n : 63); }
static inline u128 SHL128(u128 a, u32 n) { return n < 128 ? a << n : 0; }
static inline u128 SHR128(u128 a, u32 n) { return n < 128 ? a >> n : 0; }
static inline i128 SAR128(i128 a, u32 n) { return a >> (n < 128 ? n : 127); }
#define SETBIT(m, l, c) (m) = ((m) & ~(1ull << (l))) | ((u64)((c) & 1) << (l))
#define INSERT64(v, lo, n, x)                               \
  do {                                                      \
    u32 lo_ = (lo);                                         \
    u64 m_ = ((n) < 64 ? (1ull << ((n) & 63)) - 1 : ~0ull); \
    (v) = ((v) & ~(m_ << lo_)) | (((u64)(x) & m_) << lo_);  \
  } while (0)
#define INSERT128(v, lo, n, x)                              \
  do {                                                      \
    u32 lo_ = (lo);                                         \
    u128 m_ = ((u128)1 << (n)) - 1;                         \
    (v) = ((v) & ~(m_ << lo_)) | (((u128)(x) & m_) << lo_); \
  } while (0)

static inline u32 rev32(u32 x) {
  u32 r = 0;
  for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
  return r;
}
static inline u64 rev64(u64 x) { return (u64)rev32((u32)x) << 32 | rev32((u32)(x >> 32)); }
static inline i32 ff1(u64 x) { return x ? __builtin_ctzll(x) : -1; }
static inline i32 signext_bit32(i32 x, u32 n) { return n == 0 ? 0 : n >= 32 ? x : SEXT32(x, n); }
static inline i64 signext_bit64(i64 x, u32 n) { return n == 0 ? 0 : n >= 64 ? x : SEXT64(x, n); }

/* classification on the bits, so that signalling NaNs stay what they are */
static inline int isNAN16(u64 x) { return (x & 0x7fff) > 0x7c00; }
static inline int isNAN32(u64 x) { return (x & 0x7fffffff) > 0x7f800000; }
static inline int isNAN64(u64 x) { return (x & 0x7fffffffffffffffull) > 0x7ff0000000000000ull; }
static inline int isSignalNAN16(u64 x) { return isNAN16(x) && !(x & 0x200); }
static inline int isSignalNAN32(u64 x) { return isNAN32(x) && !(x & 0x400000); }
static inline int isSignalNAN64(u64 x) { return isNAN64(x) && !(x & 0x8000000000000ull); }
static inline int isQuietNAN16(u64 x) { return isNAN16(x) && (x & 0x200); }
static inline int isQuietNAN32(u64 x) { return isNAN32(x) && (x & 0x400000); }
static inline int isQuietNAN64(u64 x) { return isNAN64(x) && (x & 0x8000000000000ull); }
static inline float quiet16(u64 x) { return h2f((u16)(x | 0x200)); }
static inline float quiet32(u64 x) { return bf32((u32)x | 0x400000); }
static inline double quiet64(u64 x) { return bf64(x | 0x8000000000000ull); }
static inline u32 cls(int nan, int snan, int neg, int inf, int zero, int den) {
  if (nan) return snan ? 0 : 1;
  return inf ? (neg ? 2 : 9) : zero ? (neg ? 5 : 6) : den ? (neg ? 4 : 7) : (neg ? 3 : 8);
}
static inline u32 class16(u32 x) {
  u32 e = x >> 10 & 31, m = x & 0x3ff;
  return cls(isNAN16(x), isSignalNAN16(x), x >> 15 & 1, e == 31, !e && !m, !e);
}
static inline u32 class32(u32 x) {
  u32 e = x >> 23 & 255, m = x & 0x7fffff;
  return cls(isNAN32(x), isSignalNAN32(x), x >> 31, e == 255, !e && !m, !e);
}
static inline u32 class64(u64 x) {
  u64 e = x >> 52 & 2047, m = x & 0xfffffffffffffull;
  return cls(isNAN64(x), isSignalNAN64(x), (int)(x >> 63), e == 2047, !e && !m, !e);
}

static inline int sign16(u64 x) { return x >> 15 & 1; }
static inline int sign32(u64 x) { return x >> 31 & 1; }
static inline int sign64(u64 x) { return x >> 63; }
static inline i32 exponent16(u64 x) { return x >> 10 & 31; }
static inline i32 exponent32(u64 x) { return x >> 23 & 255; }
static inline i32 exponent64(u64 x) { return x >> 52 & 2047; }
static inline double frexp_mant64(u64 x) {
  double d = bf64(x);
  int e;
  return isfinite(d) ? frexp(d, &e) : d;
}
static inline float frexp_mant32(u64 x) {
  float d = bf32((u32)x);
  int e;
  return isfinite(d) ? (float)frexp((double)d, &e) : d;
}
static inline float frexp_mant16(u64 x) {
  float d = h2f((u16)x);
  int e;
  return isfinite(d) ? (float)frexp((double)d, &e) : d;
}
static inline i32 frexp_exp64(u64 x) {
  double d = bf64(x);
  int e = 0;
  if (isfinite(d)) frexp(d, &e);
  return e;
}
static inline i32 frexp_exp32(u64 x) {
  float d = bf32((u32)x);
  int e = 0;
  if (isfinite(d)) frexp((double)d, &e);
  return e;
}
static inline i32 frexp_exp16(u64 x) {
  float d = h2f((u16)x);
  int e = 0;
  if (isfinite(d)) frexp((double)d, &e);
  return e;
}
static inline int is_even(double x) { return fmod(x, 2.0) == 0.0; }

/* conversions to integers: truncation, limits at the ends of the range, 0 for NaN */
static inline i64 d_to_i(double x, int n) {
  if (x != x) return 0;
  double hi = ldexp(1.0, n - 1);
  if (x >= hi) return (i64)((1ull << (n - 1)) - 1);
  return x <= -hi ? -(i64)(1ull << (n - 2)) * 2 : (i64)x;
}
static inline u64 d_to_u(double x, int n) {
  double hi = ldexp(1.0, n);
  return !(x > 0) ? 0 : x >= hi ? (n < 64 ? (1ull << n) - 1 : ~0ull) : (u64)x;
}
#define f_to_i(x, n) ((i32)d_to_i((double)(x), n))
#define f_to_u(x, n) ((u32)d_to_u((double)(x), n))
static inline i64 sat_i(i64 x, int n) {
  i64 h = (i64)((1ull << (n - 1)) - 1);
  return x > h ? h : x < -h - 1 ? -h - 1 : x;
}
static inline u64 sat_u(i64 x, int n) {
  i64 h = n < 63 ? (i64)((1ull << n) - 1) : INT64_MAX;
  return x < 0 ? 0 : x > h ? (u64)h : (u64)x;
}
static inline i32 f_to_snorm(float x) {
  x = x != x ? 0 : x < -1 ? -1 : x > 1 ? 1 : x;
  return (i32)rint((double)x * 32767.0);
}
static inline u32 f_to_unorm(float x) {
  x = x != x ? 0 : x < 0 ? 0 : x > 1 ? 1 : x;
  return (u32)rint((double)x * 65535.0);
}
#define f32_to_snorm f_to_snorm

/* 8-bit formats: z selects FNUZ (gfx940 family) or OCP */
float fp8_to_f32(u32 x, int z);
float bf8_to_f32(u32 x, int z);
u32 f32_to_fp8(float f, int z);
u32 f32_to_bf8(float f, int z);
u32 sr_fp8(float f, u32 r, int z);
u32 sr_bf8(float f, u32 r, int z);

#define F1(n, e, ef)                                 \
  static inline double x_##n(double x) { return e; } \
  static inline float x_##n##f(float x) { return ef; }
F1(floor, floor(x), floorf(x));
F1(trunc, trunc(x), truncf(x));
F1(ceil, ceil(x), ceilf(x));
F1(rint, rint(x), rintf(x));
F1(sqrt, sqrt(x), sqrtf(x));
F1(rcp, 1.0 / x, 1.0f / x);
F1(rsq, 1.0 / sqrt(x), (float)(1.0 / sqrt((double)x)));
F1(log2, log2(x), log2f(x));
F1(exp2, exp2(x), exp2f(x));
F1(tanh, tanh(x), tanhf(x));
/* the fraction stays below one */
static inline double x_fract(double x) {
  double r = x - floor(x);
  return r >= 1.0 ? 0x1.fffffffffffffp-1 : r;
}
static inline float x_fractf(float x) {
  float r = x - floorf(x);
  return r >= 1.0f ? 0x1.fffffep-1f : r;
}
/* the argument is in turns */
static inline double x_sin2pi(double x) {
  return isfinite(x) ? sin((x - floor(x)) * 6.283185307179586) : NAN;
}
static inline double x_cos2pi(double x) {
  return isfinite(x) ? cos((x - floor(x)) * 6.283185307179586) : NAN;
}
static inline float x_sin2pif(float x) { return (float)x_sin2pi((double)x); }
static inline float x_cos2pif(float x) { return (float)x_cos2pi((double)x); }
static inline double x_ldexp(double x, i32 n) { return ldexp(x, n); }
static inline float x_ldexpf(float x, i32 n) { return ldexpf(x, n); }

/* minimum and maximum. NaN: the other operand; with MODE.IEEE a signalling NaN is returned quiet.
 * -0 is below +0. */
#define MINMAX(T, S, B, Q)                                                                       \
  static inline int less##S(T a, T b) { return a < b || (a == b && signbit(a) && !signbit(b)); } \
  static inline T v_min##S(T a, T b, u32 ie) {                                                   \
    return ie && isSignalNAN##B(Q(a))   ? quiet##B(Q(a))                                         \
           : ie && isSignalNAN##B(Q(b)) ? quiet##B(Q(b))                                         \
           : a != a                     ? b                                                      \
           : b != b                     ? a                                                      \
           : less##S(b, a)              ? b                                                      \
                                        : a;                                                     \
  }                                                                                              \
  static inline T v_max##S(T a, T b, u32 ie) {                                                   \
    return ie && isSignalNAN##B(Q(a))   ? quiet##B(Q(a))                                         \
           : ie && isSignalNAN##B(Q(b)) ? quiet##B(Q(b))                                         \
           : a != a                     ? b                                                      \
           : b != b                     ? a                                                      \
           : less##S(a, b)              ? b                                                      \
                                        : a;                                                     \
  }                                                                                              \
  static inline T v_min_num##S(T a, T b, u32 ie) {                                               \
    (void)ie;                                                                                    \
    if (a != a && b != b) return quiet##B(Q(a));                                                 \
    return v_min##S(a, b, 0);                                                                    \
  }                                                                                              \
  static inline T v_max_num##S(T a, T b, u32 ie) {                                               \
    (void)ie;                                                                                    \
    if (a != a && b != b) return quiet##B(Q(a));                                                 \
    return v_max##S(a, b, 0);                                                                    \
  }                                                                                              \
  static inline T v_minimum##S(T a, T b, u32 ie) {                                               \
    (void)ie;                                                                                    \
    if (a != a) return quiet##B(Q(a));                                                           \
    if (b != b) return quiet##B(Q(b));                                                           \
    return v_min##S(a, b, 0);                                                                    \
  }                                                                                              \
  static inline T v_maximum##S(T a, T b, u32 ie) {                                               \
    (void)ie;                                                                                    \
    if (a != a) return quiet##B(Q(a));                                                           \
    if (b != b) return quiet##B(Q(b));                                                           \
    return v_max##S(a, b, 0);                                                                    \
  }                                                                                              \
  static inline T med3##S(T a, T b, T c) {                                                       \
    if (a != a || b != b || c != c) return v_min##S(v_min##S(a, b, 0), c, 0);                    \
    T m = v_max##S(v_max##S(a, b, 0), c, 0);                                                     \
    return m == a ? v_max##S(b, c, 0) : m == b ? v_max##S(a, c, 0) : v_max##S(a, b, 0);          \
  }                                                                                              \
  static inline T v_med3##S(T a, T b, T c, u32 ie) {                                             \
    (void)ie;                                                                                    \
    return med3##S(a, b, c);                                                                     \
  }                                                                                              \
  static inline T v_med3_num##S(T a, T b, T c, u32 ie) {                                         \
    (void)ie;                                                                                    \
    return med3##S(a, b, c);                                                                     \
  }
MINMAX(float, _s, 32, fb32)
MINMAX(double, _d, 64, fb64)
#define MMH(n)                                                  \
  static inline float n##_h(u64 x, u64 y, u32 ie) {             \
    u16 a = (u16)x, b = (u16)y;                                 \
    return ie && isSignalNAN16(a)   ? quiet16(a)                \
           : ie && isSignalNAN16(b) ? quiet16(b)                \
                                    : n##_s(h2f(a), h2f(b), 0); \
  }
MMH(v_min);
MMH(v_max);
MMH(v_min_num);
MMH(v_max_num);
MMH(v_minimum);
MMH(v_maximum);
static inline float v_med3_h(u64 a, u64 b, u64 c, u32 ie) {
  (void)ie;
  return med3_s(h2f((u16)a), h2f((u16)b), h2f((u16)c));
}
static inline float v_med3_num_h(u64 a, u64 b, u64 c, u32 ie) { return v_med3_h(a, b, c, ie); }
#define IMM(T, s)                                                                     \
  static inline T v_min_##s(T a, T b) { return a < b ? a : b; }                       \
  static inline T v_max_##s(T a, T b) { return a < b ? b : a; }                       \
  static inline T v_min3_##s(T a, T b, T c) { return v_min_##s(v_min_##s(a, b), c); } \
  static inline T v_max3_##s(T a, T b, T c) { return v_max_##s(v_max_##s(a, b), c); }
IMM(i32, i)
IMM(u32, u)

/* division: scale the operands so that no step over- or underflows; the flag asks div_fmas to
   undo it */
static inline int den32(float x) { return x != 0 && (fb32(x) >> 23 & 255) == 0; }
static inline int den64(double x) { return x != 0 && (fb64(x) >> 52 & 2047) == 0; }
#define DIV(B, T, EMAX, EMIN, SC, MINNORM)                                                         \
  static inline T div_any##B(T a, T b, T c, u32* flag) {                                           \
    i32 eb = exponent##B(fb##B(b)), ec = exponent##B(fb##B(c));                                    \
    *flag = 0;                                                                                     \
    double ib = 1.0 / fabs((double)b), q = fabs((double)c) * ib;                                   \
    int rden = B == 32 ? ib > 0 && ib < MINNORM : eb >= 2045,                                      \
        qden = B == 32 ? q > 0 && q < MINNORM : eb - ec >= 1023 && c != 0;                         \
    if (c == 0 || b == 0) return (T)NAN;                                                           \
    if (ec - eb >= EMAX) {                                                                         \
      *flag = 1;                                                                                   \
      return a == b ? (T)ldexp(a, SC) : a;                                                         \
    }                                                                                              \
    if (den##B(b)) return (T)ldexp(a, SC);                                                         \
    if (rden && qden) {                                                                            \
      *flag = 1;                                                                                   \
      return a == b ? (T)ldexp(a, SC) : a;                                                         \
    }                                                                                              \
    if (rden) return (T)ldexp(a, -SC);                                                             \
    if (qden) {                                                                                    \
      *flag = 1;                                                                                   \
      return a == c ? (T)ldexp(a, SC) : a;                                                         \
    }                                                                                              \
    if (ec <= EMIN) return (T)ldexp(a, SC);                                                        \
    return a;                                                                                      \
  }                                                                                                \
  static inline T div_scale##B(T a, T b, T c) {                                                    \
    u32 f;                                                                                         \
    return div_any##B(a, b, c, &f);                                                                \
  }                                                                                                \
  static inline u32 div_flag##B(T a, T b, T c) {                                                   \
    u32 f;                                                                                         \
    div_any##B(a, b, c, &f);                                                                       \
    return f;                                                                                      \
  }                                                                                                \
  static inline T div_fmas##B(T a, T b, T c, u32 f) {                                              \
    T r =                                                                                          \
        B == 32 ? (T)fmaf((float)a, (float)b, (float)c) : (T)fma((double)a, (double)b, (double)c); \
    return !f ? r                                                                                  \
              : (T)ldexp((double)r, exponent##B(fb##B(c)) > (B == 32 ? 127 : 1023) ? SC : -SC);    \
  }
DIV(32, float, 96, 23, 64, 0x1p-126)
DIV(64, double, 768, 53, 128, 0x1p-1022)

/* packed bytes */
static inline u32 perm_b32(u32 a, u32 b, u32 sel) {
  u64 d = (u64)a << 32 | b;
  u32 r = 0;
  for (int i = 0; i < 4; i++) {
    u32 s = sel >> 8 * i & 255, x;
    if (s >= 13)
      x = 0xff;
    else if (s == 12)
      x = 0;
    else if (s >= 8)
      x = (d >> (16 * (s - 8) + 15) & 1) ? 0xff : 0;
    else
      x = d >> 8 * s & 255;
    r |= x << 8 * i;
  }
  return r;
}
static inline u32 sad_u8(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 32; i += 8) {
    i32 d = (i32)(a >> i & 255) - (i32)(b >> i & 255);
    c += d < 0 ? -d : d;
  }
  return c;
}
static inline u32 msad_u8(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 32; i += 8)
    if (b >> i & 255) {
      i32 d = (i32)(a >> i & 255) - (i32)(b >> i & 255);
      c += d < 0 ? -d : d;
    }
  return c;
}
static inline u32 sad_u16(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 32; i += 16) {
    i32 d = (i32)(a >> i & 65535) - (i32)(b >> i & 65535);
    c += d < 0 ? -d : d;
  }
  return c;
}
static inline u32 sat8i(i32 x) { return (u32)(x < -128 ? -128 : x > 127 ? 127 : x) & 255; }
static inline u32 sat8u(i32 x) { return (u32)(x < 0 ? 0 : x > 255 ? 255 : x); }
static inline u32 prng(u32 x) { return (x << 1) ^ (x >> 31 ? 197u : 0u); }
static inline float cvt_off_i4(u32 x) { return (float)(SEXT32(x, 4)) / 16.0f; }
static inline u32 rtz16(float f) {
  u16 h = f2h(f);
  float b = h2f(h);
  if (f == f && fabsf(b) > fabsf(f))
    h--; /* rounded away from zero; also turns an overflow into the largest number */
  return h;
}
static inline u32 pkrtz(float a, float b) { return rtz16(a) | rtz16(b) << 16; }
static inline float mixsrc(u32 x, u32 half, u32 hi) {
  return !half ? bf32(x) : h2f((u16)(hi ? x >> 16 : x));
}
#define CLAMP01(x)                \
  ({                              \
    __typeof__(x) c_ = (x);       \
    c_ > 0 ? c_ < 1 ? c_ : 1 : 0; \
  }) /* NaN becomes 0 */
int dpp_lane(const Wave* w, const Op* o, int l, u64 exec);
