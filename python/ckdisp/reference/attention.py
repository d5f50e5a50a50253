"""Attention and its gradients in NumPy, by whole matrices: one head of one sequence at a time.

With Q (sq, d), K (sk, d), V (sk, dv) of a head, and a mask that lets query i see some keys,

    S = scale * Q K^T, capped: cap * tanh(S / cap), or with the bias or -slope * distance added
    P = softmax of S over the keys that are seen,  LSE = log(sum(exp(S))) over them
    O = (P * Z) V, where Z is 0 for what dropout drops and 1 / (1 - p) for the rest

A query that sees no key has O = 0 and LSE = -inf. The gradients for dO are those of <dO, O>:

    dV = (P * Z)^T dO,  dP = Z * (dO V^T),  dS = P * (dP - rowsum(dO * O)),  dbias = dS
    dQ = scale * dT K,  dK = scale * dT^T Q,  where dT = dS * (1 - (S / cap)^2) with a cap, else dS

Numbers of keys that a query does not see never reach its results, even if they are NaN.

Source: Dao, "FlashAttention-2", 2023, sections 2 and 3.1; the soft cap is that of Gemma 2, ALiBi
that of Press, Smith, Lewis, "Train Short, Test Long", 2022, counted from the last key. The
arguments mean what they mean in :meth:`ckdisp.Dispatcher.fmha_fwd`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.errors import InvalidArgument
from .attention_scores import Scores, attend, product, softmax
from .attention_shapes import Heads

_Array = NDArray[Any]


def attention_fwd(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float | None = None,
    mask: str = "no",
    window: tuple[int, int] | None = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    dropout_p: float = 0.0,
    seed: int = 0,
    offset: int = 0,
    logits_soft_cap: float = 0.0,
    sink: int | None = None,
    layout: str = "bhsd",
    vlayout: str = "r",
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    seqlens_k: Any = None,
    cache_batch_idx: Any = None,
    min_seqlen_q: int = 0,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    return_lse: bool = False,
    return_randval: bool = False,
    dtype: Any = np.float64,
) -> Any:
    """The attention of ``q`` to ``k`` and ``v``, computed in ``dtype``; (o, lse) if asked.

    q is (batch, heads, rows, d), or in layout ``"bshd"`` (batch, rows, heads, d); with
    ``cu_seqlens_q`` and ``cu_seqlens_k`` there is no batch. k and v have a number of heads that
    divides that of q; with ``cu_seqlens_q`` alone they have a batch, such as what
    :func:`gather_kv` finds in pages. ``vlayout="c"`` reads v as (batch, heads, d, rows).
    ``seqlens_k`` is how many rows of k each sequence uses, ``cache_batch_idx`` which batch of k and
    v. With ``cu_seqlens_q``, sequences of ``min_seqlen_q`` queries or less are left out, as if they
    saw no key.

    ``bias`` broadcasts to (batch, heads, rows, keys), or without a batch to (heads, rows of all
    sequences, keys of the longest). ``q_scale``, ``k_scale`` and ``v_scale`` are what the numbers
    of a tensor are times to be, one or (batch, heads, blocks of 128 rows).

    ``lse`` is (batch, heads, rows), or (heads, rows of all sequences). ``return_randval`` adds the
    random bytes of dropout in the shape of a bias, 0 where there are no keys. Raises
    :class:`InvalidArgument` for shapes and values that do not fit.
    """
    heads = Heads.make(
        q, k, v, layout=layout, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, dtype=dtype,
        vlayout=vlayout, seqlens_k=seqlens_k, cache_batch_idx=cache_batch_idx,
        scales=(q_scale, k_scale, v_scale),
    )  # fmt: skip
    scores = Scores.make(
        heads, scale=scale, mask=mask, window=window, bias=bias, alibi_slopes=alibi_slopes,
        logits_soft_cap=logits_soft_cap, sink=sink, dropout_p=dropout_p, seed=seed, offset=offset,
    )  # fmt: skip
    if min_seqlen_q and cu_seqlens_q is None:
        raise InvalidArgument("min_seqlen_q leaves out short sequences: it needs cu_seqlens_q")
    o, lse = heads.new(heads.q, heads.v.shape[-1]), heads.sums()
    for place in heads:
        if len(heads.q[place.q]) > min_seqlen_q or not min_seqlen_q:
            o[place.q], lse[place.q] = attend(scores, place, slice(None))
    results = [heads.rows(o)]
    if return_lse:
        results.append(heads.numbers(lse))
    if return_randval:
        drawn = heads.cells(np.uint8)
        for place in heads:
            drawn[place.q][:, : heads.lengths[place.batch]] = scores.drawn(place)
        results.append(heads.numbers(drawn))
    return results[0] if len(results) == 1 else tuple(results)


@np.errstate(invalid="ignore")
def attention_bwd(
    do: Any,
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float | None = None,
    mask: str = "no",
    window: tuple[int, int] | None = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    dropout_p: float = 0.0,
    seed: int = 0,
    offset: int = 0,
    logits_soft_cap: float = 0.0,
    sink: int | None = None,
    layout: str = "bhsd",
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    return_dbias: bool = False,
    dtype: Any = np.float64,
) -> tuple[_Array, ...]:
    """The gradients (dq, dk, dv), and of the bias if asked, for the gradient ``do`` of the result.

    Arguments and shapes are those of :func:`attention_fwd`, which is computed anew; the gradient of
    the bias is what the bias broadcasts to, before any sum over what was broadcast.
    """
    heads = Heads.make(
        q, k, v, layout=layout, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, dtype=dtype
    )
    scores = Scores.make(
        heads, scale=scale, mask=mask, window=window, bias=bias, alibi_slopes=alibi_slopes,
        logits_soft_cap=logits_soft_cap, sink=sink, dropout_p=dropout_p, seed=seed, offset=offset,
    )  # fmt: skip
    gradient = heads.take(do, "do", (*heads.q.shape[:-1], heads.v.shape[-1]))
    dq, dk, dv = heads.new(heads.q), heads.new(heads.k), heads.new(heads.v)
    dbias = heads.cells()
    for place in heads:
        s, seen, slope = scores.of(place)
        p, _ = softmax(s, seen)
        kept = scores.kept(place)
        row = gradient[place.q]
        dv[place.k] += product((p * kept).T, seen.T, row)
        dp = np.where(seen, kept * (row @ heads.values(place).T), 0)
        ds = np.where(seen, p * (dp - np.sum(p * dp, axis=1, keepdims=True)), 0)
        dbias[place.q][:, : s.shape[1]] = ds
        ds = np.where(seen, ds * slope, 0) * scores.scale
        dq[place.q] = product(ds, seen, heads.keys(place))
        dk[place.k] += product(ds.T, seen.T, heads.queries(place))
    found = (heads.rows(dq), heads.rows_of_k(dk), heads.rows_of_k(dv))
    return (*found, heads.numbers(dbias)) if return_dbias else found
