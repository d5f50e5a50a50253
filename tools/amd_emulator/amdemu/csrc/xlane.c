/* xlane.c - instructions that move data between lanes */
#include "mem.h"

/* Source lane of a DPP operand: -1 reads zero, -2 leaves the destination lane alone. Op.y: control,
   row mask << 12, bank mask << 16, bound control << 20, fetch inactive << 21; bit 31: DPP8 with the
   selections in imm. */
int dpp_lane(const Wave* w, const Op* o, int l, u64 exec) {
  u32 y = o->y, c = y & 0x1ff;
  int row = l & ~15, i = l & 15, j = -1, n = (int)w->ws;
  if (y >> 31) {
    j = (l & ~7) | ((u32)o->imm >> 3 * (l & 7) & 7);
    return exec >> j & 1 || (y >> 21 & 1) ? j : -1;
  }
  if (!(y >> (12 + l / 16) & 1) || !(y >> (16 + i / 4) & 1)) return -2;
  if (c < 0x100)
    j = (l & ~3) | (c >> 2 * (l & 3) & 3); /* quad_perm */
  else if (c > 0x100 && c < 0x110) {
    int k = i + (int)(c & 15);
    if (k < 16) j = row + k;
  } /* row_shl */
  else if (c > 0x110 && c < 0x120) {
    int k = i - (int)(c & 15);
    if (k >= 0) j = row + k;
  } /* row_shr */
  else if (c > 0x120 && c < 0x130)
    j = row + ((i - (int)(c & 15)) & 15); /* row_ror */
  else if (c == 0x130) {
    if (l + 1 < n) j = l + 1;
  } /* wave_shl */
  else if (c == 0x134)
    j = (l + 1) % n; /* wave_rol */
  else if (c == 0x138) {
    if (l > 0) j = l - 1;
  } /* wave_shr */
  else if (c == 0x13c)
    j = (l + n - 1) % n; /* wave_ror */
  else if (c == 0x140)
    j = row + 15 - i; /* row_mirror */
  else if (c == 0x141)
    j = (l & ~7) + 7 - (l & 7); /* row_half_mirror */
  else if (c == 0x142) {
    if (l >= 16) j = row - 1;
  } /* row_bcast:15 */
  else if (c == 0x143) {
    if (l >= 32) j = 31;
  } /* row_bcast:31 */
  else if (c >= 0x150 && c < 0x160)
    j = row + (int)(c & 15); /* row_newbcast, row_share */
  else if (c >= 0x160 && c < 0x170)
    j = row + (i ^ (int)(c & 15)); /* row_xmask */
  if (j >= 0 && !(exec >> j & 1) && !(y >> 21 & 1)) j = -1;
  return j >= 0 ? j : y >> 20 & 1 ? -1 : -2;
}

static u32 first(u64 ex) { return ex ? (u32)__builtin_ctzll(ex) : 0; }
static u32 val(const Wave* w, const Op* o, int i, u32 l) {
  return o->a[i] >= 256 ? w->v[o->a[i] - 256][l] : sc32(w, o, i);
}

int h_readfirstlane(Wave* w, const Op* o) {
  w->s[o->d] = val(w, o, 0, first(exec_of(w)));
  return R_NEXT;
}
int h_readlane(Wave* w, const Op* o) {
  w->s[o->d] = val(w, o, 0, sc32(w, o, 1) & (w->ws - 1));
  return R_NEXT;
}
int h_writelane(Wave* w, const Op* o) {
  w->v[o->d][sc32(w, o, 1) & (w->ws - 1)] = sc32(w, o, 0);
  return R_NEXT;
}
/* v_mov between VGPRs and AccVGPRs */
int h_movrow(Wave* w, const Op* o) {
  LANES(w, l) w->v[o->d][l] = val(w, o, 0, (u32)l);
  return R_NEXT;
}
int h_swap(Wave* w, const Op* o) {
  LANES(w, l) {
    u32 *a = &w->v[o->d][l], *b = &w->v[o->a[0] - 256][l], t = *a;
    *a = *b;
    *b = t;
  }
  return R_NEXT;
}

/* permlane16/32_swap: x lanes; upper half-rows of d with lower half-rows of a[0] */
int h_permswap(Wave* w, const Op* o) {
  u32 h = o->x;
  u64 ex = exec_of(w);
  if (~ex & (w->ws == 64 ? ~0ull : 0xffffffffull))
    return fault(w, F_UNSUPPORTED, 0, 0, 0, "permlane swap with inactive lanes");
  for (u32 l = 0; l < w->ws; l++)
    if (!(l / h & 1)) {
      u32 *a = &w->v[o->d][l + h], *b = &w->v[o->a[0] - 256][l], t = *a;
      *a = *b;
      *b = t;
    }
  return R_NEXT;
}
/* permlane16, permlanex16: x bit 0: other row, bit 1: fetch inactive, bit 2: bound control; var
 * form (bit 3): selection per lane */
int h_permlane16(Wave* w, const Op* o) {
  u32 t[64], sel[64];
  u64 ex = exec_of(w);
  for (u32 l = 0; l < w->ws; l++) t[l] = val(w, o, 0, l);
  for (u32 l = 0; l < w->ws; l++) {
    if (o->x & 8)
      sel[l] = w->v[o->a[1] - 256][l] & 15;
    else {
      u64 s = (u64)sc32(w, o, 2) << 32 | sc32(w, o, 1);
      sel[l] = s >> 4 * (l & 15) & 15;
    }
  }
  LANES(w, l) {
    u32 j = ((u32)l & ~15u) + sel[l];
    if (o->x & 1) j ^= 16;
    if (ex >> j & 1 || o->x & 2)
      w->v[o->d][l] = t[j];
    else if (o->x & 4)
      w->v[o->d][l] = 0;
  }
  return R_NEXT;
}
int h_permute(Wave* w, const Op* o) {
  u32 t[64] = {0};
  LANES(w, l) t[(w->v[o->a[0]][l] + (u32)o->imm) / 4 % w->ws] = w->v[o->a[1]][l];
  LANES(w, l) w->v[o->d][l] = t[l];
  return R_NEXT;
}
int h_bpermute(Wave* w, const Op* o) {
  u32 t[64];
  u64 ex = exec_of(w);
  LANES(w, l) {
    u32 j = (w->v[o->a[0]][l] + (u32)o->imm) / 4 % w->ws;
    t[l] = ex >> j & 1 || o->x ? w->v[o->a[1]][j] : 0;
  }
  LANES(w, l) w->v[o->d][l] = t[l];
  return R_NEXT;
}
int h_swizzle(Wave* w, const Op* o) {
  u32 t[64], f = (u32)o->imm;
  u64 ex = exec_of(w);
  LANES(w, l) {
    u32 j;
    if (f >= 0xe000) return fault(w, F_UNSUPPORTED, 0, 0, 0, "ds_swizzle FFT mode");
    if (f >= 0xc000) {
      u32 n = f >> 5 & 31, m = f & 31, i = (u32)l & 31;
      n = f >> 10 & 1 ? 32 - n : n;
      j = ((u32)l & 32) | (i & m) | ((i + n) & ~m & 31);
    } else if (f & 0x8000)
      j = ((u32)l & ~3u) | (f >> 2 * (l & 3) & 3);
    else
      j = ((u32)l & ~31u) | ((((u32)l & 31 & f) | (f >> 5 & 31)) ^ (f >> 10 & 31));
    t[l] = ex >> j & 1 ? w->v[o->a[0]][j] : 0;
  }
  LANES(w, l) w->v[o->d][l] = t[l];
  return R_NEXT;
}
