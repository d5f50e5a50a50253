"""Which page of a cache holds a row of a sequence."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.enums import unknown
from ..codegen.errors import InvalidArgument
from .attention_shapes import integers, wide

_Array = NDArray[Any]
_LOOKUPS = ("vllm", "sglang")


def from_vectors(k: Any, v: Any, layout: str, dtype: Any) -> tuple[_Array, _Array]:
    """Pages of k and v as (pages, heads, page size, size), from rows or from vectors."""
    if np.ndim(k) != 5 and np.ndim(v) != 5:
        keys, values = wide(k, "k", layout, False, dtype), wide(v, "v", layout, False, dtype)
    elif np.ndim(k) == np.ndim(v) == 5:
        keys, values = (np.asarray(x).astype(dtype) for x in (k, v))
        pages, heads, chunks, size, x = keys.shape
        keys = keys.transpose(0, 1, 3, 2, 4).reshape(pages, heads, size, chunks * x)
        pages, heads, chunks, width, x = values.shape
        values = values.transpose(0, 1, 2, 4, 3).reshape(pages, heads, chunks * x, width)
    else:
        raise InvalidArgument(
            f"k has shape {np.shape(k)} and v {np.shape(v)}; pass both in pages of vectors, or none"
        )
    if keys.shape[:3] != values.shape[:3]:
        raise InvalidArgument(
            f"k has {keys.shape[0]} pages of {keys.shape[1]} heads and {keys.shape[2]} rows, and v "
            f"{values.shape[0]} of {values.shape[1]} and {values.shape[2]}: they must agree"
        )
    return keys, values


@dataclass(frozen=True)
class PageTable:
    """The pages of each sequence."""

    pages: list[list[int]]
    lengths: list[int]
    size: int

    @classmethod
    def make(
        cls,
        table: Any,
        seqlens: Any,
        lookup: str,
        indptr: Any,
        last_page_len: Any,
        count: int,
        size: int,
    ) -> PageTable:
        """``count`` pages of ``size`` rows."""
        if lookup not in _LOOKUPS:
            raise InvalidArgument(unknown("kv_lookup", lookup, _LOOKUPS))
        wanted = {"vllm": 2, "sglang": 1}[lookup]
        numbers = np.asarray(table)
        if numbers.ndim != wanted:
            shape = {"vllm": "(batch, pages of a sequence)", "sglang": "one list"}[lookup]
            raise InvalidArgument(f"page_table has shape {numbers.shape}; {lookup} has {shape}")
        if lookup == "vllm":
            if seqlens is None:
                raise InvalidArgument("seqlens_k is missing: pass the keys of each sequence")
            room = numbers.shape[1] * size
            lengths = integers(seqlens, "seqlens_k", len(numbers), 0, room, "keys of a sequence")
            rows = [row[: -(-n // size)] for row, n in zip(numbers, lengths, strict=True)]
        else:
            rows, lengths = _listed(numbers, indptr, last_page_len, size)
        pages = [[int(n) for n in row] for row in rows]
        for b, row in enumerate(pages):
            for page in row:
                if not 0 <= page < count:
                    raise InvalidArgument(
                        f"sequence {b} has page {page} in page_table, and there are {count} pages"
                    )
        return cls(pages, lengths, size)

    def find(self, batch: int, row: int) -> tuple[int, int]:
        """The page of a row of a sequence, and its place there."""
        return self.pages[batch][row // self.size], row % self.size


def _listed(
    numbers: _Array, indptr: Any, last_page_len: Any, size: int
) -> tuple[list[_Array], list[int]]:
    if indptr is None or last_page_len is None:
        raise InvalidArgument("sglang needs page_indptr and last_page_len; pass both")
    starts = [int(n) for n in np.asarray(indptr).reshape(-1)]
    rising = all(a <= b for a, b in itertools.pairwise(starts))
    if not starts or starts[0] != 0 or not rising or starts[-1] > len(numbers):
        raise InvalidArgument(
            f"page_indptr is {starts}; pass batch + 1 first places, from 0, rising, and to at most "
            f"the {len(numbers)} pages of page_table"
        )
    rows = [numbers[a:b] for a, b in itertools.pairwise(starts)]
    last = integers(last_page_len, "last_page_len", len(rows), 0, size, "keys of a last page")
    for b, (row, n) in enumerate(zip(rows, last, strict=True)):
        if len(row) and n == 0:
            raise InvalidArgument(f"last_page_len[{b}] is 0, and that sequence has pages")
    lengths = [
        (len(row) - 1) * size + n if len(row) else 0 for row, n in zip(rows, last, strict=True)
    ]
    return rows, lengths
