/* emu.h - state of the emulated machine, shared by the core library and the generated instruction
 * functions */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef unsigned __int128 u128;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef __int128 i128;

typedef struct Wave Wave;
typedef struct Op Op;
typedef int (*opfn)(Wave*, const Op*);

/* results of an instruction function */
enum { R_NEXT = 0, R_JUMP = 1, R_BARRIER = 2, R_END = 3, R_YIELD = 4, R_ERROR = 5 };

/* One decoded instruction. Sources: 0..255 scalar register or K_CONST, 256.. vector register
 * (256..511 VGPR, 512..767 AccVGPR). */
#define K_CONST 255
struct Op {
  opfn fn;
  u64 k[3];  /* value of a constant source (inline constant or literal, already in the operand's
                format) */
  u16 a[4];  /* sources */
  u16 d, d1; /* destination: vector row (0..511) or scalar register; second destination (scalar) */
  i32 imm;   /* offset, branch distance or immediate */
  u32 x, y;  /* parameters of hand-written functions */
  u16 size, flags; /* bytes */
  const char* msg; /* why the instruction stops the run (unsupported ones) */
};

typedef struct Region {
  u64 lo, hi;
} Region;

typedef struct Cell {
  u32 we, wm, re, rm;
} Cell; /* race check of one LDS byte: barrier interval and waves of the writes and reads */

typedef struct Fault {
  u32 kind, wave, lane, size;
  u64 addr, pc;
  const char* what;
  u64 aux;
} Fault;
enum { F_NONE, F_BOUNDS, F_LDS, F_SCRATCH, F_UNSUPPORTED, F_PC, F_LIMIT, F_ALIGN, F_DEADLOCK };

/* one workgroup */
typedef struct Group {
  u8* lds;
  u32 lds_size, nwaves;
  Cell* cells;
  u32 epoch, race_check;
  u64 races;
  u64 race_pc[4];
  u32 race_addr[4], race_wave[4], race_write[4];
  const Region* reg;
  u64 nreg; /* live memory, sorted */
  Op** map;
  u64 code, code_size; /* decoded instructions, by (pc - code) / 4 */
  u64 insts, max_insts;
  u32 scratch;
  u8* scr_base;
  Fault fault;
  u64* hist; /* executions per dword of code, or NULL */
  u32 ws, denorm_flush, trace, id[3];
} Group;

struct Wave {
  u32 v[512][64]; /* 0..255 VGPR, 256..511 AccVGPR */
  u32 s[256]; /* scalar registers as encoded in source operands; 128..248 hold the inline constants
                 for 32-bit use */
  u64 pc, ins;
  u32 scc, m0, ws, idx, nlanes, done, ieee, mode, cdna, at_barrier;
  Group* g;
  u8* scr;
  const Region* last;
};

#define EXEC_LO 126
#define VCC_LO 106
static inline u64 s64(const Wave* w, u32 r) { return w->s[r] | (u64)w->s[r + 1] << 32; }
static inline void put64(Wave* w, u32 r, u64 x) {
  w->s[r] = (u32)x;
  w->s[r + 1] = (u32)(x >> 32);
}
/* The registers of a wave32 kernel's lane masks are 32 bits wide. */
static inline u64 mask_rd(const Wave* w, u32 r) { return w->ws == 64 ? s64(w, r) : w->s[r]; }
static inline void mask_wr(Wave* w, u32 r, u64 x) {
  w->s[r] = (u32)x;
  if (w->ws == 64) w->s[r + 1] = (u32)(x >> 32);
}
static inline u64 exec_of(const Wave* w) { return mask_rd(w, EXEC_LO); }

static inline u32 sc32(const Wave* w, const Op* o, int i) {
  return o->a[i] == K_CONST ? (u32)o->k[i] : w->s[o->a[i]];
}
static inline u64 sc64(const Wave* w, const Op* o, int i) {
  return o->a[i] == K_CONST ? o->k[i] : s64(w, o->a[i]);
}
int fault(Wave* w, u32 kind, u32 lane, u64 addr, u32 size, const char* what);
