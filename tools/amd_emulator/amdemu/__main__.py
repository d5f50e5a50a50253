"""python -m amdemu CODE KERNEL --grid 2,1,1 --block 256,1,1 --spec spec.py

--grid counts workgroups.  spec.py defines args() -> list and optionally check(buffers) -> bool (items: see core.layout_args), or sets
KERNARG = lambda ptr: bytes to build the whole argument block, with BUFS = {"name": array}.  Exit status 0: check passed and no LDS race.
"""

import argparse
import sys

from . import CodeObject, run
from .core import Emulator


def main():
    ap = argparse.ArgumentParser(
        prog="amdemu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("code")
    ap.add_argument("kernel", nargs="?")
    ap.add_argument("--grid", default="1,1,1")
    ap.add_argument("--block", default="64,1,1")
    ap.add_argument("--spec")
    ap.add_argument("--arch", help="entry of an offload bundle")
    ap.add_argument("--dyn-lds", type=int, default=0)
    ap.add_argument("--max-inst", type=int, default=200_000_000)
    ap.add_argument("--no-race", action="store_true")
    ap.add_argument("-v", action="store_true", help="count opcodes")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--arena", type=int, default=1 << 30)
    ap.add_argument("--cache")
    ap.add_argument("--wg", action="append", help="x,y,z: run only this workgroup")
    a = ap.parse_args()
    co = CodeObject(a.code, a.arch)
    if a.list or not a.kernel:
        for k in co.kernels:
            print(
                co.gfx, k, {x: (hex(y) if x.startswith("rsrc") else y) for x, y in co.kd(k).items()}
            )
        return 0
    ns = {"__file__": a.spec}
    if a.spec:
        with open(a.spec) as f:
            exec(compile(f.read(), a.spec, "exec"), ns)

    def t3(s):
        return tuple(([*list(map(int, s.split(","))), 1, 1])[:3])

    em = Emulator(arena=a.arena, racecheck=not a.no_race, cache=a.cache, verbose=int(a.v))
    kw = {"dyn_lds": a.dyn_lds, "max_inst": a.max_inst}
    if a.wg:
        kw["wgs"] = [t3(x) for x in a.wg]
    r, out = run(
        co,
        a.kernel,
        t3(a.grid),
        t3(a.block),
        ns["args"]() if "args" in ns else None,
        ns.get("BUFS"),
        ns.get("KERNARG"),
        emu=em,
        **kw,
    )
    print(
        f"{co.gfx} {a.kernel}: {r['insts']} wave-instructions, {r['wgs']} workgroups, {r['seconds']:.3f} s, of which {r['compile_s']:.2f} s compiling; "
        f"{r['insts'] / max(1e-9, r['run_s'] - r['compile_s']):.0f} instructions/s; LDS {r['lds']} B; LDS races: {r['races']}"
    )
    if a.v:
        print(", ".join(f"{k}:{v}" for k, v in em.hist.most_common()))
    ok = ns["check"](out) if "check" in ns else True
    print("CHECK", "PASS" if ok else "FAIL")
    return 0 if ok and not r["races"] else 1


sys.exit(main())
