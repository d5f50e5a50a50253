"""Grouped convolution and its two gradients in NumPy: one small matrix product per filter tap.

Shapes are PyTorch's: input (N, C, *spatial), weights (K, C / groups, *filter), output
(N, K, *out), with 1 to 3 spatial dimensions. With x padded by zeros, in every dimension,

    y[n, k, o] = sum over c and taps t of x[n, c, o * stride + t * dilation] * w[k, c, t]

and the gradients are those of <dy, y>: the arguments mean what they mean in
:class:`ckdisp.Dispatcher`.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.errors import InvalidArgument

_Array = NDArray[Any]
_Ints = int | Sequence[int]
_Padding = int | Sequence[int] | Sequence[tuple[int, int]]


def conv_fwd(
    x: Any,
    w: Any,
    *,
    stride: _Ints = 1,
    padding: _Padding = 0,
    dilation: _Ints = 1,
    groups: int = 1,
    dtype: Any = np.float64,
) -> _Array:
    """The output (N, K, *out) of a convolution, computed in ``dtype``.

    ``padding`` is one number, one for each dimension, or a pair (left, right) for each. Raises
    :class:`InvalidArgument` for shapes that do not fit.
    """
    source, weights = np.asarray(x).astype(dtype), np.asarray(w).astype(dtype)
    plan = _Plan.make(source.shape, weights.shape, stride, padding, dilation, groups)
    padded = np.pad(source, ((0, 0), (0, 0), *plan.padding))
    out = np.zeros(
        (source.shape[0], groups, math.prod(plan.out), weights.shape[0] // groups), dtype
    )
    for tap, window in plan.taps():
        out += _pixels(padded[window], groups) @ _per_group(weights[tap], groups).swapaxes(1, 2)
    return _image(out, plan.out)


def conv_bwd_data(
    dy: Any,
    w: Any,
    *,
    input_shape: Sequence[int],
    stride: _Ints = 1,
    padding: _Padding = 0,
    dilation: _Ints = 1,
    groups: int = 1,
    dtype: Any = np.float64,
) -> _Array:
    """The gradient of the input, of ``input_shape``, for the gradient ``dy`` of the output."""
    gradient, weights = np.asarray(dy).astype(dtype), np.asarray(w).astype(dtype)
    shape = _integers("input_shape", input_shape)
    plan = _Plan.make(shape, weights.shape, stride, padding, dilation, groups)
    _check_gradient(gradient.shape, (shape[0], weights.shape[0], *plan.out))
    sizes = [n + low + high for n, (low, high) in zip(shape[2:], plan.padding, strict=True)]
    padded = np.zeros((*shape[:2], *sizes), dtype)
    for tap, window in plan.taps():
        pixels = _pixels(gradient, groups) @ _per_group(weights[tap], groups)
        padded[window] += _image(pixels, plan.out)
    inner = tuple(slice(low, low + n) for n, (low, _) in zip(shape[2:], plan.padding, strict=True))
    return padded[(slice(None), slice(None), *inner)].copy()


def conv_bwd_weight(
    x: Any,
    dy: Any,
    *,
    weight_shape: Sequence[int],
    stride: _Ints = 1,
    padding: _Padding = 0,
    dilation: _Ints = 1,
    groups: int = 1,
    dtype: Any = np.float64,
) -> _Array:
    """The gradient of the weights, of ``weight_shape``, for the gradient ``dy`` of the output."""
    source, gradient = np.asarray(x).astype(dtype), np.asarray(dy).astype(dtype)
    shape = _integers("weight_shape", weight_shape)
    plan = _Plan.make(source.shape, shape, stride, padding, dilation, groups)
    _check_gradient(gradient.shape, (source.shape[0], shape[0], *plan.out))
    padded = np.pad(source, ((0, 0), (0, 0), *plan.padding))
    out = np.zeros(shape, dtype)
    for tap, window in plan.taps():
        rows = _pixels(gradient, groups).swapaxes(2, 3)
        product = (rows @ _pixels(padded[window], groups)).sum(axis=0, dtype=dtype)
        out[tap] = product.reshape(shape[0], shape[1])
    return out


@dataclass(frozen=True)
class _Plan:
    """Checked sizes; one entry for each spatial dimension."""

    filter: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    out: tuple[int, ...]

    @classmethod
    def make(
        cls,
        x: tuple[int, ...],
        w: tuple[int, ...],
        stride: _Ints,
        padding: _Padding,
        dilation: _Ints,
        groups: int,
    ) -> _Plan:
        rank = len(x) - 2
        if not 1 <= rank <= 3 or len(w) != len(x):
            raise InvalidArgument(
                f"the input has shape {x} and the weights {w}; pass (N, C, *spatial) and "
                "(K, C / groups, *filter) with 1 to 3 spatial dimensions"
            )
        if _integer("groups", groups) < 1 or x[1] != w[1] * groups or w[0] % groups:
            raise InvalidArgument(
                f"the input has shape {x} and the weights {w}, which do not fit {groups} groups"
            )
        pads = [_pair(p) for p in _each("padding", padding, rank)]
        strides = _integers("stride", _each("stride", stride, rank))
        dilations = _integers("dilation", _each("dilation", dilation, rank))
        spans = [d * (f - 1) + 1 for d, f in zip(dilations, w[2:], strict=True)]
        sizes = [n + low + high for n, (low, high) in zip(x[2:], pads, strict=True)]
        if min(strides) < 1 or min(dilations) < 1 or min(min(p) for p in pads) < 0:
            raise InvalidArgument("strides and dilations are 1 or more, pads 0 or more")
        if any(span > size or f < 1 for span, size, f in zip(spans, sizes, w[2:], strict=True)):
            raise InvalidArgument(f"filters of {tuple(spans)} pixels exceed the padded {sizes}")
        out = [(size - span) // s + 1 for size, span, s in zip(sizes, spans, strides, strict=True)]
        return cls(w[2:], strides, dilations, tuple(pads), tuple(out))

    def taps(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """For each tap its index into weights, and the pixels of a padded input that it meets."""
        every = (slice(None), slice(None))
        for tap in itertools.product(*map(range, self.filter)):
            window = (
                slice(t * d, t * d + (o - 1) * s + 1, s)
                for t, d, s, o in zip(tap, self.dilation, self.stride, self.out, strict=True)
            )
            yield (*every, *tap), (*every, *window)


def _integer(name: str, value: Any) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise InvalidArgument(f"{name} is {value!r}; pass an integer")


def _is_sequence(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _integers(name: str, values: Any) -> tuple[int, ...]:
    if not _is_sequence(values):
        raise InvalidArgument(f"{name} is {values!r}; pass a sequence of integers")
    return tuple(_integer(name, value) for value in values)


def _each(name: str, value: Any, rank: int) -> list[Any]:
    values = list(value) if _is_sequence(value) else [value] * rank
    if len(values) != rank:
        raise InvalidArgument(f"{name} has {len(values)} values for {rank} spatial dimensions")
    return values


def _pair(padding: Any) -> tuple[int, int]:
    pair = padding if _is_sequence(padding) else (padding, padding)
    if len(pair) != 2:
        raise InvalidArgument(f"padding holds {pair!r}, which is no pair (left, right)")
    return _integer("padding", pair[0]), _integer("padding", pair[1])


def _check_gradient(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        raise InvalidArgument(f"the gradient of the output has shape {shape}, not {wanted}")


def _pixels(t: _Array, groups: int) -> _Array:
    """(N, C, *spatial) as (N, G, pixels, C / G)."""
    pixels = math.prod(t.shape[2:])
    return t.reshape(t.shape[0], groups, t.shape[1] // groups, pixels).swapaxes(2, 3)


def _image(t: _Array, spatial: tuple[int, ...]) -> _Array:
    """(N, G, pixels, C / G) as (N, C, *spatial)."""
    return t.swapaxes(2, 3).reshape(t.shape[0], t.shape[1] * t.shape[3], *spatial)


def _per_group(tap: _Array, groups: int) -> _Array:
    """(K, C / G) as (G, K / G, C / G)."""
    return tap.reshape(groups, tap.shape[0] // groups, tap.shape[1])
