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
from .attention_scales import block_scales, rows_scaled

_Array = NDArray[Any]


@dataclass(frozen=True)
class Place:
    """One head of one sequence: indices into what has the rows of q, and into k and v."""

    batch: int
    head: int
    q: tuple[int, int, slice]
    k: tuple[int, int, slice]


@dataclass(frozen=True)
class Heads:
    """q, k and v as (batch, heads, rows, size); of sequences in one tensor the batch is 1."""

    q: _Array
    k: _Array
    v: _Array
    layout: str
    starts_q: list[int] | None  # first rows, where there is no batch
    starts_k: list[int] | None
    lengths: list[int]  # keys of each sequence
    batches: list[int]  # of k and v that each sequence attends to
    columns: int  # keys that a row of scores has room for
    scales: tuple[_Array | None, _Array | None, _Array | None]

    @classmethod
    def make(
        cls,
        q: Any,
        k: Any,
        v: Any,
        *,
        layout: str,
        cu_seqlens_q: Any,
        cu_seqlens_k: Any,
        dtype: Any,
        vlayout: str = "r",
        seqlens_k: Any = None,
        cache_batch_idx: Any = None,
        scales: Sequence[Any] = (None, None, None),
    ) -> Heads:
        check_layout(layout)
        packed_q, packed_k = cu_seqlens_q is not None, cu_seqlens_k is not None
        if (packed_k and not packed_q) or (packed_q and not packed_k and np.ndim(k) == 3):
            raise InvalidArgument(
                "pass both of cu_seqlens_q and cu_seqlens_k, or none; k and v with a batch need no "
                "cu_seqlens_k"
            )
        queries = wide(q, "q", layout, packed_q, dtype)
        keys = wide(k, "k", layout, packed_k, dtype)
        values = wide_v(v, layout, vlayout, packed_k, dtype)
        if keys.shape[:3] != values.shape[:3]:
            raise InvalidArgument(
                f"k and v have shapes {np.shape(k)} and {np.shape(v)}: batches, heads and rows "
                "must agree"
            )
        if queries.shape[3] != keys.shape[3]:
            raise InvalidArgument(
                f"q has head dimension {queries.shape[3]} and k {keys.shape[3]}; pass equal ones"
            )
        if keys.shape[1] == 0 or queries.shape[1] % keys.shape[1]:
            raise InvalidArgument(
                f"q has {queries.shape[1]} heads and k {keys.shape[1]}; pass a multiple"
            )
        starts_q = _starts(cu_seqlens_q, "q", queries) if packed_q else None
        starts_k = _starts(cu_seqlens_k, "k", keys) if packed_k else None
        batch = queries.shape[0] if starts_q is None else len(starts_q) - 1
        if starts_k is not None and len(starts_k) != batch + 1:
            raise InvalidArgument(
                f"cu_seqlens_q has {batch + 1} numbers and cu_seqlens_k {len(starts_k)}"
            )
        batches = _batches(cache_batch_idx, batch, keys, packed_k)
        lengths = _lengths(seqlens_k, batch, keys, starts_k)
        rows_q, rows_k = _longest(starts_q, queries), _longest(starts_k, keys)
        counts = ((queries.shape[1], rows_q), (keys.shape[1], rows_k), (keys.shape[1], rows_k))
        q_scale, k_scale, v_scale = (
            block_scales(scale, name, (batch, *count), dtype)
            for scale, name, count in zip(
                scales, ("q_scale", "k_scale", "v_scale"), counts, strict=True
            )
        )
        return cls(
            queries, keys, values, layout, starts_q, starts_k, lengths, batches, rows_k,
            (q_scale, k_scale, v_scale),
        )  # fmt: skip

    @property
    def count(self) -> int:
        """Heads of q."""
        return int(self.q.shape[1])

    @property
    def batch(self) -> int:
        """Sequences."""
        return len(self.lengths)

    def __iter__(self) -> Iterator[Place]:
        group = self.count // self.k.shape[1]
        for b, h in itertools.product(range(self.batch), range(self.count)):
            q, k = (b, h, slice(None)), (self.batches[b], h // group, slice(self.lengths[b]))
            if self.starts_q is not None:
                q = (0, h, slice(self.starts_q[b], self.starts_q[b + 1]))
            if self.starts_k is not None:
                first = self.starts_k[b]
                k = (0, h // group, slice(first, first + self.lengths[b]))
            yield Place(b, h, q, k)

    def queries(self, place: Place) -> _Array:
        """The rows of q of a head of a sequence, in what numbers they stand for."""
        return rows_scaled(self.q[place.q], self.scales[0], (place.batch, place.head))

    def keys(self, place: Place) -> _Array:
        """The same of k."""
        return rows_scaled(self.k[place.k], self.scales[1], (place.batch, place.k[1]))

    def values(self, place: Place) -> _Array:
        """The same of v."""
        return rows_scaled(self.v[place.k], self.scales[2], (place.batch, place.k[1]))

    def new(self, like: _Array, size: int | None = None) -> _Array:
        """Zeros of the shape of one of the tensors, or with rows of ``size`` numbers."""
        return np.zeros((*like.shape[:3], like.shape[3] if size is None else size), like.dtype)

    def sums(self) -> _Array:
        """The LSE of rows of q that see nothing."""
        return np.full(self.q.shape[:3], -np.inf, self.q.dtype)

    def cells(self, dtype: Any = None) -> _Array:
        """Zeros, one for each score."""
        return np.zeros((*self.q.shape[:3], self.columns), self.q.dtype if dtype is None else dtype)

    def take(self, tensor: Any, name: str, shape: tuple[int, ...]) -> _Array:
        """Another tensor of the call with the rows of q, which has this shape here."""
        found = wide(tensor, name, self.layout, self.starts_q is not None, self.q.dtype)
        if found.shape != shape:
            wanted = self.rows(np.empty(shape, np.bool_)).shape
            raise InvalidArgument(f"{name} has shape {np.shape(tensor)}, not {wanted}")
        return found

    def matrix(self, tensor: Any, name: str) -> _Array:
        """A number for each score, broadcast; (heads, all rows, most keys) without a batch."""
        return self._broadcast(tensor, name, (*self.q.shape[:3], self.columns))

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

    def rows(self, tensor: _Array) -> _Array:
        """A result with the rows of q in the layout of the call."""
        return laid_out(tensor, self.layout, self.starts_q is not None)

    def rows_of_k(self, tensor: _Array) -> _Array:
        """A result with the rows of k in the layout of the call."""
        return laid_out(tensor, self.layout, self.starts_k is not None)

    def numbers(self, tensor: _Array) -> _Array:
        """A result (batch, heads, ...), without the batch if q has none."""
        return tensor if self.starts_q is None else tensor[0]


def check_layout(layout: str) -> None:
    """Refuses an unknown layout."""
    if layout not in ("bhsd", "bshd"):
        raise InvalidArgument(unknown("layout", layout, ("bhsd", "bshd")))


def wide(tensor: Any, name: str, layout: str, packed: bool, dtype: Any) -> _Array:
    """``tensor`` as (batch, heads, rows, size)."""
    found = np.asarray(tensor).astype(dtype)
    if found.ndim != (3 if packed else 4):
        names = {"bhsd": "heads, rows, size", "bshd": "rows, heads, size"}[layout]
        batch = "" if packed else "batch, "
        raise InvalidArgument(f"{name} has shape {found.shape}; pass ({batch}{names})")
    if packed:
        found = found[None]
    return found.swapaxes(1, 2) if layout == "bshd" else found


def wide_v(tensor: Any, layout: str, vlayout: str, packed: bool, dtype: Any) -> _Array:
    """v as (batch, heads, rows, size), of which ``vlayout`` ``"c"`` is the transpose."""
    if vlayout not in ("r", "c"):
        raise InvalidArgument(unknown("vlayout", vlayout, ("r", "c")))
    if vlayout == "r":
        return wide(tensor, "v", layout, packed, dtype)
    return wide(tensor, "v", "bhsd", packed, dtype).swapaxes(2, 3)


def laid_out(tensor: _Array, layout: str, packed: bool = False) -> _Array:
    """The opposite of :func:`wide`."""
    found = tensor.swapaxes(1, 2) if layout == "bshd" else tensor
    return found[0] if packed else found


def whole_numbers(given: Any, name: str) -> list[int]:
    found = np.asarray(given)
    if not (found.size == 0 or np.issubdtype(found.dtype, np.integer)):
        raise InvalidArgument(f"{name} holds {found.dtype}; pass integers")
    return [int(n) for n in found.reshape(-1)]


def integers(given: Any, name: str, count: int, low: int, high: int, what: str) -> list[int]:
    """``count`` numbers from ``low`` to ``high``."""
    numbers = whole_numbers(given, name)
    if np.shape(given) != (count,):
        raise InvalidArgument(f"{name} has shape {np.shape(given)}; pass ({count},), {what}")
    for place, number in enumerate(numbers):
        if not low <= number <= high:
            raise InvalidArgument(f"{name}[{place}] is {number}; pass {what}, from {low} to {high}")
    return numbers


def _longest(starts: list[int] | None, tensor: _Array) -> int:
    if starts is None:
        return int(tensor.shape[2])
    return max((b - a for a, b in itertools.pairwise(starts)), default=0)


def _batches(given: Any, batch: int, keys: _Array, packed: bool) -> list[int]:
    if given is not None:
        if packed:
            raise InvalidArgument("cache_batch_idx chooses a batch of k, which has none here")
        last = keys.shape[0] - 1
        return integers(given, "cache_batch_idx", batch, 0, last, "batches of k and v")
    if not packed and keys.shape[0] != batch:
        raise InvalidArgument(f"q has {batch} sequences and k {keys.shape[0]}: they must agree")
    return list(range(batch))


def _lengths(given: Any, batch: int, keys: _Array, starts: list[int] | None) -> list[int]:
    if starts is None:
        rows = keys.shape[2]
        if given is None:
            return [rows] * batch
        return integers(given, "seqlens_k", batch, 0, rows, "rows of k in use")
    held = [b - a for a, b in itertools.pairwise(starts)]
    if given is None:
        return held
    used = integers(given, "seqlens_k", batch, 0, max(held, default=0), "rows of k in use")
    for place, (number, most) in enumerate(zip(used, held, strict=True)):
        if number > most:
            raise InvalidArgument(
                f"seqlens_k[{place}] is {number}, more than the {most} rows of that sequence"
            )
    return used


def _starts(given: Any, name: str, tensor: _Array) -> list[int]:
    numbers = whole_numbers(given, f"cu_seqlens_{name}")
    rising = all(a <= b for a, b in itertools.pairwise(numbers))
    if len(numbers) < 1 or numbers[0] != 0 or not rising or numbers[-1] > tensor.shape[2]:
        raise InvalidArgument(
            f"cu_seqlens_{name} is {numbers}; pass batch + 1 first rows, from 0, rising, and to at "
            f"most the {tensor.shape[2]} rows of {name}"
        )
    return numbers
