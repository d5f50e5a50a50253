/* atomic.c - read-modify-write operations on device memory and LDS. Compare-and-swap loops, so that
   several processes may share the memory of one launch. */
#include "lane.h"
#include "mem.h"

enum {
  A_ADD32,
  A_SUB32,
  A_SMIN32,
  A_UMIN32,
  A_SMAX32,
  A_UMAX32,
  A_AND32,
  A_OR32,
  A_XOR32,
  A_SWAP32,
  A_CMPSWAP32,
  A_INC32,
  A_DEC32,
  A_ADDF32,
  A_MINF32,
  A_MAXF32,
  A_PKADDF16,
  A_PKADDBF16,
  A_RSUB32,
  A_MSKOR32,
  A_CMPF32,
  A_SUBCLAMP32,
  A_64 = 32,
  A_ADDF64 = 32 + A_ADDF32,
  A_MINF64 = 32 + A_MINF32,
  A_MAXF64 = 32 + A_MAXF32
};

u32 atomic_size(u32 op) { return op >= A_64 ? 8 : 4; }

static u32 op32(u32 op, u32 t, u32 d, u32 c) {
  switch (op) {
    case A_ADD32:
      return t + d;
    case A_SUB32:
      return t - d;
    case A_RSUB32:
      return d - t;
    case A_SMIN32:
      return (i32)d < (i32)t ? d : t;
    case A_UMIN32:
      return d < t ? d : t;
    case A_SMAX32:
      return (i32)d >= (i32)t ? d : t;
    case A_UMAX32:
      return d >= t ? d : t;
    case A_AND32:
      return t & d;
    case A_OR32:
      return t | d;
    case A_XOR32:
      return t ^ d;
    case A_SWAP32:
      return d;
    case A_CMPSWAP32:
      return t == c ? d : t;
    case A_CMPF32:
      return bf32(t) == bf32(c) ? d : t;
    case A_INC32:
      return t >= d ? 0 : t + 1;
    case A_DEC32:
      return t == 0 || t > d ? d : t - 1;
    case A_SUBCLAMP32:
      return t > d ? t - d : 0;
    case A_MSKOR32:
      return (t & ~d) | c;
    case A_ADDF32:
      return fb32(bf32(t) + bf32(d));
    case A_MINF32:
      return fb32(v_min_s(bf32(t), bf32(d), 0));
    case A_MAXF32:
      return fb32(v_max_s(bf32(t), bf32(d), 0));
    case A_PKADDF16:
      return f2h(h2f((u16)t) + h2f((u16)d)) | (u32)f2h(h2f((u16)(t >> 16)) + h2f((u16)(d >> 16)))
                                                  << 16;
    case A_PKADDBF16:
      return f2b(b2f((u16)t) + b2f((u16)d)) | (u32)f2b(b2f((u16)(t >> 16)) + b2f((u16)(d >> 16)))
                                                  << 16;
  }
  return t;
}

static u64 op64(u32 op, u64 t, u64 d, u64 c) {
  switch (op - A_64) {
    case A_ADD32:
      return t + d;
    case A_SUB32:
      return t - d;
    case A_RSUB32:
      return d - t;
    case A_SMIN32:
      return (i64)d < (i64)t ? d : t;
    case A_UMIN32:
      return d < t ? d : t;
    case A_SMAX32:
      return (i64)d >= (i64)t ? d : t;
    case A_UMAX32:
      return d >= t ? d : t;
    case A_AND32:
      return t & d;
    case A_OR32:
      return t | d;
    case A_XOR32:
      return t ^ d;
    case A_SWAP32:
      return d;
    case A_CMPSWAP32:
      return t == c ? d : t;
    case A_INC32:
      return t >= d ? 0 : t + 1;
    case A_DEC32:
      return t == 0 || t > d ? d : t - 1;
    case A_MSKOR32:
      return (t & ~d) | c;
    case A_ADDF32:
      return fb64(bf64(t) + bf64(d));
    case A_MINF32:
      return fb64(v_min_d(bf64(t), bf64(d), 0));
    case A_MAXF32:
      return fb64(v_max_d(bf64(t), bf64(d), 0));
  }
  return t;
}

u64 atomic_rmw(u8* p, u32 op, u64 data, u64 cmp) {
  if (op >= A_64) {
    u64 t = __atomic_load_n((u64*)p, __ATOMIC_RELAXED), n;
    do n = op64(op, t, data, cmp);
    while (!__atomic_compare_exchange_n((u64*)p, &t, n, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return t;
  }
  u32 t = __atomic_load_n((u32*)p, __ATOMIC_RELAXED), n;
  do n = op32(op, t, (u32)data, (u32)cmp);
  while (!__atomic_compare_exchange_n((u32*)p, &t, n, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return t;
}
