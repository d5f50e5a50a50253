"""Launches: memory, kernel arguments, workgroups, and the messages of what went wrong."""

import collections
import ctypes
import mmap
import struct
import sys
import time

import numpy as np

from .build import Builder
from .codeobj import CodeObject
from .decode import Unsupported
from .program import Isa, Op, Program

C = ctypes


class Fault(C.Structure):
    _fields_ = [
        ("kind", C.c_uint32),
        ("wave", C.c_uint32),
        ("lane", C.c_uint32),
        ("size", C.c_uint32),
        ("addr", C.c_uint64),
        ("pc", C.c_uint64),
        ("what", C.c_char_p),
        ("aux", C.c_uint64),
    ]


class Group(C.Structure):
    _fields_ = [
        ("lds", C.c_void_p),
        ("lds_size", C.c_uint32),
        ("nwaves", C.c_uint32),
        ("cells", C.c_void_p),
        ("epoch", C.c_uint32),
        ("race_check", C.c_uint32),
        ("races", C.c_uint64),
        ("race_pc", C.c_uint64 * 4),
        ("race_addr", C.c_uint32 * 4),
        ("race_wave", C.c_uint32 * 4),
        ("race_write", C.c_uint32 * 4),
        ("reg", C.c_void_p),
        ("nreg", C.c_uint64),
        ("map", C.c_void_p),
        ("code", C.c_uint64),
        ("code_size", C.c_uint64),
        ("insts", C.c_uint64),
        ("max_insts", C.c_uint64),
        ("scratch", C.c_uint32),
        ("scr_base", C.c_void_p),
        ("fault", Fault),
        ("hist", C.c_void_p),
        ("ws", C.c_uint32),
        ("denorm_flush", C.c_uint32),
        ("trace", C.c_uint32),
        ("id", C.c_uint32 * 3),
    ]


class Launch(C.Structure):
    _fields_ = [
        ("grid", C.c_uint32 * 3),
        ("block", C.c_uint32 * 3),
        ("user", C.c_uint32 * 32),
        ("nuser", C.c_uint32),
        ("rsrc2", C.c_uint32),
        ("family", C.c_uint32),
        ("ws", C.c_uint32),
        ("nw", C.c_uint32),
        ("mode", C.c_uint32),
        ("ieee", C.c_uint32),
        ("lds_size", C.c_uint32),
        ("scratch", C.c_uint32),
        ("race_check", C.c_uint32),
        ("resume", C.c_uint32),
        ("cur", C.c_uint32),
        ("m0", C.c_uint32),
        ("v0_mask", C.c_uint32),
        ("pad", C.c_uint32),
        ("entry", C.c_uint64),
        ("wg_next", C.c_uint64),
        ("wg_step", C.c_uint64),
        ("wg_end", C.c_uint64),
        ("max_insts", C.c_uint64),
        ("wgs_done", C.c_uint64),
        ("insts", C.c_uint64),
        ("wgs", C.c_void_p),
        ("g", Group),
        ("waves", C.c_void_p),
        ("lds_mem", C.c_void_p),
        ("need_pc", C.c_uint64),
        ("slice", C.c_uint64),
    ]


DONE, DECODE, FAULT = 0, 1, 2
F_BOUNDS, F_LDS, F_SCRATCH, F_UNSUPPORTED, F_PC, F_LIMIT, F_ALIGN = 1, 2, 3, 4, 5, 6, 7


class MemoryFault(MemoryError):
    """an access outside of live memory; address: the first bad one"""

    address = 0


class Arena:
    """Device memory: one anonymous mapping with guard gaps. Addresses are real host addresses."""

    GUARD = 65536

    def __init__(self, size=1 << 30):
        self.mm = mmap.mmap(
            -1,
            size,
            flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0),
        )
        self.u8 = np.frombuffer(self.mm, np.uint8)
        self.base, self.size = self.u8.ctypes.data, size
        self.top, self.regions = self.GUARD, []

    def alloc(self, n, name="", align=4096):
        o = (self.top + align - 1) & -align
        self.top = o + n + self.GUARD
        if self.top > self.size:
            raise MemoryError("device memory full: use a larger arena")
        self.regions.append((o, o + n, name))
        return o

    def live(self):
        """sorted (low, high) addresses"""
        return sorted((self.base + lo, self.base + hi) for lo, hi, _ in self.regions)

    def describe(self, a):
        below = [r for r in self.regions if self.base + r[0] <= a]
        if not below:
            return "below all allocations"
        lo, hi, nm = max(below)
        return (
            f"{a - self.base - hi} bytes past the end of {nm!r} ({hi - lo} bytes)"
            if a >= self.base + hi
            else f"inside {nm!r}, runs over its end"
        )


