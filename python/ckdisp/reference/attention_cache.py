"""Caches of keys and values: pages, and new rows with rotary positions.

A pair (x, y) of a row at place t is rotated by the angle a(t) that the pair has there:

    x' = x cos(a) - y sin(a),  y' = x sin(a) + y cos(a)

Pairs are neighbours (``"interleaved"``), or number i of the first half and number i of the second
(``"half_rotated"``); numbers behind the rotary dimension stay.

Source: Su, Lu, Pan, Murtadha, Wen, Liu, "RoFormer", 2021, section 3.2; pages are those of Kwon et
al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.enums import unknown
from ..codegen.errors import InvalidArgument
from .attention_mask import check_mask
from .attention_pages import PageTable, from_vectors
from .attention_scales import page_scales
from .attention_shapes import check_layout, integers, laid_out, wide, wide_v

_Array = NDArray[Any]
_ROPES = ("interleaved", "half_rotated")


def gather_kv(
    k: Any,
    v: Any,
    *,
    page_table: Any,
    seqlens_k: Any = None,
    kv_lookup: str = "vllm",
    page_indptr: Any = None,
    last_page_len: Any = None,
    max_seqlen_k: int | None = None,
    k_scale: Any = None,
    v_scale: Any = None,
    layout: str = "bhsd",
    dtype: Any = np.float64,
) -> tuple[_Array, _Array, _Array]:
    """(k, v, seqlens_k) for :func:`attention_fwd` of caches that lie in pages.

    Pages are (pages, heads, page size, d), in layout ``"bshd"`` (pages, page size, heads, d), or in
    both of vectors of x numbers: k (pages, heads, d / x, page size, x) and v (pages, heads, page
    size / x, d, x). With ``kv_lookup`` ``"vllm"``, row b of ``page_table`` lists the pages of
    sequence b, which has ``seqlens_k[b]`` keys; with ``"sglang"``, ``page_table`` is one list, of
    which it has those from ``page_indptr[b]`` to ``page_indptr[b + 1]``, the last one holding
    ``last_page_len[b]`` keys. ``k_scale`` and ``v_scale`` are one number, or (pages, heads).

    The results have ``max_seqlen_k`` rows, as many as the longest sequence if None; those behind
    the keys of a sequence are 0.
    """
    check_layout(layout)
    pages = from_vectors(k, v, layout, dtype)
    table = PageTable.make(
        page_table, seqlens_k, kv_lookup, page_indptr, last_page_len, *pages[0].shape[0:3:2]
    )
    rows = max(table.lengths, default=0) if max_seqlen_k is None else max_seqlen_k
    if rows < max(table.lengths, default=0):
        raise InvalidArgument(
            f"max_seqlen_k is {rows}, and a sequence has {max(table.lengths)} keys"
        )
    found = []
    for tensor, scale, name in zip(pages, (k_scale, v_scale), ("k_scale", "v_scale"), strict=True):
        used = tensor if scale is None else page_scales(scale, name, tensor, dtype)
        out = np.zeros((len(table.lengths), used.shape[1], rows, used.shape[3]), used.dtype)
        for b, length in enumerate(table.lengths):
            for row in range(length):
                page, place = table.find(b, row)
                out[b, :, row] = used[page, :, place]
        found.append(laid_out(out, layout))
    return found[0], found[1], np.array(table.lengths, np.int32)


def apply_rope(
    x: Any, cos: Any, sin: Any, *, rope: str = "interleaved", dtype: Any = np.float64
) -> _Array:
    """``x`` (..., rows, size) with its rows rotated by ``cos`` and ``sin`` (rows, pairs)."""
    if rope not in _ROPES:
        raise InvalidArgument(unknown("rope", rope, _ROPES))
    rows, c, s = (np.asarray(t).astype(dtype) for t in (x, cos, sin))
    if rows.ndim < 2 or c.ndim != 2 or c.shape != s.shape or len(c) != rows.shape[-2]:
        raise InvalidArgument(
            f"x has shape {rows.shape}, cos {c.shape} and sin {s.shape}; pass (..., rows, size) "
            "and twice (rows, pairs)"
        )
    pairs = c.shape[1]
    if 2 * pairs > rows.shape[-1]:
        raise InvalidArgument(
            f"cos has {pairs} pairs, more than rows of {rows.shape[-1]} numbers have"
        )
    if rope == "interleaved":
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    else:
        first, second = slice(0, pairs), slice(pairs, 2 * pairs)
    out = rows.copy()
    out[..., first] = rows[..., first] * c - rows[..., second] * s
    out[..., second] = rows[..., first] * s + rows[..., second] * c
    return out


def attention_appendkv(
    k: Any,
    v: Any,
    k_new: Any,
    v_new: Any,
    *,
    seqlens_k: Any,
    q: Any = None,
    rope: str | None = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    mask: str = "no",
    page_table: Any = None,
    cache_batch_idx: Any = None,
    layout: str = "bhsd",
    vlayout: str = "r",
    dtype: Any = np.float64,
) -> tuple[_Array, ...]:
    """Copies of the caches ``k`` and ``v`` with new rows; (k, v), with ``q`` (k, v, q).

    Row i of ``k_new`` and ``v_new`` (batch, heads, new rows, size) becomes row ``seqlens_k[b] + i``
    of sequence b: of its batch, or that of ``cache_batch_idx``, or of the pages of row b of
    ``page_table``, which then take the place of the batch. With ``rope`` the new keys are rotated
    by the rows of ``rotary_cos`` and ``rotary_sin`` (places, pairs) of their places, and so are the
    rows of ``q``: with a mask at the places of the new keys, else all at the first of them. With
    ``vlayout="c"`` the cache ``v`` is (batch, heads, size, rows), and has no pages.
    """
    check_layout(layout)
    check_mask(mask)
    if vlayout == "c" and page_table is not None:
        raise InvalidArgument("vlayout 'c' has no pages; pass a v of rows, or no page_table")
    tensors = ((k, "k"), (k_new, "k_new"), (v_new, "v_new"))
    keys, new_k, new_v = (wide(x, name, layout, False, dtype).copy() for x, name in tensors)
    values = wide_v(v, layout, vlayout, False, dtype).copy()
    batch, count = new_k.shape[0], new_k.shape[2]
    for cache, new, name in ((keys, new_k, "k"), (values, new_v, "v")):
        if new.shape[1::2] != cache.shape[1::2]:
            raise InvalidArgument(
                f"{name} has {cache.shape[1]} heads of {cache.shape[3]} numbers and {name}_new "
                f"{new.shape[1]} of {new.shape[3]}: they must agree"
            )
    if new_v.shape[:3] != new_k.shape[:3] or keys.shape[:3] != values.shape[:3]:
        raise InvalidArgument("k and v, and k_new and v_new, have different batches or rows")
    room = keys.shape[2] * (1 if page_table is None else np.asarray(page_table).shape[-1])
    used = integers(seqlens_k, "seqlens_k", batch, 0, room - count, "rows in use before")
    table = None
    if page_table is not None:
        held = [n + count for n in used]
        table = PageTable.make(page_table, held, "vllm", None, None, *keys.shape[0:3:2])
    outer = list(range(batch))
    if cache_batch_idx is not None:
        last = len(keys) - 1
        outer = integers(cache_batch_idx, "cache_batch_idx", batch, 0, last, "batches of k and v")
    elif table is None and len(keys) != batch:
        raise InvalidArgument(f"k has a batch of {len(keys)} and k_new of {batch}: they must agree")
    turn = _Rotation.make(rope, rotary_cos, rotary_sin, dtype)
    for b in range(batch):
        places = np.arange(used[b], used[b] + count)
        for row, rotated in enumerate(turn.rows(new_k[b], places).swapaxes(0, 1)):
            at = (outer[b], places[row]) if table is None else table.find(b, int(places[row]))
            keys[at[0], :, at[1]] = rotated
            values[at[0], :, at[1]] = new_v[b, :, row]
    columns = values.swapaxes(2, 3) if vlayout == "c" else laid_out(values, layout)
    found = (laid_out(keys, layout), columns)
    if q is None:
        return found
    queries = wide(q, "q", layout, False, dtype).copy()
    if queries.shape[0] != batch or queries.shape[3] != keys.shape[3]:
        raise InvalidArgument(
            f"q has shape {np.shape(q)}; pass a batch of {batch} and rows of {keys.shape[3]}"
        )
    for b in range(batch):
        steps = np.arange(queries.shape[2]) if mask != "no" else np.zeros(queries.shape[2], int)
        queries[b] = turn.rows(queries[b], used[b] + steps)
    return (*found, laid_out(queries, layout))


class _Rotation:
    """How rows are rotated by their places."""

    def __init__(self, rope: str | None, cos: _Array, sin: _Array, dtype: Any) -> None:
        self.rope, self.cos, self.sin, self.dtype = rope, cos, sin, dtype

    @classmethod
    def make(cls, rope: str | None, cos: Any, sin: Any, dtype: Any) -> _Rotation:
        if rope is not None and rope not in _ROPES:
            raise InvalidArgument(unknown("rope", rope, _ROPES))
        if rope is not None and (cos is None or sin is None):
            raise InvalidArgument(f"rope {rope!r} needs rotary_cos and rotary_sin; pass both")
        if np.shape(cos) != np.shape(sin):
            raise InvalidArgument(
                f"rotary_cos has shape {np.shape(cos)} and rotary_sin {np.shape(sin)}; "
                "pass both of one shape"
            )
        return cls(rope, np.asarray(cos), np.asarray(sin), dtype)

    def rows(self, x: _Array, places: _Array) -> _Array:
        """``x`` (heads, rows, size), rotated."""
        if self.rope is None:
            return x
        if len(places) and places[-1] >= len(self.cos):
            raise InvalidArgument(
                f"rotary_cos has {len(self.cos)} places, and there is a row at {places[-1]}"
            )
        return apply_rope(x, self.cos[places], self.sin[places], rope=self.rope, dtype=self.dtype)
