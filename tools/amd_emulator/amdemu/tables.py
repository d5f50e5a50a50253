"""Instruction tables from the tinygrad wheel.

The wheel ships AMD's machine-readable ISA data: bit fields and opcodes of each encoding (ins.py, enum.py), operand sizes and
formats (operands.py) and the pseudocode strings (str_pcode.py).  Only these data modules are loaded; the package itself is not
imported (it would start a tensor library).  The result is reduced to plain dictionaries and kept in the cache folder, so that a
later start needs neither the wheel's modules nor the time to build their thousands of helper objects.
"""

import hashlib
import importlib
import importlib.util
import os
import pickle
import re
import sys
import types

WHEEL = "tinygrad"
ARCHS = ("cdna", "rdna3", "rdna4")
VERSION = 4  # of the layout below


# gfx name -> table
def arch_of(gfx):
    if gfx in ("gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"):
        return "cdna"
    if gfx.startswith("gfx12"):
        return "rdna4"
    if gfx.startswith("gfx11"):
        return "rdna3"
    raise ValueError(f"no instruction tables for {gfx}")


def wheel_dir():
    """folder of the wheel's package: AMDEMU_WHEEL (the folder that contains it), else the installed one"""
    d = os.environ.get("AMDEMU_WHEEL")
    if d:
        p = d if os.path.isdir(os.path.join(d, "runtime", "autogen")) else os.path.join(d, WHEEL)
    else:
        spec = importlib.util.find_spec(WHEEL)
        p = next(iter(spec.submodule_search_locations)) if spec else None
        if p is None:
            raise RuntimeError(
                "there are no ISA tables: `make amd-emulator` installs them, and AMDEMU_WHEEL names their folder"
            )
    if not os.path.isfile(os.path.join(p, "runtime", "autogen", "amd", "cdna", "str_pcode.py")):
        raise RuntimeError(f"{p} does not hold the AMD tables of {WHEEL} 0.14.0")
    return p


def _import_data(p):
    """import the data modules below empty stand-ins for their parent packages"""
    names = [
        WHEEL,
        f"{WHEEL}.renderer",
        f"{WHEEL}.renderer.amd",
        f"{WHEEL}.runtime",
        f"{WHEEL}.runtime.autogen",
        f"{WHEEL}.runtime.autogen.amd",
    ]
    names += [f"{WHEEL}.runtime.autogen.amd.{a}" for a in ARCHS]
    saved = {n: m for n, m in sys.modules.items() if n == WHEEL or n.startswith(WHEEL + ".")}
    for n in saved:
        del sys.modules[n]
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        for n in names:
            m = types.ModuleType(n)
            m.__path__ = [os.path.join(p, *n.split(".")[1:])]
            sys.modules[n] = m
        return {
            a: tuple(
                importlib.import_module(f"{WHEEL}.runtime.autogen.amd.{a}.{k}")
                for k in ("ins", "str_pcode", "operands")
            )
            for a in ARCHS
        }
    finally:
        sys.dont_write_bytecode = bytecode
        for n in [n for n in sys.modules if n == WHEEL or n.startswith(WHEEL + ".")]:
            del sys.modules[n]
        sys.modules.update(saved)


def _reduce(ins, pcode, operands):
    """one architecture -> {'formats': {...}, 'vopd': {...}}; an opcode is (name, pseudocode, operands)"""
    cache, text = {}, {}

    def plain(e):
        return re.sub(r"_E(32|64)$", "", e.name)

    for e, t in pcode.PCODE.items():
        text.setdefault(plain(e), t)  # an opcode's text is listed under one of its encodings only

    def opcode(e):
        if e not in cache:
            ops = {
                k: (f.name.replace("FMT_NUM_", "").replace("FMT_", ""), bits, t.name)
                for k, (f, bits, t) in operands.OPERANDS.get(e, {}).items()
            }
            cache[e] = (plain(e), pcode.PCODE.get(e) or text.get(plain(e), ""), ops)
        return cache[e]

    base = ins.Inst
    out = {}
    for name, c in vars(ins).items():
        if not (isinstance(c, type) and issubclass(c, base) and c is not base):
            continue
        fields, fixed, ops = {}, [], {}
        for fn, f in c._fields:
            w = f.hi - f.lo + 1
            kind = type(f).__name__
            if kind == "FixedBitField":
                fixed.append((f.lo, (1 << w) - 1, f.default))
            else:
                fields[fn] = (f.lo, (1 << w) - 1, kind)
            if kind == "EnumBitField" and fn in ("op", "opx", "opy"):
                ops = {e.value: opcode(e) for e in f._enum if f.allowed is None or e in f.allowed}
        out[name] = {"size": c._base_size, "fields": fields, "fixed": fixed, "ops": ops}
    return out


_loaded = {}


def load(arch, cache_dir):
    """tables of one architecture family, from the cache folder when present"""
    if arch in _loaded:
        return _loaded[arch]
    p = wheel_dir()
    h = hashlib.sha256(repr(VERSION).encode())
    for a in (arch,):
        for k in ("ins", "str_pcode", "operands"):
            st = os.stat(os.path.join(p, "runtime", "autogen", "amd", a, k + ".py"))
            h.update(f"{a}{k}{st.st_size}{st.st_mtime_ns}".encode())
    f = os.path.join(cache_dir, f"tables-{arch}-{h.hexdigest()[:16]}.pkl")
    try:
        with open(f, "rb") as fh:
            _loaded[arch] = pickle.load(fh)
    except (OSError, pickle.PickleError, EOFError):
        mods = _import_data(p)
        t = _reduce(*mods[arch])
        os.makedirs(cache_dir, exist_ok=True)
        tmp = f"{f}.{os.getpid()}"
        with open(tmp, "wb") as fh:
            pickle.dump(t, fh, protocol=5)
        os.replace(tmp, f)
        _loaded[arch] = t
    return _loaded[arch]
