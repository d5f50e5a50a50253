"""Which part of its tensors each head of each sequence of an attention uses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.enums import unknown
from ..codegen.errors import InvalidArgument

_Array = NDArray[Any]
_MASKS = ("no", "top_left", "bottom_right", "generic")


@dataclass(frozen=True)
class Mask:
    """Keys that a query sees: those from ``left`` before to ``right`` behind its own, -1 all.

    A query's own key is at its place, or counted from the last ones (``bottom_right``). The first
    ``sink`` keys are always seen.
    """

    left: int
    right: int
    bottom_right: bool
    sink: int

    @classmethod
    def make(cls, mask: str, window: Sequence[int] | None, sink: int | None) -> Mask:
        if mask not in _MASKS:
            raise InvalidArgument(unknown("mask", mask, _MASKS))
        if mask == "generic" and window is None:
            raise InvalidArgument("mask 'generic' needs window=(left, right)")
        triangle = mask in ("top_left", "bottom_right")
        if window is not None and len(window) != 2:
            raise InvalidArgument(f"window is {window}; pass (left, right), numbers of keys or -1")
        left, right = window if window is not None else (-1, 0 if triangle else -1)
        if left < -1 or right < -1:
            raise InvalidArgument(f"window is ({left}, {right}); pass numbers of keys, -1 for all")
        if sink is not None and sink < 0:
            raise InvalidArgument(f"sink is {sink}; pass a number of keys")
        return cls(left, right, mask != "top_left", sink or 0)

    def seen(self, rows: int, columns: int) -> _Array:
        """(rows, columns) of bool."""
        i, j = np.indices((rows, columns))
        place = j - i - (columns - rows if self.bottom_right else 0)
        found = np.ones((rows, columns), np.bool_)
        if self.left >= 0:
            found &= place >= -self.left
        if self.right >= 0:
            found &= place <= self.right
        found |= j < self.sink
        return found


@dataclass(frozen=True)
class Place:
    """One head of one sequence: indices into q, into k and v, and into numbers of rows of q."""

    batch: int
    head: int
    q: tuple[int, int, slice]
    k: tuple[int, int, slice]
    rows: tuple[int, int, slice]


@dataclass(frozen=True)
class Heads:
    """q, k and v as (batch, heads, rows, size); of sequences of many lengths the batch is 1."""

    q: _Array
    k: _Array
    v: _Array
    layout: str
    starts: tuple[list[int], list[int]] | None

    @classmethod
    def make(
        cls, q: Any, k: Any, v: Any, layout: str, starts_q: Any, starts_k: Any, dtype: Any
    ) -> Heads:
        if layout not in ("bhsd", "bshd"):
            raise InvalidArgument(unknown("layout", layout, ("bhsd", "bshd")))
        if (starts_q is None) != (starts_k is None):
            raise InvalidArgument("pass both of cu_seqlens_q and cu_seqlens_k, or none")
        packed = starts_q is not None
        wide = [_wide(x, name, layout, packed, dtype) for x, name in ((q, "q"), (k, "k"), (v, "v"))]
        queries, keys, values = wide
        if queries.shape[0] != keys.shape[0] or keys.shape[:3] != values.shape[:3]:
            raise InvalidArgument(
                f"q, k and v have shapes {np.shape(q)}, {np.shape(k)} and {np.shape(v)}: batches, "
                "and heads and rows of k and v, must agree"
            )
        if queries.shape[3] != keys.shape[3]:
            raise InvalidArgument(
                f"q has head dimension {queries.shape[3]} and k {keys.shape[3]}; pass equal ones"
            )
        if keys.shape[1] == 0 or queries.shape[1] % keys.shape[1]:
            raise InvalidArgument(
                f"q has {queries.shape[1]} heads and k {keys.shape[1]}; pass a multiple"
            )
        starts = None
        if packed:
            starts = (_starts(starts_q, "q", queries), _starts(starts_k, "k", keys))
            if len(starts[0]) != len(starts[1]):
                raise InvalidArgument(
                    f"cu_seqlens_q has {len(starts[0])} numbers and cu_seqlens_k {len(starts[1])}"
                )
        return cls(queries, keys, values, layout, starts)

    @property
    def count(self) -> int:
        """Heads of q."""
        return int(self.q.shape[1])

    @property
    def batch(self) -> int:
        """Sequences."""
        return int(self.q.shape[0]) if self.starts is None else len(self.starts[0]) - 1

    def __iter__(self) -> Iterator[Place]:
        group = self.count // self.k.shape[1]
        for b, h in itertools.product(range(self.batch), range(self.count)):
            rows, columns, at = slice(None), slice(None), b
            if self.starts is not None:
                (rows, columns), at = (slice(s[b], s[b + 1]) for s in self.starts), 0
            yield Place(b, h, (at, h, rows), (at, h // group, columns), (at, h, rows))

    def new(self, like: _Array, size: int | None = None) -> _Array:
        """Zeros of the shape of one of the tensors, or with rows of ``size`` numbers."""
        return np.zeros((*like.shape[:3], like.shape[3] if size is None else size), like.dtype)

    def rows_of_q(self) -> _Array:
        """Zeros, one for each row of q."""
        return np.zeros(self.q.shape[:3], self.q.dtype)

    def take(self, tensor: Any, name: str, shape: tuple[int, ...]) -> _Array:
        """Another tensor of the call, which has this shape here."""
        found = _wide(tensor, name, self.layout, self.starts is not None, self.q.dtype)
        if found.shape != shape:
            wanted = self.laid_out(np.empty(shape, np.bool_)).shape
            raise InvalidArgument(f"{name} has shape {np.shape(tensor)}, not {wanted}")
        return found

    def matrix(self, tensor: Any, name: str) -> _Array:
        """A number for each score, (batch, heads, rows of q, rows of k), broadcast."""
        rows, columns = self.q.shape[2], self.k.shape[2]
        if self.starts is not None:
            rows, columns = (max(np.diff(s), default=0) for s in self.starts)
        return self._broadcast(tensor, name, (self.batch, self.count, int(rows), int(columns)))

    def per_head(self, tensor: Any, name: str) -> _Array:
        """A number for each head, (heads) or (batch, heads)."""
        return self._broadcast(tensor, name, (self.batch, self.count))

    def _broadcast(self, tensor: Any, name: str, shape: tuple[int, ...]) -> _Array:
        found = np.asarray(tensor).astype(self.q.dtype)
        try:
            return np.broadcast_to(found, shape)
        except ValueError:
            raise InvalidArgument(
                f"{name} has shape {found.shape}, which does not broadcast to {shape}"
            ) from None

    def laid_out(self, tensor: _Array) -> _Array:
        """A result in the layout of the call."""
        found = tensor.swapaxes(1, 2) if self.layout == "bshd" else tensor
        return found if self.starts is None else found[0]

    def of_rows(self, numbers: _Array) -> _Array:
        """A number for each row of q: (batch, heads, rows), or (heads, rows)."""
        return numbers if self.starts is None else numbers[0]


def _wide(tensor: Any, name: str, layout: str, packed: bool, dtype: Any) -> _Array:
    found = np.asarray(tensor).astype(dtype)
    if found.ndim != (3 if packed else 4):
        names = {"bhsd": "heads, rows, size", "bshd": "rows, heads, size"}[layout]
        batch = "" if packed else "batch, "
        raise InvalidArgument(f"{name} has shape {found.shape}; pass ({batch}{names})")
    if packed:
        found = found[None]
    return found.swapaxes(1, 2) if layout == "bshd" else found


def _starts(given: Any, name: str, tensor: _Array) -> list[int]:
    numbers = [int(n) for n in np.asarray(given).reshape(-1)]
    rising = all(a <= b for a, b in itertools.pairwise(numbers))
    if len(numbers) < 1 or numbers[0] != 0 or not rising or numbers[-1] > tensor.shape[2]:
        raise InvalidArgument(
            f"cu_seqlens_{name} is {numbers}; pass batch + 1 first rows, from 0, rising, and to at "
            f"most the {tensor.shape[2]} rows of {name}"
        )
    return numbers
