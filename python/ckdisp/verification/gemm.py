"""Problems of GEMM kernels."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from .place import Place, element_type, run_twice

_CLAMP = (-1.25, 2.5)


def cases(disp: Any, kernel: Any, place: Place, random: Any, count: int) -> Iterator[Any]:
    """``count`` problems of the kernel: name, and what runs it and says what differs."""
    for number, (m, n, k, parts) in enumerate(_sizes(kernel.key, random, count)):
        pad = 8 * (number % 3)
        name = f"{m}x{n}x{k}" + (f", lines {pad} longer" if pad else "")
        name += f", k_batch {parts}" if parts > 1 else ""
        yield name, functools.partial(_run, disp, kernel, place, random, (m, n, k, parts, pad))


def _sizes(key: Any, random: Any, count: int) -> list[tuple[int, int, int, int]]:
    """Whole tiles and trips of the loop first, then edges of every kind, in a drawn order."""
    tm, tn, tk = key.tile
    whole = [(tm, tn, tk), (tm, tn, 2 * tk), (tm, tn, 3 * tk), (2 * tm, tn, 5 * tk)]
    edges = [
        *((tm + 8, tn + 8, tk + 8), (tm - 8, tn - 8, 3 * tk - 8), (1, tn, tk), (tm, 8, tk)),
        *((8, 8, 8), (tm + 1, tn + 16, 2 * tk + 24), (3, tn, 4 * tk), (tm, tn, tk + 1)),
        *((0, tn, tk), (tm, 0, tk)),
    ]
    sizes = [(max(m, 0), max(n, 0), max(k, 0), 1) for m, n, k in [*whole, *edges]]
    if key.split_k:
        sizes[1:1] = [(tm, tn, 4 * tk, 2), (tm + 8, tn, 6 * tk, 3)]
    order = [0, 1, *(2 + random.permutation(len(sizes) - 2))]
    return [sizes[i] for i in order[:count]]


def _run(disp: Any, kernel: Any, place: Place, random: Any, sizes: Any) -> str:
    from .. import reference
    from ..shuffle import shuffle_b

    key = kernel.key
    m, n, k, parts, pad = sizes
    types = {x: element_type(getattr(key, f"dtype_{x}"), key.arch) for x in "abcd"}
    # Few and small numbers: their sums are exact in every accumulator.
    a = random.integers(-2, 3, (m, k)).astype(types["a"])
    b = random.integers(-2, 3, (k, n)).astype(types["b"])
    d = [random.integers(-2, 3, (m, n)).astype(types["d"]) for _ in range(key.num_d)]
    shuffled = key.family == "gemm.preshuffle"
    first = place.matrix(m, k, key.layout[0], pad, types["a"]).set(a)
    second = place.matrix(k, n, key.layout[1], 0 if shuffled else pad, types["b"])
    right = second.set(shuffle_b(b, key) if shuffled and n and k else b)
    added = [place.matrix(m, n, key.layout_d, pad, types["d"]).set(x) for x in d]
    call: dict[str, Any] = {"epilogue": key.elementwise}
    call["clamp"] = _CLAMP if key.elementwise == "clamp" else None
    result = place.matrix(m, n, key.layout[2], pad, types["c"])

    def run(out: Any) -> None:
        disp.gemm(first, right, d=added, out=out, kernel=kernel.name, k_batch=parts, **call)

    wanted = reference.gemm(a, b, d=d, **call)
    with np.errstate(over="ignore"):
        rounded = wanted if types["c"].kind in "iu" else wanted.astype(types["c"])
    return run_twice(result, run, rounded.astype(np.float64))
