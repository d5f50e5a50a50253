/* mem.h - address checks and register transfer of the memory instructions */
#pragma once
#include "emu.h"

/* flags of a memory instruction (Op.y); Op.x is the number of bytes per lane */
enum {
  M_LOAD = 1,
  M_SX = 2,
  M_D16 = 4,
  M_HI = 8,
  M_LDS = 16,
  M_OFFEN = 32,
  M_IDXEN = 64,
  M_SADDR = 128,
  M_VADDR = 256,
  M_RET = 512,
  M_TR = 1024,
  M_SOFF = 2048,
  M_BUF = 4096,
  M_ST64 = 8192
};

/* pointer to n bytes of live device memory, or NULL */
static inline u8* gptr(Wave* w, u64 a, u32 n) {
  const Region* r = w->last;
  if (r && a >= r->lo && a + n <= r->hi && a + n > a) return (u8*)a;
  const Group* g = w->g;
  u64 lo = 0, hi = g->nreg;
  while (lo < hi) {
    u64 m = (lo + hi) / 2;
    if (g->reg[m].lo <= a)
      lo = m + 1;
    else
      hi = m;
  }
  if (!lo) return 0;
  r = &g->reg[lo - 1];
  if (a + n > r->hi || a + n < a) return 0;
  w->last = r;
  return (u8*)a;
}

/* LDS: range and race check, then the pointer; NULL after a fault. data: what will be written, NULL
 * for a read. */
enum { RC_NONE, RC_READ, RC_WRITE };
u8* lds_ptr(Wave* w, u32 lane, u64 a, u32 n, int check, const u8* data);

/* memory bytes -> registers of one lane */
static inline void to_regs(Wave* w, u32 row, u32 l, const u8* p, u32 n, u32 f) {
  if (n >= 4) {
    for (u32 i = 0; i < n / 4; i++) memcpy(&w->v[row + i][l], p + 4 * i, 4);
    return;
  }
  u32 x = p[0] | (n == 2 ? (u32)p[1] << 8 : 0);
  if (f & M_SX) x = n == 1 ? (u32)(i32)(i8)x : (u32)(i32)(i16)x;
  if (f & M_D16) {
    u32 d = w->v[row][l];
    x = f & M_HI ? (d & 0xffff) | x << 16 : (d & 0xffff0000u) | (x & 0xffff);
  }
  w->v[row][l] = x;
}
static inline void from_regs(const Wave* w, u32 row, u32 l, u8* p, u32 n, u32 f) {
  if (n >= 4) {
    for (u32 i = 0; i < n / 4; i++) memcpy(p + 4 * i, &w->v[row + i][l], 4);
    return;
  }
  u32 x = w->v[row][l] >> (f & M_HI ? 16 : 0);
  p[0] = (u8)x;
  if (n == 2) p[1] = (u8)(x >> 8);
}
#define LANES(w, l) \
  for (u64 m_ = exec_of(w), l; m_ && (l = (u64)__builtin_ctzll(m_), 1); m_ &= m_ - 1)

/* read-modify-write of 4 or 8 bytes; returns the old value. op: see atomic.c */
u64 atomic_rmw(u8* p, u32 op, u64 data, u64 cmp);
u32 atomic_size(u32 op);