class Emulator:
    def __init__(self, arena=1 << 30, racecheck=True, cache=None, verbose=0):
        self.b = Builder(cache)
        self.ar = Arena(arena) if isinstance(arena, int) else arena
        self.racecheck, self.verbose, self.programs, self.hist = racecheck, verbose, {}, None
        self.b.core.run_launch.argtypes = [C.c_void_p]
        for n, t in (("sizeof_op", Op), ("sizeof_launch", Launch)):
            f = getattr(self.b.core, n)
            f.restype = C.c_uint64
            if f() != C.sizeof(t):
                raise RuntimeError(f"structure {t.__name__}: {f()} bytes in C, {C.sizeof(t)} here")
        self.b.core.sizeof_wave.restype = C.c_uint64
        self.wave_size = self.b.core.sizeof_wave()
        self._waves = None
        self._lds = self._cells = None
        self._scr = None
        self.cells_size = 0
        self.epoch = 0

    # -- loading
    def load(self, co, gfx=None, name="code"):
        """place a code object in device memory -> Program"""
        im = len(co.image())
        o = self.ar.alloc(im + 256, name)
        self.ar.u8[o : o + im] = np.frombuffer(bytes(co.relocated(self.ar.base + o)), np.uint8)
        return self.program(co, self.ar.base + o, gfx)

    def program(self, co, base, gfx=None):
        """decoder state of a code object that lies at an address"""
        isa = Isa.get(gfx or co.gfx, self.b)
        off, size = co.text
        p = Program(isa, bytes(co.image()), base, off, size)
        p.co, p.image_base = co, base
        return p

    # -- launch
    def user_sgprs(self, kd, kernarg, kb, dispatch):
        user, p = [], kd["props"]

        def u64(x):
            user.extend((x & 0xFFFFFFFF, x >> 32))

        if p & 1:
            user.extend((0, 0, 0xFFFFFFFF, 0))
        if p & 2:
            u64(dispatch)
        if p & 4:
            u64(0)
        if p & 8:
            u64(kernarg)
        if p & 16:
            u64(0)
        if p & 32:
            u64(0)
        if p & 64:
            user.append(kd["scratch"])
        n, o = kd["preload"] & 0x7F, kd["preload"] >> 7
        kb = kb + b"\0" * (4 * (n + o))
        user += struct.unpack_from(f"<{n}I", kb, 4 * o)
        nu = (kd["rsrc2"] >> 1) & 31
        return user + [0] * (nu - len(user))

    @staticmethod
    def hidden(meta, kb, grid, block, dyn_lds):
        """hidden arguments that the metadata names"""
        v = {
            "hidden_block_count_x": grid[0],
            "hidden_block_count_y": grid[1],
            "hidden_block_count_z": grid[2],
            "hidden_group_size_x": block[0],
            "hidden_group_size_y": block[1],
            "hidden_group_size_z": block[2],
            "hidden_grid_dims": 1 + (grid[1] * block[1] > 1) + (grid[2] * block[2] > 1),
            "hidden_dynamic_lds_size": dyn_lds,
        }
        for a in meta.get(".args", []):
            if a[".value_kind"] in v:
                kb[a[".offset"] : a[".offset"] + a[".size"]] = int(v[a[".value_kind"]]).to_bytes(
                    a[".size"], "little"
                )

    def buffers(self, nw, lds, scratch_bytes):
        """work memory, kept between launches"""
        if self._waves is None or len(self._waves) < nw * self.wave_size + 64:
            self._waves = np.zeros(nw * self.wave_size + 64, np.uint8)
        if self._lds is None or len(self._lds) < lds + 64:
            self._lds = np.zeros(lds + 64, np.uint8)
            self._cells = np.zeros((lds + 64) * 4, np.uint32)
            self.epoch = 0
        if self._scr is None or len(self._scr) < scratch_bytes + 64:
            self._scr = np.zeros(scratch_bytes + 64, np.uint8)

        def al(a):
            return (a.ctypes.data + 63) & ~63

        return al(self._waves), al(self._lds), al(self._cells), al(self._scr)

    def launch(
        self,
        prog,
        kernel,
        grid,
        block,
        explicit,
        wgs=None,
        dyn_lds=0,
        max_inst=50_000_000,
        start=0,
        step=1,
        fill_hidden=True,
    ):
        """Run a kernel; explicit: bytes of the kernel argument block. wgs: list of (x, y, z) to run instead of all.
        Workgroups start, start + step, ... are run (for sharing a launch between processes)."""
        co, ar = prog.co, self.ar
        kd, meta = co.kd(kernel), co.kernels.get(kernel, {})
        arch = prog.isa.arch
        ws = 64 if arch == "cdna" else 32
        if meta.get(".wavefront_size", ws) != ws:
            raise Unsupported(f"wave size {meta.get('.wavefront_size')} on {prog.isa.gfx}")
        t0, c0 = time.perf_counter(), self.b.compile_s
        mark = (ar.top, len(ar.regions))
        ks = max(kd["kernarg"], len(explicit), meta.get(".kernarg_segment_size", 0))
        kb = bytearray(ks)
        kb[: len(explicit)] = explicit
        if fill_hidden:
            self.hidden(meta, kb, grid, block, dyn_lds)
        ka = ar.alloc(ks + 64, "kernel arguments")
        ar.u8[ka : ka + ks] = np.frombuffer(bytes(kb), np.uint8)
        pk = ar.alloc(64, "dispatch packet")
        ar.u8[pk : pk + 24] = np.frombuffer(
            struct.pack(
                "<HHHHHHIII", 0, 3, *block, 0, *[g * b for g, b in zip(grid, block, strict=False)]
            ),
            np.uint8,
        )
        try:
            return self._run(
                prog,
                kernel,
                kd,
                bytes(kb),
                ar.base + ka,
                ar.base + pk,
                grid,
                block,
                wgs,
                dyn_lds,
                max_inst,
                start,
                step,
                ws,
                t0,
                c0,
            )
        finally:
            ar.top, ar.regions[mark[1] :] = mark[0], []

    def _run(
        self,
        prog,
        kernel,
        kd,
        kb,
        kap,
        pkp,
        grid,
        block,
        wgs,
        dyn_lds,
        max_inst,
        start,
        step,
        ws,
        t0,
        c0,
    ):
        L = Launch()
        total = block[0] * block[1] * block[2]
        nw = (total + ws - 1) // ws
        lds = kd["lds"] + dyn_lds
        lds_size = (lds + 511) // 512 * 512
        if total > 1024:
            raise ValueError(f"block of {total} work-items")
        user = self.user_sgprs(kd, kap, kb, pkp)
        if len(user) > 32:
            raise Unsupported(f"{len(user)} user SGPRs")
        L.grid[:], L.block[:], L.nuser, L.rsrc2 = grid, block, len(user), kd["rsrc2"]
        L.user[: len(user)] = [x & 0xFFFFFFFF for x in user]
        L.family = {"cdna": 0, "rdna3": 3, "rdna4": 4}[prog.isa.arch]
        L.ws, L.nw, L.m0 = ws, nw, prog.isa.fb.m0
        L.mode = kd["rsrc1"] >> 12 & 255
        L.ieee = 0 if prog.isa.arch == "rdna4" else kd["rsrc1"] >> 23 & 1
        if L.mode & 0xC:
            raise Unsupported("rounding mode of f16 and f64 other than to nearest")
        L.scratch = (kd["scratch"] + 15) // 16 * 16
        L.entry = prog.image_base + kd["entry"]
        L.max_insts = max_inst
        L.slice = 2_000_000
        n = len(wgs) if wgs is not None else grid[0] * grid[1] * grid[2]
        L.wg_next, L.wg_step, L.wg_end = start, step, n
        if wgs is not None:
            lst = np.array(wgs, np.uint32).reshape(-1, 3)
            L.wgs = lst.ctypes.data
        waves, ldsp, cells, scr = self.buffers(nw, lds_size, L.scratch * ws * nw)
        regs = np.array(self.ar.live(), np.uint64).reshape(-1, 2)
        g = L.g
        L.waves, g.lds, g.cells, g.scr_base, g.lds_size, g.nwaves, g.race_check, g.scratch, g.ws = (
            waves,
            ldsp,
            cells,
            scr,
            lds_size,
            nw,
            int(self.racecheck),
            L.scratch,
            ws,
        )
        g.reg, g.nreg, g.map, g.code, g.code_size, g.max_insts, g.epoch = (
            regs.ctypes.data,
            len(regs),
            prog.map.ctypes.data,
            prog.base,
            prog.size,
            max_inst,
            self.epoch,
        )
        if self.verbose:
            hist = np.zeros(prog.size // 4 + 1, np.uint64)
            g.hist = hist.ctypes.data
        prep = time.perf_counter()
        while True:
            st = self.b.core.run_launch(C.byref(L))
            if st != DECODE:
                break
            prog.decode_from(L.need_pc)
        self.epoch = g.epoch
        races = [
            (
                prog.name(g.race_pc[k]),
                g.race_pc[k] - prog.image_base,
                g.race_addr[k],
                g.race_wave[k],
                bool(g.race_write[k]),
            )
            for k in range(min(4, g.races))
        ]
        for nm, off, a, w, wr in races[:3]:
            print(
                f"[amdemu] LDS race: wave {w} {'writes' if wr else 'reads'} byte {a} that another wave uses between the same barriers ({nm} at +{off:#x})",
                file=sys.stderr,
            )
        if st == FAULT:
            self.raise_fault(prog, L)
        if self.verbose:
            self.hist = collections.Counter()
            for k in np.flatnonzero(hist):
                self.hist[prog.names.get(int(k) * 4, "?")] += int(hist[k])
        dt = time.perf_counter() - t0
        return {
            "rc": 0,
            "insts": g.insts,
            "seconds": dt,
            "compile_s": self.b.compile_s - c0,
            "run_s": time.perf_counter() - prep,
            "races": g.races,
            "lds": lds,
            "kd": kd,
            "wgs": L.wgs_done,
            "static": prog.decoded,
        }

    def raise_fault(self, prog, L):
        f, g = L.g.fault, L.g
        nm = prog.name(f.pc)
        off = f.pc - prog.image_base
        where = f"workgroup {tuple(g.id)} wave {f.wave} lane {f.lane} at +{off:#x} {nm}"
        if f.kind in (F_BOUNDS, F_PC):
            d = "" if f.kind == F_PC else self.ar.describe(f.addr)
            e = MemoryFault(
                f"{nm} of {f.size} bytes per lane: out-of-bounds access at address {f.addr:#x}{', ' + d if d else ''}; {where}"
                if f.kind == F_BOUNDS
                else f"jump to {f.addr:#x}, outside of the code; {where}"
            )
            e.address = f.addr
            raise e
        if f.kind == F_LDS:
            raise MemoryFault(
                f"{nm}: LDS address {f.addr:#x}+{f.size} beyond {g.lds_size:#x}; {where}"
            )
        if f.kind == F_SCRATCH:
            raise MemoryFault(
                f"{nm}: scratch offset {f.addr:#x}+{f.size} beyond {g.scratch:#x}; {where}"
            )
        if f.kind == F_ALIGN:
            raise MemoryFault(f"{nm}: misaligned address {f.addr:#x}; {where}")
        if f.kind == F_LIMIT:
            raise RuntimeError(
                f"more than {g.max_insts} wave-instructions (endless loop, or a wait for a workgroup that has not run yet?); {where}"
            )
        raise Unsupported(f"{f.what.decode() if f.what else 'unknown reason'}; {where}")


def layout_args(items, ar):
    """positional arguments -> (explicit kernel argument bytes, [(name, array, offset)]).  numpy array: a buffer and its pointer, ("name", array)
    names it; numpy scalar or bytes: by value; (alignment, bytes): a structure; ("ptr", name): pointer to a named buffer"""
    b, bufs, names = bytearray(), [], {}

    def put(x, al):
        while len(b) % al:
            b.append(0)
        b.extend(x)

    for it in items:
        nm = None
        if isinstance(it, tuple) and it[0] == "ptr":
            put(struct.pack("<Q", ar.base + names[it[1]]), 8)
            continue
        if isinstance(it, tuple) and isinstance(it[0], int):
            put(bytes(it[1]), it[0])
            continue
        if isinstance(it, tuple):
            nm, it = it
        if isinstance(it, np.ndarray) and it.ndim:
            nm = nm or f"arg{len(bufs)}"
            o = ar.alloc(it.nbytes, nm)
            ar.u8[o : o + it.nbytes] = np.ascontiguousarray(it).view(np.uint8).ravel()
            bufs.append((nm, it, o))
            names[nm] = o
            put(struct.pack("<Q", ar.base + o), 8)
        elif isinstance(it, (bytes, bytearray)):
            put(it, 8)
        else:
            v = np.asarray(it)
            v = v.astype(np.int32) if v.dtype == np.int64 and isinstance(it, int) else v
            put(v.tobytes(), v.nbytes)
    return bytes(b), bufs


def run(co, kernel, grid, block, items=None, bufs=None, kernarg=None, emu=None, gfx=None, **kw):
    """Convenience: -> (result, {name: array after the run}). items: see layout_args; or bufs {name: array} and kernarg(ptr) -> bytes."""
    lk = {k: kw.pop(k) for k in ("wgs", "dyn_lds", "max_inst") if k in kw}
    em = emu or Emulator(**kw)
    co = co if isinstance(co, CodeObject) else CodeObject(co, gfx)
    pr = em.load(co)
    if kernarg is not None:
        bl, off = [], {}
        for n, a in (bufs or {}).items():
            o = em.ar.alloc(a.nbytes, n)
            em.ar.u8[o : o + a.nbytes] = np.ascontiguousarray(a).view(np.uint8).ravel()
            bl.append((n, a, o))
            off[n] = o
        exp = kernarg(lambda n: em.ar.base + off[n])
    else:
        exp, bl = layout_args(items or [], em.ar)
    r = em.launch(pr, kernel, grid, block, exp, **lk)
    return r, {
        n: em.ar.u8[o : o + a.nbytes].copy().view(a.dtype).reshape(a.shape) for n, a, o in bl
    }
