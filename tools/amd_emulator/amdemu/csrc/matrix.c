/* matrix.c - matrix multiply-accumulate: MFMA (wave64) and WMMA (wave32)

   Products and sums are formed in double precision (integers: 32 bits) and rounded once; hardware
   rounds differently. */
#include "lane.h"
#include "mem.h"

enum { T_F32, T_F16, T_BF16, T_FP8, T_BF8, T_I8, T_U8, T_I4, T_U4, T_F64 };
static const u8 bits_of[] = {32, 16, 16, 8, 8, 8, 8, 4, 4, 64};

/* element e (counted along the registers) of a lane */
static inline __attribute__((always_inline)) double elem(const Wave* w, u32 row, u32 l, u32 e,
                                                         u32 t, int z) {
  u32 b = bits_of[t], per = b >= 32 ? 1 : 32 / b;
  if (t == T_F64) return bf64(w->v[row + 2 * e][l] | (u64)w->v[row + 2 * e + 1][l] << 32);
  u32 x = w->v[row + e / per][l] >> (b >= 32 ? 0 : b * (e % per));
  switch (t) {
    case T_F32:
      return bf32(x);
    case T_F16:
      return h2f((u16)x);
    case T_BF16:
      return b2f((u16)x);
    case T_FP8:
      return fp8_to_f32(x, z);
    case T_BF8:
      return bf8_to_f32(x, z);
    case T_I8:
      return (i8)x;
    case T_U8:
      return (u8)x;
    case T_I4:
      return SEXT32(x, 4);
    default:
      return x & 15;
  }
}
static double konst(const Wave* w, const Op* o, int i, u32 out) {
  if (out == T_F64) return bf64(sc64(w, o, i));
  u32 x = sc32(w, o, i);
  return out == T_I8 ? (i32)x : bf32(x);
}

/* D[i][j] = sum over k of A[i][k] * Bt[k][j]; the inner loop runs along a row of the result, which
 * the compiler vectorises */
static void product(const double* restrict A, const double* restrict Bt, double* restrict D, u32 M,
                    u32 N, u32 K) {
  for (u32 i = 0; i < M; i++) {
    double acc[32] = {0};
    for (u32 k = 0; k < K; k++) {
      const double a = A[i * K + k], *restrict r = Bt + k * N;
      if (N == 32)
        for (u32 j = 0; j < 32; j++) acc[j] += a * r[j];
      else if (N == 16)
        for (u32 j = 0; j < 16; j++) acc[j] += a * r[j];
      else
        for (u32 j = 0; j < N; j++) acc[j] += a * r[j];
    }
    memcpy(D + i * N, acc, N * sizeof *D);
  }
}

/* x: M | N << 8 | blocks << 16 | FNUZ << 24; y: K | type A << 8 | type B << 12 | result type << 16
   (F32, F64, I8 = i32). Lane l holds row l % M of block/K-group l / M. */
int h_mfma(Wave* w, const Op* o) {
  const u32 M = o->x & 255, N = o->x >> 8 & 255, B = o->x >> 16 & 255, K = o->y & 255,
            ta = o->y >> 8 & 15, tb = o->y >> 12 & 15, out = o->y >> 16 & 15;
  const int z = o->x >> 24;
  const u32 KL = K * M * B / 64, kg = 64 / (M * B); /* K elements per lane, lane groups along K */
  static _Thread_local double A[4096], Bt[4096], D[2048];
  if (!exec_of(w)) return R_NEXT;
  for (u32 b = 0; b < B; b++)
    for (u32 g = 0; g < kg; g++)
      for (u32 i = 0; i < M; i++) {
        const u32 l = (b * kg + g) * M + i;
        for (u32 e = 0; e < KL; e++) {
          A[(b * M + i) * K + g * KL + e] =
              o->a[0] < 256 ? konst(w, o, 0, out) : elem(w, o->a[0] - 256, l, e, ta, z);
          Bt[(b * K + g * KL + e) * N + i] =
              o->a[1] < 256 ? konst(w, o, 1, out) : elem(w, o->a[1] - 256, l, e, tb, z);
        }
      }
  for (u32 b = 0; b < B; b++) product(A + b * M * K, Bt + b * K * N, D + b * M * N, M, N, K);
  const u32 regs = out == T_F64 ? 4 : M * N * B / 64, rc = o->a[2] - 256,
            wide = out == T_F64 ? 2 : 1;
  static _Thread_local u32
      res[32][64]; /* C and D may overlap in any way: all of C is read before D is written */
  for (u32 r = 0; r < regs; r++)
    for (u32 l = 0; l < 64; l++) {
      u32 i, j = l % N, b;
      if (out == T_F64) {
        i = 4 * r + l / 16;
        b = 0;
      } else if (M == 32) {
        i = 8 * (r % 16 / 4) + 4 * (l / 32) + r % 4;
        b = r / 16;
      } else if (M == 16) {
        i = 4 * (l / 16) + r % 4;
        b = r / 4;
      } else {
        i = r;
        b = l / 4;
      }
      double s = D[(b * M + i) * N + j];
      if (out == T_F64) {
        s += o->a[2] < 256 ? konst(w, o, 2, out)
                           : bf64(w->v[rc + 2 * r][l] | (u64)w->v[rc + 2 * r + 1][l] << 32);
        u64 x = fb64(s);
        res[2 * r][l] = (u32)x;
        res[2 * r + 1][l] = (u32)(x >> 32);
      } else {
        s += o->a[2] < 256 ? konst(w, o, 2, out)
             : out == T_I8 ? (double)(i32)w->v[rc + r][l]
                           : (double)bf32(w->v[rc + r][l]);
        res[r][l] = out == T_I8 ? (u32)(i64)s : fb32((float)s);
      }
    }
  memcpy(w->v[o->d], res, (u64)regs * wide * sizeof res[0]);
  return R_NEXT;
}

