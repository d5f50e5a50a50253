/* run.c - workgroups of a launch, waves of a workgroup in turn, the instruction loop */
#include <stdlib.h>
#include "mem.h"

void set_fp(u32 mode);

enum { ST_DONE, ST_DECODE, ST_FAULT };

typedef struct Launch {
  u32 grid[3], block[3], user[32], nuser, rsrc2, family; /* family: 0 CDNA, 3 gfx11, 4 gfx12 */
  u32 ws, nw, mode, ieee, lds_size, scratch, race_check, resume, cur, m0, v0_mask, pad;
  u64 entry, wg_next, wg_step, wg_end, max_insts, wgs_done, insts;
  const u32* wgs; /* explicit list of workgroups (x, y, z), or NULL */
  Group g;
  Wave* waves;
  u8* lds_mem;
  u64 need_pc;
  u64 slice;
} Launch;

u64 sizeof_wave(void) { return sizeof(Wave); }
u64 sizeof_launch(void) { return sizeof(Launch); }
u64 sizeof_op(void) { return sizeof(Op); }

static void init_wave(Launch* L, Wave* w, u32 idx, const u32 id[3]) {
  u32 total = L->block[0] * L->block[1] * L->block[2], base = idx * L->ws;
  u32 rows = L->family == 0 ? 512 : 256;
  for (u32 i = 0; i < rows * 64; i++)
    ((u32*)w->v)[i] = 0x7fc0deadu; /* a NaN: reads of unset registers show in results */
  for (u32 i = 0; i < 106; i++) w->s[i] = 0xdeadbeefu;
  for (u32 i = 106; i < 128; i++) w->s[i] = 0;
  for (u32 i = 128; i <= 192; i++) w->s[i] = i - 128;
  for (u32 i = 193; i <= 208; i++) w->s[i] = (u32) - (i32)(i - 192);
  for (u32 i = 209; i < 256; i++) w->s[i] = 0;
  static const float fc[9] = {0.5f, -0.5f, 1, -1, 2, -2, 4, -4, 0.15915494309189532f};
  memcpy(&w->s[240], fc, sizeof fc);
  u32 n = L->nuser;
  memcpy(w->s, L->user, 4 * n);
  if (L->family == 4) {
    w->s[108 + 7] = (id[1] & 0xffff) | id[2] << 16;
    w->s[108 + 9] = id[0];
  } else
    for (u32 i = 0; i < 3; i++)
      if (L->rsrc2 >> (7 + i) & 1) w->s[n++] = id[i];
  w->ws = L->ws;
  w->idx = idx;
  w->done = 0;
  w->at_barrier = 0;
  w->scc = 0;
  w->ins = 0;
  w->last = 0;
  w->m0 = L->m0;
  w->cdna = L->family == 0;
  w->mode = L->mode;
  w->ieee = L->ieee;
  w->pc = L->entry;
  w->g = &L->g;
  w->scr = L->g.scr_base + (u64)idx * L->ws * L->scratch;
  w->nlanes = total - base < L->ws ? total - base : L->ws;
  u64 ex = w->nlanes == 64 ? ~0ull : (1ull << w->nlanes) - 1;
  mask_wr(w, EXEC_LO, ex);
  u32 en = L->rsrc2 >> 11 & 3;
  for (u32 l = 0; l < L->ws; l++) {
    u32 t = base + l, x = t % L->block[0], y = t / L->block[0] % L->block[1],
        z = t / (L->block[0] * L->block[1]);
    w->v[0][l] = x | (en >= 1 ? y << 10 : 0) | (en >= 2 ? z << 20 : 0);
  }
}

/* until the wave stops for a reason; the number of instructions of one turn is bounded, so that
 * waves which poll LDS make progress */
static int run_wave(Launch* L, Wave* w) {
  Group* g = &L->g;
  Op** map = g->map;
  const u64 code = g->code, size = g->code_size;
  u64 n = 0, lim = L->slice, left = g->max_insts - g->insts;
  if (lim > left) lim = left;
  int r = R_YIELD;
  u64 pc = w->pc;
  while (n < lim) {
    u64 off = pc - code;
    if (__builtin_expect(off >= size || (off & 3), 0)) {
      r = fault(w, F_PC, 0, pc, 0, 0);
      break;
    }
    Op* o = map[off >> 2];
    if (__builtin_expect(!o, 0)) {
      r = -1;
      break;
    }
    n++;
    if (__builtin_expect(g->hist != 0, 0)) g->hist[off >> 2]++;
    r = o->fn(w, o);
    if (__builtin_expect(r == R_NEXT, 1)) {
      pc += o->size;
      w->pc = pc;
      r = R_YIELD;
      continue;
    }
    if (r == R_JUMP) {
      pc = w->pc;
      r = R_YIELD;
      continue;
    }
    if (r == R_BARRIER || r == R_YIELD) {
      pc += o->size;
      w->pc = pc;
    }
    break;
  }
  g->insts += n;
  if (r == R_YIELD && g->insts >= g->max_insts) r = fault(w, F_LIMIT, 0, pc, 0, 0);
  return r;
}

static void next_epoch(Group* g) {
  if (++g->epoch == ~0u) {
    memset(g->cells, 0, sizeof(Cell) * g->lds_size);
    g->epoch = 1;
  }
}

static int run_group(Launch* L) {
  Group* g = &L->g;
  for (;;) {
    u32 live = 0, ran = 0;
    for (; L->cur < L->nw; L->cur++) {
      Wave* w = &L->waves[L->cur];
      if (w->done) continue;
      live = 1;
      if (w->at_barrier) continue;
      ran = 1;
      set_fp(w->mode);
      int r = run_wave(L, w);
      if (r == -1) {
        L->need_pc = w->pc;
        return ST_DECODE;
      }
      if (r == R_ERROR) return ST_FAULT;
      if (r == R_END)
        w->done = 1;
      else if (r == R_BARRIER)
        w->at_barrier = 1;
    }
    L->cur = 0;
    if (!ran) {
      if (!live) {
        u32 any = 0;
        for (u32 i = 0; i < L->nw; i++) any |= !L->waves[i].done;
        if (!any) return ST_DONE;
        continue;
      }
      for (u32 i = 0; i < L->nw; i++) L->waves[i].at_barrier = 0; /* all live waves have arrived */
      next_epoch(g);
    }
  }
}

/* Runs workgroups wg_next, wg_next + wg_step, ... below wg_end. ST_DECODE: the caller decodes
 * need_pc and calls again. */
int run_launch(Launch* L) {
  Group* g = &L->g;
  int st = ST_DONE;
  while (L->wg_next < L->wg_end) {
    if (!L->resume) {
      u32 id[3];
      u64 k = L->wg_next;
      if (L->wgs)
        memcpy(id, L->wgs + 3 * k, sizeof id);
      else {
        id[0] = (u32)(k % L->grid[0]);
        id[1] = (u32)(k / L->grid[0] % L->grid[1]);
        id[2] = (u32)(k / ((u64)L->grid[0] * L->grid[1]));
      }
      memcpy(g->id, id, sizeof id);
      memset(g->lds, 0xff, g->lds_size);
      next_epoch(g);
      if (L->scratch) memset(g->scr_base, 0xff, (u64)L->scratch * L->ws * L->nw);
      for (u32 i = 0; i < L->nw; i++) init_wave(L, &L->waves[i], i, id);
      L->cur = 0;
      L->resume = 1;
    }
    st = run_group(L);
    if (st != ST_DONE) break;
    L->resume = 0;
    L->wgs_done++;
    L->wg_next += L->wg_step;
  }
  set_fp(0xf0);
  return st;
}
