"""Decoded code of one code object: machine code -> Op structures, instruction forms compiled in batches.

What decoding from an entry point gives is kept in the cache folder (code-HASH.pkl), so that a later process neither decodes nor
generates text: it only resolves the functions.
"""

import ctypes
import hashlib
import os
import pickle

import numpy as np

from . import tables
from .decode import Decoder, Unsupported
from .forms import FormBuilder
from .native import native

HERE = os.path.dirname(os.path.abspath(__file__))


class Op(ctypes.Structure):
    """struct Op of csrc/emu.h"""

    _fields_ = [
        ("fn", ctypes.c_void_p),
        ("k", ctypes.c_uint64 * 3),
        ("a", ctypes.c_uint16 * 4),
        ("d", ctypes.c_uint16),
        ("d1", ctypes.c_uint16),
        ("imm", ctypes.c_int32),
        ("x", ctypes.c_uint32),
        ("y", ctypes.c_uint32),
        ("size", ctypes.c_uint16),
        ("flags", ctypes.c_uint16),
        ("msg", ctypes.c_char_p),
    ]


OP = np.dtype(
    {
        "names": ["fn", "k", "a", "d", "d1", "imm", "x", "y", "size", "msg"],
        "formats": ["<u8", ("<u8", 3), ("<u2", 4), "<u2", "<u2", "<i4", "<u4", "<u4", "<u2", "<u8"],
        "offsets": [
            Op.fn.offset,
            Op.k.offset,
            Op.a.offset,
            Op.d.offset,
            Op.d1.offset,
            Op.imm.offset,
            Op.x.offset,
            Op.y.offset,
            Op.size.offset,
            Op.msg.offset,
        ],
        "itemsize": ctypes.sizeof(Op),
    }
)


def source_key():
    h = hashlib.sha256()
    for f in sorted(os.listdir(HERE)):
        if f.endswith(".py"):
            with open(os.path.join(HERE, f), "rb") as fh:
                h.update(fh.read())
    return h.digest()


class Isa:
    """decoder and form builder of one target"""

    _all = {}

    @classmethod
    def get(cls, gfx, builder):
        k = (gfx, builder.key)
        if k not in cls._all:
            cls._all[k] = cls(gfx, builder)
        return cls._all[k]

    def __init__(self, gfx, builder):
        self.gfx, self.arch, self.builder = gfx, tables.arch_of(gfx), builder
        self.fb = FormBuilder(self.arch, gfx)
        self._dec = None
        self.known = {}
        self.key = hashlib.sha256(source_key() + f"{gfx} {builder.key}".encode()).digest()

    @property
    def dec(self):
        if self._dec is None:
            self._dec = Decoder(tables.load(self.arch, self.builder.cache), self.arch)
        return self._dec

    def lower(self, b, o):
        """instruction at offset o -> (Ins or None, C function name or Form, operands, reason why unsupported)"""
        try:
            i = self.dec.decode(b, o)
        except ValueError as e:
            return None, "h_unsupported", {"size": 4}, str(e)
        k = (i.fmt, i.raw, i.lit)
        r = self.known.get(k)
        if r is None:
            r = self.known[k] = self._lower(i)
        return r

    def _lower(self, i):
        try:
            n = native(i, self.fb)
            if n:
                return i, n[0], n[1], None
            f = (
                self.fb.salu(i)
                if i.fmt in ("SOP1", "SOP2", "SOPC", "SOPK", "SOPP") or i.name.startswith("V_S_")
                else self.fb.valu(i)
            )
            return i, f, f.op, None
        except Unsupported as e:
            return i, "h_unsupported", {"size": i.size}, str(e)


