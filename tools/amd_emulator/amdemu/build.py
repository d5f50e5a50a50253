"""Compiles the core library and the instruction forms with the host C compiler; keeps the results in a cache folder.

Cache folder (AMDEMU_CACHE, default ~/.cache/amdemu): core-HASH.so, forms-HASH.so and one index file per core version, to which each
batch appends a line per form.  Files are written under a temporary name and renamed, so several processes may share a folder.
"""

import ctypes
import hashlib
import os
import platform
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CORE = ("run", "ctl", "mem", "ds", "atomic", "xlane", "fp8", "matrix")


def cache_dir():
    d = os.environ.get("AMDEMU_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "amdemu"
    )
    os.makedirs(d, exist_ok=True)
    return d


def host_flags():
    """instruction set extensions that the helpers profit from; part of the cache key, as a folder may be shared between machines"""
    if platform.machine() not in ("x86_64", "AMD64"):
        return []
    try:
        with open("/proc/cpuinfo") as f:
            flags = next((l.split() for l in f if l.startswith("flags")), [])
    except OSError:
        flags = []
    return ["-mfma", "-mf16c", "-mavx2"] if {"fma", "f16c", "avx2"} <= set(flags) else []


class Builder:
    """-ffp-contract=off: a multiplication and an addition of the pseudocode are two roundings"""

    BASE = [
        "-std=gnu11",
        "-fPIC",
        "-shared",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fwrapv",
        "-fno-strict-aliasing",
        "-w",
    ]

    def __init__(self, cache=None):
        self.cc = os.environ.get("CC") or "cc"
        self.cache = cache or cache_dir()
        self.compile_s = 0.0
        self.flags = self.BASE + host_flags()
        h = hashlib.sha256(repr((self.cc, self.flags)).encode())
        for f in sorted(os.listdir(os.path.join(HERE, "csrc"))):
            if f.endswith((".c", ".h")):
                with open(os.path.join(HERE, "csrc", f), "rb") as fh:
                    h.update(f.encode() + fh.read())
        self.key = h.hexdigest()[:16]
        self.libs, self.fn = {}, {}
        self.index, self.index_pos = {}, 0
        self.index_file = os.path.join(self.cache, f"index-{self.key}")
        self.core = self.load_core()

    def run_cc(self, args, out, what):
        tmp = f"{out}.{os.getpid()}.so"
        t = time.perf_counter()
        r = subprocess.run(
            [self.cc, *self.flags, "-o", tmp, *args, "-lm"], capture_output=True, text=True
        )
        self.compile_s += time.perf_counter() - t
        if r.returncode:
            raise RuntimeError(f"{self.cc} failed on {what}:\n{r.stderr[:4000]}")
        os.replace(tmp, out)

    def load_core(self):
        so = os.path.join(self.cache, f"core-{self.key}.so")
        if not os.path.exists(so):
            self.run_cc(
                ["-O3", *[os.path.join(HERE, "csrc", c + ".c") for c in CORE]],
                so,
                "the core library",
            )
        return ctypes.CDLL(
            so, mode=ctypes.RTLD_GLOBAL
        )  # global: the form libraries use its symbols

    def core_fn(self, name):
        return ctypes.cast(getattr(self.core, name), ctypes.c_void_p).value

    def read_index(self):
        try:
            with open(self.index_file) as f:
                f.seek(self.index_pos)
                for line in f:
                    if not line.endswith("\n"):
                        break
                    h, so = line.split()
                    self.index[h] = so
                    self.index_pos += len(line)
        except (OSError, ValueError):
            pass

    def lookup(self, h):
        so = self.index.get(h)
        if so is None:
            return None
        lib = self.libs.get(so)
        if lib is None:
            try:
                lib = self.libs[so] = ctypes.CDLL(os.path.join(self.cache, so))
            except OSError:
                del self.index[h]
                return None
        try:
            return ctypes.cast(getattr(lib, "f_" + h), ctypes.c_void_p).value
        except AttributeError:
            return None

    def by_hash(self, h):
        """address of a form that an earlier process has compiled, or None"""
        if h not in self.fn:
            if h not in self.index:
                self.read_index()
            a = self.lookup(h)
            if not a:
                return None
            self.fn[h] = a
        return self.fn[h]

    @staticmethod
    def form_hash(form):
        return hashlib.sha256((form.key + "\n" + form.text).encode()).hexdigest()[:20]

    def functions(self, forms):
        """addresses of the functions of the forms; the ones that are not in the cache are compiled in one batch"""
        hs = [self.form_hash(f) for f in forms]
        missing = {h: f for h, f in zip(hs, forms, strict=False) if h not in self.fn}
        if missing:
            self.read_index()
            for h in list(missing):
                a = self.lookup(h)
                if a:
                    self.fn[h] = a
                    del missing[h]
            if missing:
                self.compile_forms(missing)
        return [self.fn[h] for h in hs]

    def compile_forms(self, missing):
        items = list(missing.items())
        os.cpu_count() or 1
        for j in range(0, len(items), 400):
            part = items[j : j + 400]
            name = (
                "forms-"
                + hashlib.sha256(
                    (self.key + "".join(sorted(h for h, _ in part))).encode()
                ).hexdigest()[:20]
                + ".so"
            )
            so = os.path.join(self.cache, name)
            if not os.path.exists(so):
                with tempfile.TemporaryDirectory(prefix="amdemu") as d:
                    src = os.path.join(d, "forms.c")
                    with open(src, "w") as f:
                        f.write('#include "lane.h"\n')
                        for h, form in part:
                            z = "#define FNUZ 1\n" if form.key.endswith("z") else "#define FNUZ 0\n"
                            f.write(
                                f"{z}/* {form.key} */\nint f_{h}(Wave *w, const Op *o) {{ {form.text} }}\n#undef FNUZ\n"
                            )
                    self.run_cc(
                        ["-O1", "-I" + os.path.join(HERE, "csrc"), src],
                        so,
                        f"{len(part)} instruction forms",
                    )
            lines = "".join(f"{h} {name}\n" for h, _ in part)
            fd = os.open(self.index_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(fd, lines.encode())
            finally:
                os.close(fd)
            for h, _ in part:
                self.index[h] = name
            for h, f in part:
                a = self.lookup(h)
                if not a:
                    raise RuntimeError(f"form {f.key} is missing in {name}")
                self.fn[h] = a
