"""Time and memory of counting, sampling, checking and enumerating GEMM spaces.

``python benchmarks/spaces.py [ARCH]``. CPU seconds; every space is counted in a fresh state.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np

from ckdisp.codegen.arch import arch
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.ops import op
from ckdisp.codegen.ops.definition import SpaceRequest
from ckdisp.codegen.rules import check_all
from ckdisp.codegen.space import Space

_ROWS = 1_000_000


def timed(what: str, action: Callable[[], object]) -> None:
    start = time.process_time()
    result = action()
    print(f"{what:<44} {time.process_time() - start:8.3f} s   {result}")


def enumerate_columns(space: Space) -> int:
    """Decode up to a million keys as columns, in chunks; returns how many."""
    count = min(len(space), _ROWS)
    for start in range(0, count, 1 << 15):
        space.columns(np.arange(start, min(start + (1 << 15), count)))
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arch", nargs="?", default="gfx942")
    name = parser.parse_args().arch
    gemm = op("gemm")
    for family in gemm.families:
        request = SpaceRequest(family, name, arch(name).provider, "all")
        timed(f"count {family}", lambda request=request: len(gemm.space(request)))
    space = gemm.space(SpaceRequest("gemm.multi_d", name, arch(name).provider, "all"))
    timed("enumerate as columns", lambda: enumerate_columns(space))
    ks = KernelSet.sweep("gemm.multi_d", name, tiles="all")
    timed("sample 3000", lambda: ks.sample(3000))
    keys = list(ks.sample(3000))
    timed("check 3000 keys", lambda: sum(map(bool, check_all(keys))))
    timed("name 3000 keys", lambda: len({key.name for key in keys}))
    timed("membership of one key", lambda: keys[7] in ks)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
