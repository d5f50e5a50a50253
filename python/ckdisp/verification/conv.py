"""Problems of convolution kernels."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from .place import Place, Tensor, element_type, run_twice

# Images, channels and filters of a group, groups, size, filter, stride, padding, dilation; the last
# five are the same in each dimension but for the first.
_PROBLEMS = (
    (1, 16, 16, 1, 8, 3, 1, 1, 1),
    (2, 64, 64, 1, 7, 3, 2, 1, 1),
    (1, 32, 24, 1, 9, 3, 1, 2, 2),
    (1, 16, 16, 2, 10, 2, 2, 1, 1),
    (2, 64, 32, 1, 6, 1, 1, 0, 1),
    (1, 16, 16, 4, 6, 1, 2, 0, 1),
    (1, 72, 40, 1, 5, 5, 1, 2, 1),
    (3, 8, 8, 1, 12, 2, 3, 0, 1),
    (1, 200, 136, 1, 4, 3, 1, 1, 1),
    (1, 3, 5, 1, 6, 3, 1, 1, 1),
    (1, 1, 1, 8, 9, 3, 1, 1, 1),
    (2, 40, 24, 1, 11, 1, 1, 0, 1),
    (1, 24, 72, 2, 5, 1, 1, 0, 1),
    (3, 128, 136, 1, 3, 1, 1, 0, 1),
    (2, 32, 16, 1, 9, 1, 3, 0, 1),
    (0, 16, 16, 1, 8, 3, 1, 1, 1),
    (0, 16, 16, 1, 8, 1, 1, 0, 1),
)


def _fits(specialization: str, problem: tuple[int, ...]) -> bool:
    """Whether a kernel so restricted takes a problem."""
    taps, stride, padding = problem[5:8]
    return {
        "filter1x1_pad0": taps == 1 and padding == 0,
        "filter1x1_stride1_pad0": taps == 1 and stride == 1 and padding == 0,
        "filter3x3": taps == 3,
    }.get(specialization, True)


def cases(disp: Any, kernel: Any, place: Place, random: Any, count: int) -> Iterator[Any]:
    """``count`` problems of the kernel: name, and what runs it and says what differs."""
    problems = [p for p in _PROBLEMS if _fits(kernel.key.specialization, p)]
    order = [0, *(1 + random.permutation(len(problems) - 1))]
    for number, index in enumerate(order[:count]):
        n, c, k, groups, size, taps, stride, padding, dilation = problems[index]
        parts = 1 + number % 3 if kernel.key.split_k else 1
        name = f"{n}x{groups * c}, {size} pixels, {groups * k}x{taps}, stride {stride}, "
        name += f"padding {padding}, dilation {dilation}, groups {groups}, k_batch {parts}"
        yield name, functools.partial(_run, disp, kernel, place, random, problems[index], parts)


def _run(disp: Any, kernel: Any, place: Place, random: Any, problem: Any, parts: int) -> str:
    from .. import reference

    key = kernel.key
    n, c, k, groups, size, taps, stride, padding, dilation = problem
    rank = len(key.layout) - 3
    side = [size + (axis == 0) for axis in range(rank)]
    filters = [taps] * rank
    outputs = [(s + 2 * padding - dilation * (taps - 1) - 1) // stride + 1 for s in side]
    motion = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    shapes = {
        "in": (n, groups * c, *side),
        "wei": (groups * k, c, *filters),
        "out": (n, groups * k, *outputs),
    }
    which = {"conv.fwd": "out", "conv.bwd_data": "in", "conv.bwd_weight": "wei"}[key.family]
    types = {x: element_type(getattr(key, f"dtype_{x}"), key.arch) for x in shapes}
    inputs = [x for x in ("in", "out", "wei") if x != which]
    values = {x: random.integers(-2, 3, shapes[x]).astype(types[x]) for x in inputs}
    if which == "wei":  # x, then dy
        inputs = ["in", "out"]
    tensors = [_tensor(place, shapes[x], types[x]).set(values[x]) for x in inputs]
    method = key.family.replace(".", "_")
    shape = {"in": {"input_shape": shapes["in"]}, "wei": {"weight_shape": shapes["wei"]}}
    motion |= shape.get(which, {})
    wanted = getattr(reference, method)(*(values[x] for x in inputs), **motion)
    more = {"k_batch": parts} if which == "wei" else {}
    result = _tensor(place, shapes[which], types[which])

    def run(out: Any) -> None:
        getattr(disp, method)(*tensors, out=out, kernel=kernel.name, **motion, **more)

    rounded = wanted if types[which].kind in "iu" else wanted.astype(types[which])
    return run_twice(result, run, rounded.astype(np.float64))


def _tensor(place: Place, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    """(N, C, *spatial) in channels-last order."""
    n, c, *spatial = shape
    last = (n, *spatial, c)
    dense = [int(np.prod(last[axis + 1 :])) for axis in range(len(last))]
    strides = (dense[0], 1, *dense[1:-1])
    return place.tensor((n, c, *spatial), dtype, strides)
