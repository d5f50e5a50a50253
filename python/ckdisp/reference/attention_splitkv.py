"""Attention over parts of the keys, and the sum of the parts.

    LSE = log(sum over parts of exp(LSE_i)),  O = sum over parts of exp(LSE_i - LSE) O_i

Source: Dao, Haziza, Massa, Sizov, "Flash-Decoding for long-context inference", 2023.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.errors import InvalidArgument
from .attention_scores import Scores, attend
from .attention_shapes import Heads, check_layout

_Array = NDArray[Any]


def attention_splitkv(
    q: Any,
    k: Any,
    v: Any,
    *,
    num_splits: int,
    scale: float | None = None,
    mask: str = "no",
    window: tuple[int, int] | None = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    logits_soft_cap: float = 0.0,
    sink: int | None = None,
    layout: str = "bhsd",
    vlayout: str = "r",
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    seqlens_k: Any = None,
    cache_batch_idx: Any = None,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    dtype: Any = np.float64,
) -> tuple[_Array, _Array]:
    """(o, lse) of each of ``num_splits`` parts of the keys, as :func:`attention_combine` takes it.

    Part i of a sequence of n keys are those from i * m to (i + 1) * m, m = ceil(n / num_splits). A
    row that sees no key of a part has o = 0 and lse = -inf there. Arguments are those of
    :func:`attention_fwd`, and the results those of it behind a first dimension of the parts.
    """
    if not hasattr(num_splits, "__index__") or num_splits < 1:
        raise InvalidArgument(f"num_splits is {num_splits!r}; pass an integer, 1 or more")
    heads = Heads.make(
        q, k, v, layout=layout, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, dtype=dtype,
        vlayout=vlayout, seqlens_k=seqlens_k, cache_batch_idx=cache_batch_idx,
        scales=(q_scale, k_scale, v_scale),
    )  # fmt: skip
    scores = Scores.make(
        heads, scale=scale, mask=mask, window=window, bias=bias, alibi_slopes=alibi_slopes,
        logits_soft_cap=logits_soft_cap, sink=sink,
    )  # fmt: skip
    o = [heads.new(heads.q, heads.v.shape[-1]) for _ in range(num_splits)]
    lse = [heads.sums() for _ in range(num_splits)]
    for place in heads:
        size = -(-heads.lengths[place.batch] // num_splits)
        for i in range(num_splits):
            part = slice(i * size, (i + 1) * size)
            o[i][place.q], lse[i][place.q] = attend(scores, place, part)
    return np.stack([heads.rows(x) for x in o]), np.stack([heads.numbers(x) for x in lse])


def attention_combine(
    o: Any, lse: Any, *, layout: str = "bhsd", return_lse: bool = False, dtype: Any = np.float64
) -> Any:
    """The attention to all keys from that to parts of them; (o, lse) if asked.

    ``o`` is (parts, batch, heads, rows, size), or (parts, batch, rows, heads, size) in layout
    ``"bshd"``; ``lse`` is (parts, batch, heads, rows). Both may be without a batch. A row whose
    every part has lse = -inf has o = 0.
    """
    check_layout(layout)
    parts, sums = np.asarray(o).astype(dtype), np.asarray(lse).astype(dtype)
    rows = parts.swapaxes(-2, -3) if layout == "bshd" else parts
    if parts.ndim not in (4, 5) or rows.shape[:-1] != sums.shape:
        raise InvalidArgument(
            f"o has shape {parts.shape} and lse {sums.shape}; pass what attention_splitkv returns "
            f"in layout {layout!r}"
        )
    if len(parts) == 0:
        raise InvalidArgument("there are no parts to combine; pass one or more")
    most = np.max(sums, axis=0)
    base = np.where(np.isneginf(most), 0, most)
    weights = np.exp(sums - base)
    total = np.sum(weights, axis=0)
    weights = weights / np.where(total == 0, 1, total)
    whole = np.sum(np.where(weights[..., None] == 0, 0, weights[..., None] * rows), axis=0)
    result = whole.swapaxes(-2, -3) if layout == "bshd" else whole
    if not return_lse:
        return result
    with np.errstate(divide="ignore"):
        return result, base + np.log(total)
