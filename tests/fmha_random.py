"""Attention calls of random features, lengths and shapes, for hypothesis: small, of many edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from fmha_check import DTYPES, Array
from hypothesis import strategies as st

from ckdisp.reference import attention_fwd

ROWS = (0, 1, 2, 5, 17, 40, 140)
KEYS = (0, 1, 3, 16, 31, 70, 300)


@dataclass
class Call:
    """Tensors (batch, heads, rows, size), or without batch where ``how`` has the first rows."""

    q: Array
    k: Array
    v: Array
    how: dict[str, Any]
    rng: np.random.Generator

    @property
    def inputs(self) -> tuple[Array, Array, Array]:
        return self.q, self.k, self.v

    def normal(self, *shape: int, dtype: str) -> Array:
        return normal(self.rng, *shape, dtype=dtype)

    def reference(self, **how: Any) -> Any:
        return attention_fwd(*self.inputs, **self.how, **how)

    @property
    def size(self) -> float:
        """Of the largest score, which rounding errors of weights grow with."""
        if self.how.get("logits_soft_cap"):
            return float(self.how["logits_soft_cap"])
        rows = (np.nan_to_num(x.astype(np.float64)) for x in (self.q, self.k))
        length = [float(np.max(np.linalg.norm(x, axis=-1), initial=0)) for x in rows]
        return abs(self.how.get("scale", self.q.shape[-1] ** -0.5)) * length[0] * length[1]

    def __str__(self) -> str:
        shapes = [x.shape for x in self.inputs]
        return f"{shapes} { ({k: getattr(v, 'shape', v) for k, v in self.how.items()}) }"


def normal(rng: np.random.Generator, *shape: int, dtype: str) -> Array:
    return rng.standard_normal(shape).astype(np.float32).astype(DTYPES[dtype])


def starts(lengths: list[int]) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


@st.composite
def calls(
    draw: st.DrawFn,
    dtype: str = "fp32",
    *,
    packed: bool | None = None,
    cache: bool = False,
    lengths: bool = False,
    dropout: bool = True,
    scored: bool = True,
    large: bool = True,
    broken: bool = False,
    whole_vectors: bool = False,
) -> Call:
    """``packed`` sequences lie in one tensor, but for a ``cache``, of which each uses a part.

    With ``lengths``, packed sequences of k may be used in part, too. Without ``scored`` there is
    neither bias nor ALiBi nor a cap, and without ``large`` scores are small. Of ``broken`` calls a
    key may be NaN for those who see it. ``whole_vectors`` of 16 bytes fill a row of k.
    """
    pick = st.sampled_from
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    packed = draw(st.booleans()) if packed is None else packed
    pairs = draw(st.lists(st.tuples(pick(ROWS), pick(KEYS)), min_size=1, max_size=3))
    rows, keys = [p[0] for p in pairs], [p[1] for p in pairs]
    batch, heads_k, group = len(pairs), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    vector = 16 // DTYPES[dtype].itemsize
    d = draw(pick([2 * vector, 3 * vector, 64] if whole_vectors else [1, 8, 33, 64]))
    dv = draw(pick([1, 8, 20, 64]))
    heads = heads_k * group
    how: dict[str, Any] = {}
    lead_q: tuple[int, ...] = (heads, sum(rows)) if packed else (batch, heads, rows[0])
    lead_k: tuple[int, ...] = (batch, heads_k, max(keys))
    if packed:
        how["cu_seqlens_q"] = starts(rows)
    if packed and not cache:
        how["cu_seqlens_k"] = starts(keys)
        lead_k = (heads_k, sum(keys))
    call = Call(
        normal(rng, *lead_q, d, dtype=dtype),
        normal(rng, *lead_k, d, dtype=dtype),
        normal(rng, *lead_k, dv, dtype=dtype),
        how,
        rng,
    )
    if large and DTYPES[dtype].itemsize > 1:
        call.q *= draw(pick([1, 1, 30, 1000]))
    if cache:
        how["seqlens_k"] = np.array(keys, np.int32)
    elif packed and lengths and draw(st.booleans()):
        how["seqlens_k"] = np.array([draw(st.integers(0, n)) for n in keys], np.int32)
    poison(call)
    if broken and call.k.size and draw(st.booleans()):
        place = tuple(draw(st.integers(0, n - 1)) for n in call.k.shape[:-1])
        for x in draw(pick([(call.k,), (call.v,), (call.k, call.v)])):
            x[place] = np.nan
    kind = draw(pick(["no", "top_left", "bottom_right", "window", "window"]))
    if kind == "window":
        side = pick([-1, 0, 1, 6, 50])
        how["mask"] = draw(pick(["top_left", "bottom_right"]))
        how["window"] = (draw(side), draw(side))
    elif kind != "no":
        how["mask"] = kind
    if kind != "no" and how.get("window") != (-1, -1):
        how["sink"] = draw(pick([0, 0, 1, 5]))
    if draw(st.booleans()):
        how["scale"] = draw(pick([0.5, -0.3, 0.0]))
    extra = draw(pick(["", "bias", "alibi", "cap"])) if scored else ""
    if extra == "bias":
        most = max(keys)
        full = (*lead_q[-2:], most) if packed else (*lead_q, most)
        shape = (*(draw(pick([1, n])) for n in full[:-1]), most)
        shape = shape[draw(st.integers(0, len(shape) - 2)) :]
        how["bias"] = call.normal(*shape, dtype="fp32" if "8" in dtype else dtype)
    elif extra == "alibi":
        shape = (batch, heads) if draw(st.booleans()) else (heads,)
        how["alibi_slopes"] = abs(call.normal(*shape, dtype="fp32"))
    elif extra == "cap":
        how["logits_soft_cap"] = draw(pick([0.5, 3.0, 30.0]))
    if dropout and draw(st.booleans()):
        how["dropout_p"] = draw(pick([0.1, 0.4, 0.9]))
        how["seed"], how["offset"] = draw(st.integers(0, 2**64 - 1)), draw(st.integers(0, 2**40))
    return call


def poison(call: Call) -> None:
    """What a sequence does not use of its keys becomes NaN, which must not come through."""
    used, first = call.how.get("seqlens_k"), call.how.get("cu_seqlens_k")
    if used is None:
        return
    for x in (call.k, call.v):
        for b, n in enumerate(used):
            if first is None:
                x[b, :, n:] = np.nan
            else:
                x[:, first[b] + n : first[b + 1]] = np.nan


def turned(x: Array, layout: str) -> Array:
    """From ``"bhsd"`` to ``layout``, or back."""
    return np.ascontiguousarray(x.swapaxes(-2, -3)) if layout == "bshd" else x


def pages_of(rng: np.random.Generator, x: Array, size: int) -> tuple[Array, Array]:
    """``x`` (batch, heads, rows, d) in pages in a random order, one of which nobody uses.

    The pages (pages, heads, size, d), whose other rows are NaN, and their table (batch, pages).
    """
    b, h, rows, d = x.shape
    count = -(-rows // size)
    order = rng.permutation(b * count + 1).astype(np.int32)
    table = order[: b * count].reshape(b, count)
    pages = np.full((b * count + 1, h, size, d), np.nan, x.dtype)
    for i in range(b):
        for j in range(count):
            part = x[i, :, j * size : (j + 1) * size]
            pages[table[i, j], :, : part.shape[1]] = part
    return pages, table


@dataclass
class Pages:
    """The keys of a call in pages, and the options that find them there."""

    k: Array
    v: Array
    size: int
    how: dict[str, Any]

    @classmethod
    def of(cls, call: Call, size: int) -> Pages:
        seed = int(call.rng.integers(2**32))
        k, table = pages_of(np.random.default_rng(seed), call.k, size)
        v, _ = pages_of(np.random.default_rng(seed), call.v, size)
        return cls(k, v, size, {"page_table": table, "seqlens_k": call.how["seqlens_k"]})

    def listed(self) -> None:
        """Found by ranges of one list, as SGLang does."""
        lengths = self.how["seqlens_k"]
        used = -(-lengths // self.size)
        table = self.how["page_table"]
        flat = [row[:n] for row, n in zip(table, used, strict=True)]
        last = np.where(lengths > 0, (lengths - 1) % self.size + 1, 0)
        self.how = {
            "page_table": np.concatenate(flat).astype(np.int32),
            "page_indptr": starts(list(used)),
            "last_page_len": last.astype(np.int32),
        }

    def vectors(self) -> None:
        """Of vectors of 16 bytes: those of k run along a row, those of v along rows."""
        x = 16 // self.k.dtype.itemsize
        n, h, size, d = self.k.shape
        self.k = self.k.reshape(n, h, size, d // x, x).transpose(0, 1, 3, 2, 4).copy()
        self.v = self.v.reshape(n, h, size // x, x, -1).swapaxes(3, 4).copy()