class Program:
    """the executable part of a code object at its address; filled on demand, from an entry along the control flow"""

    def __init__(self, isa, code, base, text_off, text_size):
        self.isa, self.bytes, self.base, self.size, self.text_off = (
            isa,
            code,
            base + text_off,
            text_size,
            text_off,
        )
        self.map = np.zeros(text_size // 4 + 8, np.uint64)
        self.names, self.keep, self.decoded = {}, [], 0
        self._text_hash = None

    def cache_file(self, o):
        if self._text_hash is None:
            self._text_hash = hashlib.sha256(
                self.bytes[self.text_off : self.text_off + self.size]
            ).digest()
        return os.path.join(
            self.isa.builder.cache,
            "code-"
            + hashlib.sha256(self.isa.key + self._text_hash + str(o).encode()).hexdigest()[:24]
            + ".pkl",
        )

    def decode_from(self, pc):
        """decode everything that can be reached from pc without an indirect jump"""
        f = self.cache_file(pc - self.base)
        try:
            with open(f, "rb") as fh:
                d = pickle.load(fh)
            if self.install(d):
                return
        except (OSError, EOFError, pickle.PickleError, KeyError):
            pass
        d = self.trace(pc - self.base)
        self.install(d)
        tmp = f"{f}.{os.getpid()}"
        with open(tmp, "wb") as fh:
            pickle.dump(d, fh, protocol=5)
        os.replace(tmp, f)

    def trace(self, start):
        todo, seen, got = [start], set(), []
        while todo:
            o = todo.pop()
            while 0 <= o < self.size and o not in seen:
                seen.add(o)
                i, fn, op, why = self.isa.lower(self.bytes, self.text_off + o)
                got.append((o, i, fn, op, why))
                name = i.name if i else "?"
                if i is None:
                    break
                if name.startswith(("S_BRANCH", "S_CBRANCH", "S_CALL")) and "imm" in op:
                    todo.append(o + 4 + 4 * op["imm"])
                if name in ("S_ENDPGM", "S_ENDPGM_SAVED", "S_BRANCH", "S_SETPC_B64"):
                    break
                o += op["size"]
        forms = {id(g[2]): g[2] for g in got if not isinstance(g[2], str)}
        self.isa.builder.functions(list(forms.values()))
        ref = {k: "f:" + self.isa.builder.form_hash(f) for k, f in forms.items()}
        ops = np.zeros(len(got), OP)
        fns, names, msgs, fidx = {}, [], {}, np.zeros(len(got), np.uint32)
        for n, (o, i, fn, op, why) in enumerate(got):
            r = "c:" + fn if isinstance(fn, str) else ref[id(fn)]
            fidx[n] = fns.setdefault(r, len(fns))
            t = ops[n]
            t["size"] = op["size"]
            names.append(
                i.name
                if i
                else f"undecodable {int.from_bytes(self.bytes[self.text_off + o : self.text_off + o + 4], 'little'):#010x}"
            )
            if why is not None:
                msgs[n] = why
            else:
                t["k"], t["a"], t["d"], t["d1"], t["imm"], t["x"], t["y"] = (
                    op["k"],
                    op["a"],
                    op["d"],
                    op["d1"],
                    op["imm"],
                    op["x"],
                    op["y"],
                )
        return {
            "offs": np.array([g[0] for g in got], np.int64),
            "ops": ops.tobytes(),
            "fidx": fidx,
            "fns": list(fns),
            "names": names,
            "msgs": msgs,
        }

    def install(self, d):
        """resolve the functions and enter the instructions; False when a compiled form is no longer there"""
        b = self.isa.builder
        addr = []
        for r in d["fns"]:
            a = b.core_fn(r[2:]) if r[0] == "c" else b.by_hash(r[2:])
            if a is None:
                return False
            addr.append(a)
        ops = np.frombuffer(bytearray(d["ops"]), OP)
        ops["fn"] = np.array(addr, np.uint64)[d["fidx"]]
        self.keep.append(ops)
        for n, s in d["msgs"].items():
            c = ctypes.create_string_buffer(s.encode())
            self.keep.append(c)
            ops["msg"][n] = ctypes.addressof(c)
        # an instruction that is entered already stays: waves may be in the middle of it
        at = d["offs"] // 4
        new = self.map[at] == 0
        self.map[at[new]] = (
            ops.ctypes.data + np.arange(len(ops), dtype=np.uint64) * np.uint64(OP.itemsize)
        )[new]
        self.names.update(zip(d["offs"].tolist(), d["names"], strict=False))
        self.decoded += len(ops)
        return True

    def name(self, pc):
        return self.names.get(pc - self.base, "?")
