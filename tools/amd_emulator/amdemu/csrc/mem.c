/* mem.c - global, flat, scratch and buffer instructions, scalar loads */
#include "mem.h"

/* generic addresses: the high half selects LDS or scratch */
#define SHARED_HI 0x00010000u
#define PRIVATE_HI 0x00020000u

static int oob(Wave* w, u32 l, u64 a, u32 n) { return fault(w, F_BOUNDS, l, a, n, 0); }

static int lane_rmw(Wave* w, const Op* o, u32 l, u8* p) {
  u32 n = atomic_size(o->imm >> 24 & 63), row = o->a[2];
  u64 d = w->v[row][l], c = 0;
  if (n == 8) {
    d |= (u64)w->v[row + 1][l] << 32;
    c = w->v[row + 2][l] | (u64)w->v[row + 3][l] << 32;
  } else
    c = w->v[row + 1][l];
  u64 t = atomic_rmw(p, o->imm >> 24 & 63, d, c);
  if (o->y & M_RET) {
    w->v[o->d][l] = (u32)t;
    if (n == 8) w->v[o->d + 1][l] = (u32)(t >> 32);
  }
  return R_NEXT;
}

/* LDS address of a load that writes LDS directly: M0 + instruction offset + lane * size */
static int to_lds(Wave* w, const Op* o, u32 l, const u8* p, u32 n, i32 off) {
  u32 e = n < 4 ? 4 : n;
  u8 tmp[16] = {0};
  memcpy(tmp, p, n);
  if (n < 4 && (o->y & M_SX)) {
    i32 x = n == 1 ? (i8)p[0] : (i16)(p[0] | p[1] << 8);
    memcpy(tmp, &x, 4);
  }
  u8* q = lds_ptr(w, l, (u64)(w->s[w->m0] & 0x3ffff) + off + l * e, e, RC_WRITE, tmp);
  if (!q) return R_ERROR;
  memcpy(q, tmp, e);
  return R_NEXT;
}

/* global_*: a[0] address row, a[1] scalar base, a[2] data row, d result row, imm offset (24 bits
 * when an atomic operation is in the top byte) */
static inline i32 off24(const Op* o) { return (i32)((u32)o->imm << 8) >> 8; }
static inline u64 gaddr(const Wave* w, const Op* o, u32 l) {
  u64 a = w->v[o->a[0]][l];
  if (o->y & M_SADDR) return a + s64(w, o->a[1]) + (i64)off24(o);
  return (a | (u64)w->v[o->a[0] + 1][l] << 32) + (i64)off24(o);
}
int h_global(Wave* w, const Op* o) {
  u32 n = o->x, f = o->y;
  LANES(w, l) {
    u64 a = gaddr(w, o, l);
    u8* p = gptr(w, a, n);
    if (!p) return oob(w, l, a, n);
    if (f & M_LDS) {
      if (to_lds(w, o, l, p, n, off24(o))) return R_ERROR;
    } else if (f & M_LOAD)
      to_regs(w, o->d, l, p, n, f);
    else
      from_regs(w, o->a[2], l, p, n, f);
  }
  return R_NEXT;
}
int h_global_atomic(Wave* w, const Op* o) {
  u32 n = atomic_size(o->imm >> 24 & 63);
  LANES(w, l) {
    u64 a = gaddr(w, o, l);
    u8* p = gptr(w, a, n);
    if (!p) return oob(w, l, a, n);
    if (a & (n - 1)) return fault(w, F_ALIGN, l, a, n, 0);
    lane_rmw(w, o, l, p);
  }
  return R_NEXT;
}

