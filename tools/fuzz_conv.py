"""Compute many small convolutions by every kernel of CPU levels and compare them, exactly.

Three of four shapes are enumerated: one dimension in full (sizes 1 to 5, filters and strides 1 to
4, padding 0 to 3 on each side, dilations 1 to 3) with each kind of channels; in two and three
dimensions each such combination at each position beside others that are drawn, and every
combination of a small core. The fourth is a larger one that is drawn. A case is a shape in one
direction and one dtype; the exit status is 1 if a kernel computes one wrongly, or none takes it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
# Three threads on few cores must not wait for each other in loops.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from conv_cases import (  # noqa: E402
    ALL_AXES,
    CHANNELS,
    DIRECTIONS,
    Case,
    core,
    drawn,
    every_axis,
    with_channels,
    wrong,
)

import ckdisp  # noqa: E402

_LAYOUTS = {"1": "nwgc", "2": "nhwgc", "3": "ndhwgc"}
_DTYPES = ("fp32", "fp16", "bf16", "int8", "fp8", "bf8")
_SHOWN = 20  # faults that are shown in full


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--cases", type=int, default=20_000, help="cases in all")
    parser.add_argument("--seed", type=int, default=0, help="another seed: other shapes and values")
    parser.add_argument("--levels", default="native", help="CPU levels, separated by commas")
    parser.add_argument("--dtypes", default="fp32", help=f"some of {','.join(_DTYPES)}")
    parser.add_argument("--ranks", default="1,2,3", help="numbers of spatial dimensions")
    options = parser.parse_args()
    layouts = [_LAYOUTS[rank] for rank in options.ranks.split(",") if rank in _LAYOUTS]
    try:
        kernels = ckdisp.KernelSet()
        for direction in DIRECTIONS:
            where = {"dtype": options.dtypes.split(","), "layout": layouts}
            kernels |= ckdisp.KernelSet.sweep(
                f"conv.{direction}", options.levels.split(","), where=where, allow_empty=True
            )
        print(f"building {len(kernels)} kernels", flush=True)
        registry = kernels.build()
    except ckdisp.Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return _compare(kernels, registry, options.cases, options.seed)


def _compare(kernels: Any, registry: Any, count: int, seed: int) -> int:
    dispatchers = [ckdisp.Dispatcher(registry, num_threads=n) for n in (1, 3)]
    types: dict[tuple[str, str], list[str]] = {}
    for key in kernels:
        found = types.setdefault((key.family.removeprefix("conv."), key.layout), [])
        if key.dtype_in not in found:
            found.append(key.dtype_in)
    runs: Counter[tuple[str, ...]] = Counter()
    faults = 0
    start = time.monotonic()
    for number, (case, direction, dtype) in enumerate(_cases(types, seed)):
        if number % 20_000 == 0 and number > 0:
            print(f"{number} cases, {faults} wrong, {time.monotonic() - start:.0f} s", flush=True)
        if number == count:
            break
        taken, failed = wrong(dispatchers, case, direction, dtype, seed + number)
        for name in taken:
            key = ckdisp.parse_name(name)
            runs[key.arch, direction, dtype, key.pipeline] += 1
        if failed or not taken:
            faults += 1
            if faults <= _SHOWN:
                _tell(case, direction, dtype, seed + number, failed)
    for row, times in sorted(runs.items()):
        print(f"  {' '.join(f'{part:<15}' for part in row)} {times:8d} runs")
    print(f"{count} cases, {sum(runs.values())} runs of kernels, {faults} wrong")
    return 1 if faults else 0


def _cases(types: dict[tuple[str, str], list[str]], seed: int) -> Iterator[tuple[Case, str, str]]:
    """A case, its direction and its dtype: one that there are kernels for, by turns."""
    ranks = [int(rank) for rank, layout in _LAYOUTS.items() if layout in {x for _, x in types}]
    for turn, case in enumerate(_shapes(seed, ranks)):
        for direction in DIRECTIONS:
            dtypes = types.get((direction, _LAYOUTS[str(len(case.axes))]))
            if dtypes:
                yield case, direction, dtypes[turn % len(dtypes)]


def _shapes(seed: int, ranks: list[int]) -> Iterator[Case]:
    """Without an end: when all are through, they come again beside others."""
    draw = random.Random(seed)
    for again in itertools.count(seed):
        found: list[Case] = []
        if 1 in ranks:
            images = itertools.cycle((1, 2, 1, 3))
            found += [Case((a,), next(images), *c) for a in ALL_AXES for c in CHANNELS]
        for rank in set(ranks) - {1}:
            found += with_channels(every_axis(rank, again), again)
            found += with_channels(core(rank), again)
        draw.shuffle(found)
        for number, case in enumerate(found):
            yield case
            if number % 3 == 2:
                yield drawn(draw, draw.choice(ranks))


def _tell(case: Case, direction: str, dtype: str, seed: int, failed: list[str]) -> None:
    how = ", ".join(f"{name}={value}" for name, value in case.how.items())
    print(f"WRONG conv.{direction} {dtype} x={case.x_shape} w={case.w_shape} {how} seed={seed}")
    for name in failed or ["no kernel takes it"]:
        print(f"    {name}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
