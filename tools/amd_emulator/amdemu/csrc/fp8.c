/* fp8.c - 8-bit floating point: e4m3 (fp8) and e5m2 (bf8), OCP or FNUZ encoding */
#include "lane.h"

static float table[2][2][256];
static int ready; /* [bf8][fnuz] */

static void init(void) {
  for (int b = 0; b < 2; b++)
    for (int z = 0; z < 2; z++)
      for (int i = 0; i < 256; i++) {
        int mb = b ? 2 : 3, eb = 7 - mb, bias = (1 << (eb - 1)) - 1 + z, e = (i & 127) >> mb,
            m = i & ((1 << mb) - 1);
        double v = e ? ldexp(1.0 + (double)m / (1 << mb), e - bias)
                     : ldexp((double)m / (1 << mb), 1 - bias);
        if (i & 128) v = -v;
        if (z) {
          if (i == 128) v = NAN;
        } else if (!b) {
          if ((i & 127) == 127) v = NAN;
        } else if (e == 31)
          v = m ? NAN : (i & 128 ? -INFINITY : INFINITY);
        table[b][z][i] = (float)v;
      }
  __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
}
static const float* tab(int b, int z) {
  if (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) init();
  return table[b][z];
}
float fp8_to_f32(u32 x, int z) { return tab(0, z)[x & 255]; }
float bf8_to_f32(u32 x, int z) { return tab(1, z)[x & 255]; }

/* to nearest even; overflow: NaN (fp8, FNUZ) or infinity (OCP bf8), as with MODE.FP16_OVFL = 0 */
static u32 pack(float f, int b, int z) {
  const float* t = tab(b, z);
  u32 sgn = signbit(f) ? 128 : 0, top = z ? 127 : b ? 0x7b : 0x7e, over = z ? 128 : b ? 0x7c : 0x7f;
  if (f != f) return z ? 128 : 127 | sgn;
  double a = fabs((double)f);
  u32 lo = 0, hi = top; /* largest code with value <= a */
  while (lo < hi) {
    u32 m = (lo + hi + 1) / 2;
    if (t[m] <= a)
      lo = m;
    else
      hi = m - 1;
  }
  u32 c = lo;
  if (lo == top) {
    double half = ((double)t[top] - t[top - 1]) / 2;
    if (a > t[top] + half || (a == t[top] + half && (top & 1))) return z ? over : over | sgn;
  } else {
    double d0 = a - t[lo], d1 = t[lo + 1] - a;
    if (d0 > d1 || (d0 == d1 && (lo & 1))) c++;
  }
  return z && c == 0 ? 0 : c | sgn;
}
u32 f32_to_fp8(float f, int z) { return pack(f, 0, z); }
u32 f32_to_bf8(float f, int z) { return pack(f, 1, z); }

/* stochastic rounding: a random number is added below the last kept bit, then the rest is cut off
 * by the nearest rounding of the sum */
static float dither(float f, u32 r, int bits) {
  u32 u = fb32(f);
  if (f != f || isinf(f)) return f;
  return bf32((u & 0xff800000u) | ((u + (r >> (32 - bits))) & 0x7fffffu));
}
u32 sr_fp8(float f, u32 r, int z) { return pack(dither(f, r, 20), 0, z); }
u32 sr_bf8(float f, u32 r, int z) { return pack(dither(f, r, 21), 1, z); }