static u8* scratch_ptr(Wave* w, u32 l, i64 a, u32 n) {
  u32 sz = w->g->scratch;
  if (a < 0 || a + n > sz) {
    fault(w, F_SCRATCH, l, (u64)a, n, 0);
    return 0;
  }
  return w->scr + (u64)l * sz + a;
}
int h_scratch(Wave* w, const Op* o) {
  u32 n = o->x, f = o->y;
  LANES(w, l) {
    i64 a = off24(o);
    if (f & M_VADDR) a += w->v[o->a[0]][l];
    if (f & M_SADDR) a += w->s[o->a[1]];
    a = (i32)a;
    u8* p = scratch_ptr(w, l, a, n);
    if (!p) return R_ERROR;
    if (f & M_LDS) {
      if (to_lds(w, o, l, p, n, off24(o))) return R_ERROR;
    } else if (f & M_LOAD)
      to_regs(w, o->d, l, p, n, f);
    else
      from_regs(w, o->a[2], l, p, n, f);
  }
  return R_NEXT;
}
/* flat_*: the address decides */
int h_flat(Wave* w, const Op* o) {
  u32 n = o->x, f = o->y, at = f & M_BUF;
  if (at) n = atomic_size(o->imm >> 24 & 63);
  LANES(w, l) {
    u64 a = gaddr(w, o, l);
    u8* p;
    if ((u32)(a >> 32) == SHARED_HI) {
      u8 tmp[16];
      if (!at && !(f & M_LOAD)) from_regs(w, o->a[2], l, tmp, n, f);
      p = lds_ptr(w, l, (u32)a, n,
                  at           ? RC_NONE
                  : f & M_LOAD ? RC_READ
                               : RC_WRITE,
                  at || f & M_LOAD ? 0 : tmp);
      if (!p) return R_ERROR;
    } else if ((u32)(a >> 32) == PRIVATE_HI) {
      p = scratch_ptr(w, l, (u32)a, n);
      if (!p) return R_ERROR;
    } else {
      p = gptr(w, a, n);
      if (!p) return oob(w, l, a, n);
    }
    if (at) {
      if (a & (n - 1)) return fault(w, F_ALIGN, l, a, n, 0);
      lane_rmw(w, o, l, p);
    } else if (f & M_LOAD)
      to_regs(w, o->d, l, p, n, f);
    else
      from_regs(w, o->a[2], l, p, n, f);
  }
  return R_NEXT;
}

/* buffer_*: a[0] address row, a[1] descriptor, a[3] scalar offset. Accesses beyond num_records read
   0 and write nothing; every dword of a raw buffer is checked on its own. */
typedef struct Buf {
  u64 base;
  u32 nrec, stride;
  i64 soff;
} Buf;
static int get_buf(Wave* w, const Op* o, Buf* b) {
  u32 r = o->a[1];
  b->base = s64(w, r) & 0xffffffffffffull;
  b->stride = w->s[r + 1] >> 16 & 0x3fff;
  b->nrec = w->s[r + 2];
  b->soff = !(o->y & M_SOFF) ? (i64)(u32)o->k[0] : w->s[o->a[3]];
  if (w->cdna ? w->s[r + 1] >> 31 : w->s[r + 1] >> 30)
    return fault(w, F_UNSUPPORTED, 0, 0, 0, "swizzled buffer");
  if (w->cdna && (w->s[r + 3] >> 23 & 1))
    return fault(w, F_UNSUPPORTED, 0, 0, 0, "buffer with add_tid");
  return R_NEXT;
}
static i64 baddr(const Wave* w, const Op* o, const Buf* b, u32 l) {
  i64 t = off24(o) + b->soff;
  u32 r = o->a[0];
  if (o->y & M_IDXEN) t += (i64)w->v[r++][l] * b->stride;
  if (o->y & M_OFFEN) t += w->v[r][l];
  return t;
}
static int inside(const Wave* w, const Op* o, const Buf* b, u32 l, i64 t, u32 n) {
  if (b->stride && (o->y & M_IDXEN)) return w->v[o->a[0]][l] < b->nrec;
  return t >= 0 && t + n <= (i64)b->nrec;
}
int h_buffer(Wave* w, const Op* o) {
  u32 n = o->x, f = o->y, step = n < 4 ? n : 4;
  Buf b;
  if (get_buf(w, o, &b)) return R_ERROR;
  LANES(w, l) {
    i64 t = baddr(w, o, &b, l);
    u8 tmp[16] = {0};
    if (inside(w, o, &b, l, t, n)) {
      u8* p = gptr(w, b.base + t, n);
      if (!p) return oob(w, l, b.base + t, n);
      if (f & M_LDS) {
        if (to_lds(w, o, l, p, n, off24(o))) return R_ERROR;
      } else if (f & M_LOAD)
        to_regs(w, o->d, l, p, n, f);
      else
        from_regs(w, o->a[2], l, p, n, f);
      continue;
    }
    if (!(f & M_LOAD)) from_regs(w, o->a[2], l, tmp, n, f);
    for (u32 i = 0; i < n; i += step) {
      if (!inside(w, o, &b, l, t + i, step)) continue;
      u8* p = gptr(w, b.base + t + i, step);
      if (!p) return oob(w, l, b.base + t + i, step);
      if (f & M_LOAD)
        memcpy(tmp + i, p, step);
      else
        memcpy(p, tmp + i, step);
    }
    if (f & M_LDS) {
      if (to_lds(w, o, l, tmp, n, off24(o))) return R_ERROR;
    } else if (f & M_LOAD)
      to_regs(w, o->d, l, tmp, n, f);
  }
  return R_NEXT;
}
int h_buffer_atomic(Wave* w, const Op* o) {
  u32 n = atomic_size(o->imm >> 24 & 63);
  Buf b;
  if (get_buf(w, o, &b)) return R_ERROR;
  LANES(w, l) {
    i64 t = baddr(w, o, &b, l);
    if (!inside(w, o, &b, l, t, n)) {
      if (o->y & M_RET) {
        w->v[o->d][l] = 0;
        if (n == 8) w->v[o->d + 1][l] = 0;
      }
      continue;
    }
    u8* p = gptr(w, b.base + t, n);
    if (!p) return oob(w, l, b.base + t, n);
    if ((b.base + t) & (n - 1)) return fault(w, F_ALIGN, l, b.base + t, n, 0);
    lane_rmw(w, o, l, p);
  }
  return R_NEXT;
}

