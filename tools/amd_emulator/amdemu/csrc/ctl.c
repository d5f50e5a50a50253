/* ctl.c - program control, mode register, waits */
#include "mem.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <time.h>

int fault(Wave* w, u32 kind, u32 lane, u64 addr, u32 size, const char* what) {
  Fault* f = &w->g->fault;
  f->kind = kind;
  f->wave = w->idx;
  f->lane = lane;
  f->size = size;
  f->addr = addr;
  f->pc = w->pc;
  f->what = what;
  return R_ERROR;
}

/* MODE bits 1:0 round f32, 3:2 round f16 and f64, 5:4 denormals f32, 7:6 denormals f16 and f64 (bit
   0 of a pair: inputs, bit 1: results). The host has one setting for all formats: that of f32 is
   used. Half precision is computed in f32, where its denormals are normal. */
void set_fp(u32 mode) {
#if defined(__x86_64__)
  static const u32 rc[4] = {0, 2, 1, 3}; /* nearest, +inf, -inf, zero */
  u32 m = 0x1f80 | rc[mode & 3] << 13;
  if ((mode >> 4 & 3) != 3) {
    if (!(mode >> 4 & 1)) m |= 0x40;
    if (!(mode >> 5 & 1)) m |= 0x8000;
  }
  _mm_setcsr(m);
#elif defined(__aarch64__)
  static const u64 rc[4] = {0, 1, 2, 3};
  u64 m = rc[mode & 3] << 22 | ((mode >> 4 & 3) != 3 ? 1ull << 24 : 0);
  __asm__ volatile("msr fpcr, %0" ::"r"(m));
#else
  (void)mode;
#endif
}

int h_nop(Wave* w, const Op* o) {
  (void)w;
  (void)o;
  return R_NEXT;
}
int h_end(Wave* w, const Op* o) {
  (void)w;
  (void)o;
  return R_END;
}
int h_barrier(Wave* w, const Op* o) {
  (void)w;
  (void)o;
  return R_BARRIER;
}
int h_yield(Wave* w, const Op* o) {
  (void)w;
  (void)o;
  return R_YIELD;
}
int h_unsupported(Wave* w, const Op* o) { return fault(w, F_UNSUPPORTED, 0, 0, 0, o->msg); }

int h_branch(Wave* w, const Op* o) {
  w->pc += 4 + (i64)o->imm * 4;
  return R_JUMP;
}
/* x: 0 scc0, 1 scc1, 2 vccz, 3 vccnz, 4 execz, 5 execnz */
int h_cbranch(Wave* w, const Op* o) {
  int t = o->x < 2   ? w->s[253] == o->x
          : o->x < 4 ? (mask_rd(w, VCC_LO) == 0) == (o->x == 2)
                     : (exec_of(w) == 0) == (o->x == 4);
  if (!t) return R_NEXT;
  w->pc += 4 + (i64)o->imm * 4;
  return R_JUMP;
}
int h_getpc(Wave* w, const Op* o) {
  put64(w, o->d, w->pc + 4);
  return R_NEXT;
}
int h_setpc(Wave* w, const Op* o) {
  w->pc = s64(w, o->a[0]);
  return R_JUMP;
}
int h_swappc(Wave* w, const Op* o) {
  u64 t = s64(w, o->a[0]);
  put64(w, o->d, w->pc + 4);
  w->pc = t;
  return R_JUMP;
}
int h_call(Wave* w, const Op* o) {
  put64(w, o->d, w->pc + 4);
  w->pc += 4 + (i64)o->imm * 4;
  return R_JUMP;
}

/* hardware registers: imm = id | offset << 6 | (size - 1) << 11 */
static u32 hwreg(Wave* w, u32 id) {
  switch (id) {
    case 1:
      return w->mode | w->ieee << 9 | 1 << 8;
    case 2:
      return w->s[253]; /* STATUS: SCC only */
    default:
      return 0;
  }
}
int h_getreg(Wave* w, const Op* o) {
  u32 f = (u32)o->imm, n = (f >> 11 & 31) + 1, off = f >> 6 & 31, v = hwreg(w, f & 63) >> off;
  w->s[o->d] = n < 32 ? v & ((1u << n) - 1) : v;
  return R_NEXT;
}
int h_setreg(Wave* w, const Op* o) {
  u32 f = (u32)o->imm, n = (f >> 11 & 31) + 1, off = f >> 6 & 31,
      x = o->x ? (u32)o->k[0] : w->s[o->d], m = (n < 32 ? (1u << n) - 1 : ~0u) << off;
  if ((f & 63) != 1)
    return fault(w, F_UNSUPPORTED, 0, 0, 0, "s_setreg of a register other than MODE");
  u32 v = (hwreg(w, 1) & ~m) | (x << off & m);
  if (v & 0xc)
    return fault(w, F_UNSUPPORTED, 0, 0, 0, "rounding mode of f16 and f64 other than to nearest");
  w->mode = v & 255;
  w->ieee = v >> 9 & 1;
  set_fp(w->mode);
  return R_NEXT;
}
/* s_round_mode, s_denorm_mode: x: shift of the four bits */
int h_modebits(Wave* w, const Op* o) {
  u32 v = (w->mode & ~(15u << o->x)) | (u32)(o->imm & 15) << o->x;
  if (v & 0xc)
    return fault(w, F_UNSUPPORTED, 0, 0, 0, "rounding mode of f16 and f64 other than to nearest");
  w->mode = v;
  set_fp(v);
  return R_NEXT;
}
int h_memtime(Wave* w, const Op* o) {
  put64(w, o->d, w->g->insts);
  return R_NEXT;
}
int h_sendmsg_rtn(Wave* w, const Op* o) {
  w->s[o->d] = 0;
  if (o->x == 8) w->s[o->d + 1] = 0;
  return R_NEXT;
}
