#!/usr/bin/env python3
"""worker.py: executes the launches of libamdhip64.so (hip_emu.cpp) with amdemu (the folder above).

  worker.py --fd N          serve one host process over the socket N (the library starts it this way)
  worker.py --server PATH   listen on PATH and fork a ready-made worker per host process (EMUHIP_SERVER=PATH)

Environment: AMDEMU_WHEEL (folder of the tinygrad wheel, unless installed), AMDEMU_CACHE or EMUHIP_CACHE (cache folder), EMUHIP_MAX_INST,
EMUHIP_JOBS, EMUHIP_WORKER_V=1 (tracebacks).
"""

import array
import ctypes
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
if os.environ.get("EMUHIP_CACHE"):
    os.environ.setdefault("AMDEMU_CACHE", os.environ["EMUHIP_CACHE"])
sys.dont_write_bytecode = os.environ.get("PYTHONDONTWRITEBYTECODE", "") != ""
import contextlib

import numpy as np
from amdemu.codeobj import CodeObject
from amdemu.core import Emulator, MemoryFault
from amdemu.decode import Unsupported

MAGIC, HELLO, LOAD, LAUNCH = 0x50494855, 1, 2, 3
HEAD, REPLY = struct.Struct("<IIQ"), struct.Struct("<IiQQQddII")


class Shared:
    """the host's device memory, at the host's addresses; the emulator's own blocks lie in a part of it that the host leaves alone"""

    GUARD = 4096

    def __init__(self, fd, base, total, own, own_size):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_long,
        ]
        fixed_noreplace, noreserve = 0x100000, 0x4000
        p = libc.mmap(
            base,
            total,
            mmap.PROT_READ | mmap.PROT_WRITE,
            mmap.MAP_SHARED | noreserve | fixed_noreplace,
            fd,
            0,
        )
        if p != base:
            raise MemoryError(
                f"cannot map device memory at {base:#x}: {os.strerror(ctypes.get_errno())}"
            )
        self.u8 = np.ctypeslib.as_array((ctypes.c_uint8 * total).from_address(base))
        self.base, self.own, self.own_size, self.regions = base, own, own_size, []
        self.private(0)

    def private(self, j):  # job j of a launch has its own part
        self.lo, self.hi = (
            self.own + self.own_size // 16 * (j % 16),
            self.own + self.own_size // 16 * (j % 16 + 1),
        )
        self.top = self.lo

    def begin(self, regions):
        self.regions, self.top = regions, self.lo

    def alloc(self, n, name="", align=4096):
        o = (self.top + align - 1) & -align
        self.top = o + n + self.GUARD
        if self.top > self.hi:
            raise MemoryError("worker memory full")
        self.regions.append((o, o + n, name))
        return o

    def live(self):
        return sorted((self.base + r[0], self.base + r[1]) for r in self.regions)

    def describe(self, a):
        return ""  # the host knows the allocations and completes the message


class Module:
    """a loaded code object; the host has placed and relocated its image"""

    def __init__(self, em, elf, off, gfx):
        self.co = CodeObject(elf)
        self.prog = em.program(self.co, em.ar.base + off, gfx)


def read_exact(s, n):
    b = bytearray()
    while len(b) < n:
        c = s.recv(n - len(b))
        if not c:
            os._exit(0)  # the host has ended
        b += c
    return bytes(b)


def reply(s, status=0, msg="", insts=0, fault=0, seconds=0.0, compile_s=0.0, races=0, wgs=0):
    m = msg.encode()
    s.sendall(
        REPLY.pack(
            MAGIC,
            status,
            insts,
            fault,
            len(m),
            seconds,
            compile_s,
            min(races, 0xFFFFFFFF),
            min(wgs, 0xFFFFFFFF),
        )
        + m
    )