/* s_load*: a[0] base, a[1] offset register when M_SOFF, imm offset, x bytes, d destination; M_BUF:
 * a[0] is a descriptor */
int h_smem(Wave* w, const Op* o) {
  u32 n = o->x;
  i64 off = o->imm;
  u32 tmp[16] = {0};
  if (o->y & M_SOFF) off += w->s[o->a[1]];
  if (o->y & M_BUF) {
    u64 base = s64(w, o->a[0]) & 0xffffffffffffull;
    u32 nrec = w->s[o->a[0] + 2], stride = w->s[o->a[0] + 1] >> 16 & 0x3fff;
    u64 lim = stride ? (u64)stride * nrec : nrec;
    if (n < 4) return fault(w, F_UNSUPPORTED, 0, 0, 0, "scalar buffer load of less than a dword");
    off &= ~3ll;
    for (u32 i = 0; i < n; i += 4) {
      if (off < 0 || (u64)off + i + 4 > lim) continue;
      u8* p = gptr(w, base + off + i, 4);
      if (!p) return oob(w, 0, base + off + i, 4);
      memcpy(tmp + i / 4, p, 4);
    }
  } else {
    u64 a = s64(w, o->a[0]) + off;
    if (n >= 4) a &= ~3ull;
    u8* p = gptr(w, a, n);
    if (!p) return oob(w, 0, a, n);
    if (n >= 4)
      memcpy(tmp, p, n);
    else {
      tmp[0] = p[0] | (n == 2 ? (u32)p[1] << 8 : 0);
      if (o->y & M_SX) tmp[0] = n == 1 ? (u32)(i32)(i8)tmp[0] : (u32)(i32)(i16)tmp[0];
    }
  }
  for (u32 i = 0; i < (n + 3) / 4; i++) w->s[o->d + i] = tmp[i];
  return R_NEXT;
}
int h_sstore(Wave* w, const Op* o) {
  u64 a = (s64(w, o->a[0]) + o->imm + (o->y & M_SOFF ? w->s[o->a[1]] : 0)) & ~3ull;
  u8* p = gptr(w, a, o->x);
  if (!p) return oob(w, 0, a, o->x);
  memcpy(p, &w->s[o->d], o->x);
  return R_NEXT;
}
