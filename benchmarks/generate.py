"""Time of generating a folder of kernels, cold and unchanged, and of ninja with nothing to do.

``python benchmarks/generate.py [KERNELS]``. The objects are empty files: what is timed is the
generator and the graph, not the compiler.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ckdisp.codegen.build import find_ninja
from ckdisp.codegen.generate import generate
from ckdisp.codegen.headers import own_include_dirs
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.make import make_key
from ckdisp.codegen.toolchain import Toolchain

_HEADERS = 200


def kernels(count: int) -> list[KernelKey]:
    """``count`` valid keys of three CPU levels."""
    found: list[KernelKey] = []
    for i, level in zip(range(count), itertools.cycle(("generic", "x86-64-v3", "x86-64-v4"))):
        base = make_key("gemm.standard", arch=level, dtype="fp32", layout="rcr")
        m, n, _ = base.warp
        tile = (m * (2 + i % 64), n * (2 + i // 64), 256)
        found.append(
            make_key(
                "gemm.standard",
                arch=level,
                dtype="fp32",
                layout="rcr",
                pipeline=base.pipeline,
                warp=base.warp,
                tile=tile,
            )
        )
    return found


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def fake_compiler(folder: Path) -> Path:
    """A compiler that writes empty objects which have read many headers."""
    headers = []
    for i in range(_HEADERS):
        headers.append(folder / f"header{i}.hpp")
        headers[-1].touch()
    depends = " ".join(map(str, headers))
    path = folder / "c++"
    path.write_text(
        "#!/bin/sh\n"
        'while [ $# -gt 0 ]; do case "$1" in -o) out=$2;; -MF) dep=$2;; esac; shift; done\n'
        '[ -n "$out" ] && : > "$out"\n'
        f'[ -n "$dep" ] && echo "$out: {depends}" > "$dep"\n'
        "exit 0\n"
    )
    path.chmod(0o755)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", type=int, nargs="?", default=3000)
    count = parser.parse_args().kernels
    keys = kernels(count)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        toolchain = Toolchain(str(fake_compiler(folder)))
        out = folder / "out"

        def run() -> None:
            generate(keys, out, toolchain=toolchain, include_dirs=own_include_dirs())

        def ninja() -> None:
            subprocess.run([find_ninja()], cwd=out, check=True, stdout=subprocess.DEVNULL)

        print(f"{count} kernels, {os.cpu_count()} processors")
        print(f"generate, cold       {timed(run):7.2f} s")
        print(f"generate, unchanged  {min(timed(run) for _ in range(3)):7.2f} s")
        print(f"ninja, everything    {timed(ninja):7.2f} s")
        print(f"ninja, nothing to do {min(timed(ninja) for _ in range(3)):7.2f} s")


if __name__ == "__main__":
    main()