def watch(s):
    """end with the host, even inside a long launch"""
    p = select.poll()
    p.register(s, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    while True:
        if any(
            e & (select.POLLRDHUP | select.POLLHUP | select.POLLERR | select.POLLNVAL)
            for _, e in p.poll(5000)
        ):
            os._exit(0)


def serve(get_emu, s):
    head, anc, _, _ = s.recvmsg(HEAD.size, socket.CMSG_SPACE(8))
    if len(head) < HEAD.size:
        os._exit(0)
    magic, cmd, ln = HEAD.unpack(head)
    fds = array.array("i")
    for lv, ty, data in anc:
        if lv == socket.SOL_SOCKET and ty == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    pay = read_exact(s, ln)
    if magic != MAGIC or cmd != HELLO or len(fds) != 2:
        os._exit(3)
    os.dup2(fds[1], 1)
    os.dup2(fds[1], 2)
    os.close(fds[1])
    threading.Thread(target=watch, args=(s,), daemon=True).start()
    base, total, own, own_size, _version, _pid, races = struct.unpack("<7Q", pay)
    try:
        em = get_emu()
        em.racecheck = bool(races)
        em.ar = Shared(fds[0], base, total, own, own_size)
    except (Exception, SystemExit) as ex:
        reply(s, 1, f"{type(ex).__name__}: {ex}")
        os._exit(1)
    reply(s)
    mods = {}
    max_inst = int(os.environ.get("EMUHIP_MAX_INST") or 2_000_000_000)
    while True:
        magic, cmd, ln = HEAD.unpack(read_exact(s, HEAD.size))
        b = read_exact(s, ln)
        try:
            if magic != MAGIC:
                os._exit(3)
            if cmd == LOAD:
                mid, _, off, n = struct.unpack_from("<IIQI", b, 0)
                mods[mid] = Module(em, b[20 + n :], off, b[20 : 20 + n].decode())
                reply(s)
            elif cmd == LAUNCH:
                launch(em, mods, b, s, max_inst)
            else:
                reply(s, 1, f"unknown command {cmd}")
        except KeyboardInterrupt:
            os._exit(130)
        except (BrokenPipeError, ConnectionError):
            os._exit(0)
        except BaseException as ex:
            if os.environ.get("EMUHIP_WORKER_V"):
                import traceback

                traceback.print_exc()
            kind = {
                "MemoryFault": "memory fault",
                "MemoryError": "memory fault",
                "Unsupported": "not supported by the emulator",
                "RuntimeError": "stopped",
            }.get(type(ex).__name__, type(ex).__name__)
            reply(s, 2, f"{kind}: {ex}", fault=getattr(ex, "address", 0))


def launch(em, mods, b, s, max_inst):
    mid, *d = struct.unpack_from("<10I", b, 0)
    o = 40
    dyn, n = struct.unpack_from("<QI", b, o)
    o += 12
    name = b[o : o + n].decode()
    o += n
    (n,) = struct.unpack_from("<I", b, o)
    o += 4
    kb = b[o : o + n]
    o += n
    (n,) = struct.unpack_from("<I", b, o)
    o += 4
    m = mods[mid]
    grid, block = tuple(d[0:3]), tuple(d[3:6])
    regions = [struct.unpack_from("<QQ", b, o + 16 * i) for i in range(n)]
    t = time.perf_counter()

    def part(start, step, wgs=None):
        em.ar.begin([(*r, "allocation") for r in regions])
        r = em.launch(
            m.prog,
            name,
            grid,
            block,
            kb,
            dyn_lds=dyn,
            max_inst=max_inst,
            wgs=wgs,
            start=start,
            step=step,
            fill_hidden=False,
        )
        return r["insts"], r["compile_s"], r["races"], r["wgs"]

    jobs = int(os.environ.get("EMUHIP_JOBS") or 1)
    n = grid[0] * grid[1] * grid[2]
    if jobs < 2 or n < 3:
        got = [part(0, 1)]
    else:
        got = [part(0, n)]  # the first workgroup compiles the instruction forms that are new
        got += share(em, min(jobs, n - 1), part)
    insts, comp, races, done = (sum(x[i] for x in got) for i in range(4))
    reply(s, 0, "", insts, 0, time.perf_counter() - t, comp, races, done)


def share(em, jobs, part):
    """the other workgroups in forked processes; memory is shared, atomics are atomic"""
    kids = []
    for j in range(1, jobs):
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # end with the worker
                os.close(r)
                em.ar.private(j)
                out = ("ok", part(1 + j, jobs), 0)
            except BaseException as ex:
                out = (type(ex).__name__, str(ex), getattr(ex, "address", 0))
            try:
                sys.stderr.flush()
                b = pickle.dumps(out)
                while b:
                    b = b[os.write(w, b) :]
            finally:
                os._exit(0)
        os.close(w)
        kids.append((pid, r))
    got, err = [], None
    try:
        got.append(part(1, jobs))
    except Exception as ex:
        err = ex
    for pid, r in kids:
        with os.fdopen(r, "rb") as f:
            data = f.read()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        kind, val, addr = (
            pickle.loads(data)
            if data
            else ("RuntimeError", "a process of the launch ended early", 0)
        )
        if kind == "ok":
            got.append(val)
        elif err is None:
            err = {
                "MemoryFault": MemoryFault,
                "MemoryError": MemoryError,
                "Unsupported": Unsupported,
            }.get(kind, RuntimeError)(val)
            if kind == "MemoryFault":
                err.address = addr
    if err is not None:
        raise err
    return got


def server(path):
    em = Emulator(arena=1 << 20)
    if os.path.exists(path):
        os.unlink(path)
    ls = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    ls.bind(path)
    ls.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    def stop(*_):
        try:
            os.unlink(path)
        finally:
            os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"[emuhip worker] ready on {path}, pid {os.getpid()}", file=sys.stderr, flush=True)
    while True:
        c, _ = ls.accept()
        if os.fork() == 0:
            ls.close()
            [
                signal.signal(x, signal.SIG_DFL)
                for x in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
            ]  # the emulator runs a compiler
            try:
                serve(lambda: em, c)
            finally:
                os._exit(1)
        c.close()


def main():
    if sys.argv[1:2] == ["--server"] and len(sys.argv) == 3:
        return server(sys.argv[2])
    if sys.argv[1:2] == ["--fd"] and len(sys.argv) == 3:
        s = socket.socket(fileno=int(sys.argv[2]))
        os.set_inheritable(s.fileno(), False)
        return serve(lambda: Emulator(arena=1 << 20), s)
    raise SystemExit(__doc__)


main()
