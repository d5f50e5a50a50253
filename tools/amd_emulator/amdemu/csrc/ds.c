/* ds.c - LDS instructions, with the check of races between waves */
#include "mem.h"

static void report(Wave* w, u32 a, int write) {
  Group* g = w->g;
  if (g->races < 4) {
    g->race_pc[g->races] = w->pc;
    g->race_addr[g->races] = a;
    g->race_wave[g->races] = w->idx;
    g->race_write[g->races] = (u32)write;
  }
  g->races++;
}
/* Two waves conflict on a byte when one writes it and the other touches it between the same two
   barriers. Writing the value that is there already is no conflict: kernels let every wave store
   the same data and read it back. One report per access. */
static void race(Wave* w, u32 a, u32 n, const u8* data) {
  Group* g = w->g;
  const u32 me = 1u << w->idx, ep = g->epoch;
  u32 bad = 0;
  for (u32 i = 0; i < n; i++) {
    Cell* c = &g->cells[a + i];
    if (c->we != ep) c->wm = 0;
    if (c->re != ep) c->rm = 0;
    if (data) {
      if (((c->wm | c->rm) & ~me) && data[i] != g->lds[a + i]) bad = 1;
      c->we = ep;
      c->wm |= me;
    } else {
      if (c->wm && !(c->wm & me)) bad = 1;
      c->re = ep;
      c->rm |= me;
    }
  }
  if (bad) report(w, a, data != 0);
}
u8* lds_ptr(Wave* w, u32 lane, u64 a, u32 n, int check, const u8* data) {
  Group* g = w->g;
  if (a + n > g->lds_size) {
    fault(w, F_LDS, lane, a, n, 0);
    return 0;
  }
  if (check != RC_NONE && g->race_check) race(w, (u32)a, n, data);
  return g->lds + a;
}
/* one element; misaligned addresses stop the run */
static int access(Wave* w, const Op* o, u32 l, u32 a, u32 n, u32 row) {
  u8 tmp[16], *p;
  const u32 load = o->y & M_LOAD;
  if (n >= 4 && (a & 3)) return fault(w, F_ALIGN, l, a, n, 0);
  if (!load) from_regs(w, row, l, tmp, n, o->y);
  p = lds_ptr(w, l, a, n, load ? RC_READ : RC_WRITE, load ? 0 : tmp);
  if (!p) return R_ERROR;
  if (load)
    to_regs(w, row, l, p, n, o->y);
  else
    memcpy(p, tmp, n);
  return R_NEXT;
}

/* a[0] address row, a[1] and a[2] data rows, d result row, imm offset, x bytes */
int h_ds(Wave* w, const Op* o) {
  LANES(w, l) /* 32-bit sum: a negative register plus an offset is usual */
  if (access(w, o, l, w->v[o->a[0]][l] + (u32)o->imm, o->x, o->y & M_LOAD ? o->d : o->a[1]))
    return R_ERROR;
  return R_NEXT;
}
/* two elements; offsets in units of the element (times 64) in imm: low and high half */
int h_ds2(Wave* w, const Op* o) {
  const u32 n = o->x, mul = n * (o->y & M_ST64 ? 64 : 1), load = o->y & M_LOAD;
  LANES(w, l) {
    const u32 base = w->v[o->a[0]][l]; /* the results may overwrite the address */
    for (u32 j = 0; j < 2; j++)
      if (access(w, o, l, base + (j ? (u32)o->imm >> 16 : (u32)o->imm & 0xffff) * mul, n,
                 load ? o->d + j * (n / 4) : o->a[1 + j]))
        return R_ERROR;
  }
  return R_NEXT;
}
int h_ds_atomic(Wave* w, const Op* o) {
  u32 op = o->x, n = atomic_size(op);
  LANES(w, l) {
    u32 a = w->v[o->a[0]][l] + (u32)o->imm;
    u8* p = lds_ptr(w, l, a, n, RC_NONE, 0);
    if (!p) return R_ERROR;
    if (a & (n - 1)) return fault(w, F_ALIGN, l, a, n, 0);
    u64 d = w->v[o->a[1]][l], c = w->v[o->a[2]][l];
    if (n == 8) {
      d |= (u64)w->v[o->a[1] + 1][l] << 32;
      c |= (u64)w->v[o->a[2] + 1][l] << 32;
    }
    u64 t = o->y & M_HI
                ? atomic_rmw(p, op, c, d)
                : atomic_rmw(p, op, d, c); /* M_HI: data is the comparand (older compare-store) */
    if (o->y & M_RET) {
      w->v[o->d][l] = (u32)t;
      if (n == 8) w->v[o->d + 1][l] = (u32)(t >> 32);
    }
  }
  return R_NEXT;
}
/* address = M0 + offset + lane * 4 */
int h_ds_addtid(Wave* w, const Op* o) {
  LANES(w, l) {
    u32 a = (w->s[w->m0] & 0xffff) + (u32)o->imm + (u32)l * 4;
    u8* p = lds_ptr(w, l, a, 4, o->y & M_LOAD ? RC_READ : RC_WRITE,
                    o->y & M_LOAD ? 0 : (u8*)&w->v[o->a[1]][l]);
    if (!p) return R_ERROR;
    if (o->y & M_LOAD)
      memcpy(&w->v[o->d][l], p, 4);
    else
      memcpy(p, &w->v[o->a[1]][l], 4);
  }
  return R_NEXT;
}
/* transposed read: 16 lanes read rows of 16 elements (x: 2 or 1 bytes each, 8 bytes per lane); lane
 * i gets column i */
int h_ds_tr(Wave* w, const Op* o) {
  u32 e = o->x, per = 8 / e;
  u8 src[64][8], out[64][8];
  u64 ex = exec_of(w);
  memset(src, 0, sizeof src);
  LANES(w, l) {
    u32 a = w->v[o->a[0]][l] + (u32)o->imm;
    u8* p = lds_ptr(w, l, a, 8, RC_READ, 0);
    if (!p) return R_ERROR;
    memcpy(src[l], p, 8);
  }
  for (u32 g = 0; g < w->ws; g += 16)
    for (u32 r = 0; r < per; r++)
      for (u32 c = 0; c < 16; c++) {
        u32 lin = r * 16 + c; /* element of the block in reading order */
        memcpy(out[g + c] + r * e, src[g + lin / per] + lin % per * e, e);
      }
  for (u32 l = 0; l < w->ws; l++)
    if (ex >> l & 1) {
      memcpy(&w->v[o->d][l], out[l], 4);
      memcpy(&w->v[o->d + 1][l], out[l] + 4, 4);
    }
  return R_NEXT;
}
