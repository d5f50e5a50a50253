"""Time and memory of declaring attention kernels, next to the budget.

``python benchmarks/fmha_space.py [ARCH...]``. Every space is counted in a process of its own; times
are CPU seconds of this process or, with imports, of that one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ckdisp.codegen.arch import arches
from ckdisp.codegen.enums import families
from ckdisp.codegen.errors import Error
from ckdisp.codegen.generate import generate
from ckdisp.codegen.kernel_set import KernelSet

_COUNT = """
import resource, sys, time
from ckdisp.codegen.kernel_set import KernelSet
start = time.process_time()
count = len(KernelSet.sweep(sys.argv[1], sys.argv[2], tiles="all", allow_empty=True))
used = resource.getrusage(resource.RUSAGE_SELF)
print(count, time.process_time() - start, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024)
"""
_NAMES = 100_000
_RECEIPT = 2


def line(what: str, measured: str, budget: str = "") -> None:
    print(f"{what:<52} {measured:>24}   {budget}", flush=True)


def seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def count_all(names: list[str]) -> None:
    """Whole spaces, each in a fresh process."""
    for name in names:
        for family in families("fmha"):
            command = [sys.executable, "-c", _COUNT, family, name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            count, alone, whole, memory = done.stdout.split()
            line(
                f"count {family} {name}: {int(count):,}",
                f"{float(alone):.2f} s ({float(whole):.2f} s) {memory} MB",
                "1 s, 300 MB",
            )


def generate_curated() -> None:
    """The forward kernels of flash-attention, twice into one folder."""
    archs = [name for name in ("gfx942", "gfx950") if arches()[name].fmha]
    keys = KernelSet.sweep("fmha.fwd", archs, receipt=_RECEIPT)
    with tempfile.TemporaryDirectory() as folder:
        for what, budget in (("cold", "3 s"), ("again", "0.5 s, no file")):
            start = time.process_time()
            try:
                result = generate(keys, Path(folder), ("ninja",))
            except Error as error:
                line(f"generate {len(keys)} kernels of receipt {_RECEIPT}", "", str(error)[:90])
                return
            spent = time.process_time() - start
            what = f"generate {len(keys)} kernels of receipt {_RECEIPT}, {what}"
            line(what, f"{spent:.2f} s, {len(result.written)} files", budget)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archs", nargs="*", default=["gfx90a", "gfx942", "gfx950", "gfx1201"])
    archs = parser.parse_args().archs
    line("", "measured", "budget")
    count_all(archs)
    keys = KernelSet.sweep("fmha.fwd", archs[-1], tiles="all")
    spent = seconds(lambda: keys[:_NAMES].names())
    line(f"list {_NAMES:,} names", f"{spent:.2f} s", "1 s")
    spent = seconds(lambda: list(keys[:_NAMES]))
    line("make one key", f"{spent / _NAMES * 1e6:.1f} us", "5 us")
    for receipt in (0, 2, 4, 600):
        spent = seconds(lambda r=receipt: len(KernelSet.sweep("fmha.fwd", archs[0], receipt=r)))
        line(f"count receipt {receipt}", f"{spent:.2f} s")
    generate_curated()


if __name__ == "__main__":
    main()
