"""Attention and its gradients in NumPy, by whole matrices: one head of one sequence at a time.

With Q (sq, d), K (sk, d), V (sk, dv) of a head, and a mask that lets query i see some keys,

    S = scale * Q K^T, capped: cap * tanh(S / cap), or with the bias or -slope * distance added
    P = softmax of S over the keys that are seen,  LSE = log(sum(exp(S))) over them
    O = (P * Z) V, where Z is 0 for what dropout drops and 1 / (1 - p) for the rest

A query that sees no key has O = 0 and LSE = -inf. The gradients for dO are those of <dO, O>:

    dV = (P * Z)^T dO,  dP = Z * (dO V^T),  dS = P * (dP - rowsum(dO * O)),  dbias = dS
    dQ = scale * dT K,  dK = scale * dT^T Q,  where dT = dS * (1 - (S / cap)^2) with a cap, else dS

Source: Dao, "FlashAttention-2", 2023, sections 2 and 3.1; the soft cap is that of Gemma 2. The
arguments mean what they mean in :meth:`ckdisp.Dispatcher.fmha_fwd`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.errors import InvalidArgument
from .attention_shapes import Heads, Mask, Place
from .philox import dropout_bytes

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
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    return_lse: bool = False,
    dtype: Any = np.float64,
) -> Any:
    """The attention of ``q`` to ``k`` and ``v``, computed in ``dtype``; (o, lse) if asked.

    q is (batch, heads, rows, d), or in layout ``"bshd"`` (batch, rows, heads, d); with
    ``cu_seqlens_q`` and ``cu_seqlens_k`` there is no batch. k and v have a number of heads that
    divides that of q. ``lse`` is (batch, heads, rows), or (heads, rows of all sequences). Raises
    :class:`InvalidArgument` for shapes and values that do not fit.
    """
    heads = Heads.make(q, k, v, layout, cu_seqlens_q, cu_seqlens_k, dtype)
    scores = _Scores.make(
        heads, scale, mask, window, bias, alibi_slopes, dropout_p, seed, offset, logits_soft_cap,
        sink,
    )  # fmt: skip
    o, lse = heads.new(heads.q, heads.v.shape[-1]), heads.rows_of_q()
    for place in heads:
        p, lse[place.rows] = _softmax(scores.of(place)[0])
        o[place.q] = (p * scores.kept(place)) @ heads.v[place.k]
    result = heads.laid_out(o)
    return (result, heads.of_rows(lse)) if return_lse else result


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

    Shapes are those of :func:`attention_fwd`, which is computed anew; the gradient of the bias is
    (batch, heads, rows of q, rows of k), before any sum over what was broadcast.
    """
    heads = Heads.make(q, k, v, layout, cu_seqlens_q, cu_seqlens_k, dtype)
    scores = _Scores.make(
        heads, scale, mask, window, bias, alibi_slopes, dropout_p, seed, offset, logits_soft_cap,
        sink,
    )  # fmt: skip
    gradient = heads.take(do, "do", (*heads.q.shape[:-1], heads.v.shape[-1]))
    dq, dk, dv = heads.new(heads.q), heads.new(heads.k), heads.new(heads.v)
    if return_dbias and cu_seqlens_q is not None:
        raise InvalidArgument("there is no gradient of a bias of sequences of many lengths")
    dbias = np.zeros((*heads.q.shape[:-1], heads.k.shape[-2]) if return_dbias else (0,), dtype)
    for place in heads:
        s, slope = scores.of(place)
        p, _ = _softmax(s)
        kept = scores.kept(place)
        row = gradient[place.q]
        dv[place.k] += (p * kept).T @ row
        dp = kept * (row @ heads.v[place.k].T)
        ds = p * (dp - np.sum(p * dp, axis=1, keepdims=True))
        if return_dbias:
            dbias[place.q[:2]] = ds
        ds = ds * slope * scores.scale
        dq[place.q] = ds @ heads.k[place.k]
        dk[place.k] += ds.T @ heads.q[place.q]
    found = tuple(heads.laid_out(x) for x in (dq, dk, dv))
    return (*found, dbias) if return_dbias else found


def _softmax(s: _Array) -> tuple[_Array, _Array]:
    """Weights, and the logarithms of their sums."""
    most = np.max(s, axis=1, initial=-np.inf, keepdims=True)
    base = np.where(np.isfinite(most), most, 0)
    e = np.exp(s - base)
    total = e.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = base + np.log(total)
    return e / np.where(total > 0, total, 1), lse[:, 0]


@dataclass(frozen=True)
class _Scores:
    """How the scores of a head are made out of Q and K."""

    heads: Heads
    scale: float
    mask: Mask
    bias: _Array | None
    slopes: _Array | None
    cap: float
    dropout_p: float
    seed: int
    offset: int

    @classmethod
    def make(
        cls,
        heads: Heads,
        scale: float | None,
        mask: str,
        window: Sequence[int] | None,
        bias: Any,
        alibi_slopes: Any,
        dropout_p: float,
        seed: int,
        offset: int,
        cap: float,
        sink: int | None,
    ) -> _Scores:
        used = 1 / math.sqrt(max(heads.q.shape[-1], 1)) if scale is None else float(scale)
        if not math.isfinite(used):
            raise InvalidArgument(f"scale is {scale}; pass a finite number")
        if not 0 <= dropout_p < 1:
            raise InvalidArgument(f"dropout_p is {dropout_p}; pass a probability below 1")
        if not (math.isfinite(cap) and cap >= 0):
            raise InvalidArgument(
                f"logits_soft_cap is {cap}; pass a positive number, or 0 for none"
            )
        if cap and (bias is not None or alibi_slopes is not None):
            raise InvalidArgument("logits_soft_cap and a bias exclude each other; pass one of them")
        if bias is not None and alibi_slopes is not None:
            raise InvalidArgument("bias and alibi_slopes exclude each other; pass one of them")
        return cls(
            heads,
            used,
            Mask.make(mask, window, sink),
            None if bias is None else heads.matrix(bias, "bias"),
            None if alibi_slopes is None else heads.per_head(alibi_slopes, "alibi_slopes"),
            float(cap),
            float(dropout_p),
            seed,
            offset,
        )

    def of(self, place: Place) -> tuple[_Array, _Array]:
        """The scores, -inf where a key is not seen, and their slope behind the cap."""
        q, k = self.heads.q[place.q], self.heads.k[place.k]
        s = self.scale * (q @ k.T)
        slope = np.ones_like(s)
        if self.cap:
            s = self.cap * np.tanh(s / self.cap)
            slope = 1 - (s / self.cap) ** 2
        if self.bias is not None:
            s = s + self.bias[place.batch, place.head][: len(q), : len(k)]
        if self.slopes is not None:
            i, j = np.indices(s.shape)
            s = s - self.slopes[place.batch, place.head] * np.abs(i + len(k) - len(q) - j)
        return np.where(self.mask.seen(len(q), len(k)), s, -np.inf), slope

    def kept(self, place: Place) -> _Array:
        """What dropout multiplies the weights by."""
        rows, columns = len(self.heads.q[place.q]), len(self.heads.k[place.k])
        if not self.dropout_p:
            return np.ones((rows, columns), self.heads.q.dtype)
        head = place.batch * self.heads.count + place.head
        drawn = dropout_bytes(self.seed, self.offset, head, rows, columns)
        # A product such as 255 * (1 - 0.6), whole in decimals, must not be rounded down.
        most = math.floor(255 * (1 - self.dropout_p) + 1e-6)
        return np.where(drawn <= most, 1 / (1 - self.dropout_p), 0.0)