/* 16x16 results. x: K | type A << 8 | type B << 12 | result << 16 (T_F32, T_F16, T_BF16, T_I8) |
 * gfx12 << 20; y: neg C | abs C << 1 | high half << 2 */
int h_wmma(Wave* w, const Op* o) {
  u32 K = o->x & 255, ta = o->x >> 8 & 15, tb = o->x >> 12 & 15, out = o->x >> 16 & 15,
      g12 = o->x >> 20 & 1, KL = g12 ? K / 2 : K;
  double A[16 * 32], Bt[32 * 16], D[256];
  u32 res[32][8];
  if (exec_of(w) != 0xffffffffu)
    return fault(w, F_UNSUPPORTED, 0, 0, 0, "WMMA with inactive lanes");
  for (u32 i = 0; i < 16; i++)
    for (u32 k = 0; k < K; k++) {
      u32 l = g12 ? i + 16 * (k / KL) : i, e = k % KL;
      A[i * K + k] = elem(w, o->a[0] - 256, l, e, ta, 0);
      Bt[k * 16 + i] = elem(w, o->a[1] - 256, l, e, tb, 0);
    }
  if (!g12) /* gfx11 reads both halves of the lanes: they must hold the same data */
    for (u32 l = 0; l < 16; l++)
      for (u32 r = 0; r < KL * bits_of[ta] / 32; r++)
        if (w->v[o->a[0] - 256 + r][l] != w->v[o->a[0] - 256 + r][l + 16] ||
            w->v[o->a[1] - 256 + r][l] != w->v[o->a[1] - 256 + r][l + 16])
          return fault(w, F_UNSUPPORTED, l, 0, 0,
                       "WMMA operand that differs between the lane halves");
  u32 hi = o->y >> 2 & 1;
  product(A, Bt, D, 16, 16, K);
  for (u32 l = 0; l < 32; l++)
    for (u32 r = 0; r < 8; r++) {
      u32 i = g12 ? r + 8 * (l / 16) : 2 * r + l / 16, j = l % 16;
      double s = D[i * 16 + j], c;
      u32 row = o->a[2] - 256;
      if (o->a[2] < 256)
        c = out == T_I8    ? (i32)sc32(w, o, 2)
            : out == T_F32 ? bf32(sc32(w, o, 2))
            : out == T_F16 ? h2f((u16)sc32(w, o, 2))
                           : b2f((u16)sc32(w, o, 2));
      else if (out == T_F32)
        c = bf32(w->v[row + r][l]);
      else if (out == T_I8)
        c = (i32)w->v[row + r][l];
      else
        c = g12 ? elem(w, row, l, r, out, 0) : elem(w, row + r, l, hi, out, 0);
      if (o->y & 2) c = fabs(c);
      if (o->y & 1) c = -c;
      s += c;
      res[l][r] = out == T_F32   ? fb32((float)s)
                  : out == T_I8  ? (u32)(i64)s
                  : out == T_F16 ? f2h((float)s)
                                 : f2b((float)s);
    }
  for (u32 l = 0; l < 32; l++) {
    if (out == T_F32 || out == T_I8)
      for (u32 r = 0; r < 8; r++) w->v[o->d + r][l] = res[l][r];
    else if (g12)
      for (u32 r = 0; r < 4; r++) w->v[o->d + r][l] = res[l][2 * r] | res[l][2 * r + 1] << 16;
    else
      for (u32 r = 0; r < 8; r++) {
        u32* d = &w->v[o->d + r][l];
        *d = hi ? (*d & 0xffff) | res[l][r] << 16 : (*d & 0xffff0000u) | res[l][r];
      }
  }
  return R_NEXT;
}
