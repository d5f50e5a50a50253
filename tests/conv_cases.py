"""Small convolutions, enumerated axis by axis, with an exact reference that gathers by index.

All values are small integers, so that sums are exact in fp32: a result equals the reference
rounded once to its type, bit for bit.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ckdisp
from ckdisp.tensors import numpy_dtype

DIRECTIONS = ("fwd", "bwd_data", "bwd_weight")
_Array = NDArray[Any]


@dataclass(frozen=True, order=True)
class Axis:
    """One spatial dimension; the filter fits into the padded size."""

    size: int
    filter: int
    stride: int
    low: int  # padding on the left
    high: int
    dilation: int

    @property
    def out(self) -> int:
        span = self.dilation * (self.filter - 1) + 1
        return (self.size + self.low + self.high - span) // self.stride + 1

    def met_by_outputs(self) -> _Array:
        """(out, filter): the input pixel of each output pixel and tap; ``size`` in the padding."""
        o, t = np.ogrid[: self.out, : self.filter]
        pixel = o * self.stride + t * self.dilation - self.low
        return np.where((pixel >= 0) & (pixel < self.size), pixel, self.size)

    def met_by_inputs(self) -> _Array:
        """(size, filter): the output pixel of an input pixel and tap; ``out`` if there is none."""
        i, t = np.ogrid[: self.size, : self.filter]
        pixel, rest = np.divmod(i + self.low - t * self.dilation, self.stride)
        return np.where((rest == 0) & (pixel >= 0) & (pixel < self.out), pixel, self.out)


@dataclass(frozen=True)
class Case:
    """Sizes of a convolution; ``c`` and ``k`` are channels of a group."""

    axes: tuple[Axis, ...]
    images: int
    groups: int
    c: int
    k: int

    @property
    def x_shape(self) -> tuple[int, ...]:
        return (self.images, self.groups * self.c, *(a.size for a in self.axes))

    @property
    def w_shape(self) -> tuple[int, ...]:
        return (self.groups * self.k, self.c, *(a.filter for a in self.axes))

    @property
    def how(self) -> dict[str, Any]:
        return {
            "stride": [a.stride for a in self.axes],
            "padding": [(a.low, a.high) for a in self.axes],
            "dilation": [a.dilation for a in self.axes],
            "groups": self.groups,
        }

    def problem(self, direction: str, dtype: str) -> ckdisp.GroupedConvProblem:
        shapes = self.x_shape, self.w_shape
        return ckdisp.GroupedConvProblem(direction, *shapes, dtype=dtype, **self.how)


@dataclass
class Tensors:
    """What a case computes from, pixels first: (N, *spatial, G, C) and (G, K, *filter, C)."""

    case: Case
    x: _Array
    w: _Array
    dy: _Array

    @classmethod
    def of(cls, case: Case, dtype: str, rng: np.random.Generator) -> Tensors:
        g, c, k = case.groups, case.c, case.k

        def integers(*shape: int) -> _Array:
            return rng.integers(-4, 5, shape, dtype=np.int8).astype(numpy_dtype(dtype))

        return cls(
            case,
            integers(case.images, *(a.size for a in case.axes), g, c),
            integers(g, k, *(a.filter for a in case.axes), c),
            integers(case.images, *(a.out for a in case.axes), g, k),
        )

    def expected(self, direction: str) -> _Array:
        """The result in float64, in the form of these tensors."""
        case, axes = self.case, self.case.axes
        w = self.w.astype(np.float64)
        if direction == "bwd_data":
            # (G, inputs, taps * K) @ (G, taps * K, C)
            met = _gather(self.dy, [a.met_by_inputs() for a in axes])
            by_tap = np.moveaxis(w, 1, -2).reshape(case.groups, -1, case.c)
            return _pixels(met @ by_tap, case.images, [a.size for a in axes])
        met = _gather(self.x, [a.met_by_outputs() for a in axes])
        if direction == "fwd":
            by_tap = np.moveaxis(w, 1, -1).reshape(case.groups, -1, case.k)
            return _pixels(met @ by_tap, case.images, [a.out for a in axes])
        dy = self.dy.astype(np.float64).reshape(-1, case.groups, case.k).transpose(1, 2, 0)
        return (dy @ met).reshape(self.w.shape)

    def run(self, disp: ckdisp.Dispatcher, direction: str, kernel: str, dtype: Any) -> _Array:
        """The result of a kernel, of the NumPy type ``dtype``, in the form of these tensors.

        It is written over other numbers, so that what is not written is seen.
        """
        case = self.case
        source = self.dy if direction == "bwd_data" else self.x
        other = self.dy if direction == "bwd_weight" else self.w
        like = {"fwd": self.dy, "bwd_data": self.x, "bwd_weight": self.w}[direction]
        result = np.full(like.shape, _NEVER, dtype)
        views = (self._as_called(source), self._as_called(other))
        more = {"kernel": kernel, "out": self._as_called(result, like is self.w), **case.how}
        if direction == "fwd":
            disp.conv_fwd(*views, **more)
        elif direction == "bwd_data":
            disp.conv_bwd_data(*views, input_shape=case.x_shape, **more)
        else:
            disp.conv_bwd_weight(*views, weight_shape=case.w_shape, **more)
        return result

    def _as_called(self, t: _Array, weights: bool = False) -> _Array:
        """In the shape of the calls: channels second."""
        if weights or t is self.w:
            merged = t.reshape(-1, *t.shape[2:])
        else:
            merged = t.reshape(*t.shape[:-2], -1)
        return np.moveaxis(merged, -1, 1)


_NEVER = 97.0  # one sum may be this, but not all that a kernel leaves out


def _gather(t: _Array, indices: Sequence[_Array]) -> _Array:
    """(G, N * rows, taps * channels) of what rows meet at taps, 0 where an index is one too far."""
    rank = len(indices)
    padded = np.pad(t.astype(np.float64), [(0, 0), *[(0, 1)] * rank, (0, 0), (0, 0)])
    grids = []
    for d, index in enumerate(indices):
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = index.shape
        grids.append(index.reshape(shape))
    met = padded[(slice(None), *grids)]  # (N, *rows, *taps, G, channels)
    met = np.moveaxis(met, -2, 0)
    rows = met.shape[1] * int(np.prod([i.shape[0] for i in indices]))
    return met.reshape(t.shape[-2], rows, -1)


def _pixels(t: _Array, images: int, spatial: Sequence[int]) -> _Array:
    """(G, N * pixels, channels) as (N, *spatial, G, channels)."""
    return np.moveaxis(t.reshape(t.shape[0], images, *spatial, t.shape[2]), 0, -2)


def axes(
    sizes: Sequence[int] = range(1, 6),
    filters: Sequence[int] = range(1, 5),
    strides: Sequence[int] = range(1, 5),
    pads: Sequence[tuple[int, int]] = tuple(itertools.product(range(4), repeat=2)),
    dilations: Sequence[int] = range(1, 4),
) -> list[Axis]:
    """Every combination in which the filter fits."""
    every = itertools.product(sizes, filters, strides, pads, dilations)
    found = [Axis(n, f, s, low, high, d) for n, f, s, (low, high), d in every]
    return [a for a in found if a.dilation * (a.filter - 1) < a.size + a.low + a.high]


ALL_AXES = axes()
# What a full product is small enough of: of two dimensions, and of three.
CORE = {
    2: axes(range(1, 4), range(1, 4), (1, 2), tuple(itertools.product((0, 1), repeat=2)), (1,)),
    3: axes((1, 2), range(1, 4), (1, 2), ((0, 0), (1, 1)), (1,)),
}
# Groups, and channels of each: whole vectors and not, grouped, depthwise.
CHANNELS = (
    *((1, 1, 1), (1, 3, 5), (1, 17, 8), (1, 16, 35), (2, 5, 3), (3, 20, 20)),
    *((5, 1, 1), (19, 1, 1), (32, 1, 1), (9, 2, 2), (3, 4, 4), (5, 8, 8), (2, 16, 16), (2, 32, 32)),
)


def every_axis(rank: int, seed: int) -> Iterator[tuple[Axis, ...]]:
    """Each combination at each position, beside others that are drawn."""
    draw = random.Random(seed)
    for position in range(rank):
        for axis in ALL_AXES:
            found = [draw.choice(ALL_AXES) for _ in range(rank)]
            found[position] = axis
            yield tuple(found)


def core(rank: int) -> Iterator[tuple[Axis, ...]]:
    """Every combination of small axes."""
    return itertools.product(CORE[rank], repeat=rank)


def with_channels(shapes: Iterator[tuple[Axis, ...]], seed: int) -> Iterator[Case]:
    """Each shape with the next channels and number of images."""
    draw = random.Random(seed)
    channels = itertools.cycle(draw.sample(CHANNELS, len(CHANNELS)))
    for shape in shapes:
        yield Case(shape, draw.choice((1, 1, 2, 3)), *next(channels))


def drawn(draw: random.Random, rank: int) -> Case:
    """A larger one: longer lines, more channels, several boxes and blocks of a sum."""
    axes = []
    for _ in range(rank):
        filter, dilation = draw.choice((1, 1, 2, 3, 3, 4, 5, 7)), draw.choice((1, 1, 1, 2, 3))
        low, high = draw.randint(0, 4), draw.randint(0, 4)
        least = max(1, dilation * (filter - 1) + 1 - low - high)
        more = draw.randint(0, (90, 24, 7)[rank - 1])
        axes.append(
            Axis(least + more, filter, draw.choice((1, 1, 2, 2, 3, 5)), low, high, dilation)
        )
    if draw.random() < 0.15:  # what filter1x1_stride1_pad0 takes
        axes = [Axis(a.size, 1, 1, 0, 0, a.dilation) for a in axes]
    if draw.random() < 0.4:
        groups = draw.randint(1, 70)
        c = k = draw.choice((1, 1, 2, 4, 8, 16, 32))
        groups = max(1, groups // c)
    else:
        groups, c, k = draw.choice((1, 1, 2, 3)), draw.randint(1, 70), draw.randint(1, 70)
    return Case(tuple(axes), draw.randint(1, 3), groups, c, k)


def wrong(
    dispatchers: Sequence[ckdisp.Dispatcher], case: Case, direction: str, dtype: str, seed: int
) -> tuple[list[str], list[str]]:
    """The kernels that took the case, and of these those whose result is not the reference.

    One of the dispatchers runs it, by turns.
    """
    tensors = Tensors.of(case, dtype, np.random.default_rng(seed))
    expected = tensors.expected(direction)
    disp = dispatchers[seed % len(dispatchers)]
    taken, failed = [], []
    for candidate in disp.explain(case.problem(direction, dtype)):
        if not candidate.supported:
            continue
        key = candidate.kernel.key
        field = {"fwd": "out", "bwd_data": "in", "bwd_weight": "wei"}[direction]
        result_type = numpy_dtype(getattr(key, f"dtype_{field}"))
        result = tensors.run(disp, direction, candidate.kernel.name, result_type)
        taken.append(candidate.kernel.name)
        if not np.array_equal(result, expected.astype(result_type)):
            failed.append(candidate.kernel.name)
    return taken, failed
