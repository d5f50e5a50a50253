"""The scores of one head of one sequence, and what their softmax weighs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.errors import InvalidArgument
from .attention_mask import Mask
from .attention_shapes import Heads, Place
from .philox import dropout_bytes

_Array = NDArray[Any]


@dataclass(frozen=True)
class Scores:
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
        *,
        scale: float | None,
        mask: str,
        window: Sequence[int] | None,
        bias: Any,
        alibi_slopes: Any,
        logits_soft_cap: float,
        sink: int | None,
        dropout_p: float = 0.0,
        seed: int = 0,
        offset: int = 0,
    ) -> Scores:
        used = 1 / math.sqrt(max(heads.q.shape[-1], 1)) if scale is None else float(scale)
        if not math.isfinite(used):
            raise InvalidArgument(f"scale is {scale}; pass a finite number")
        if not 0 <= dropout_p < 1:
            raise InvalidArgument(f"dropout_p is {dropout_p}; pass a probability below 1")
        if not (math.isfinite(logits_soft_cap) and logits_soft_cap >= 0):
            raise InvalidArgument(
                f"logits_soft_cap is {logits_soft_cap}; pass a positive number, or 0 for none"
            )
        if logits_soft_cap and (bias is not None or alibi_slopes is not None):
            raise InvalidArgument("logits_soft_cap and a bias exclude each other; pass one of them")
        if bias is not None and alibi_slopes is not None:
            raise InvalidArgument("bias and alibi_slopes exclude each other; pass one of them")
        return cls(
            heads,
            used,
            Mask.make(mask, window, sink),
            None if bias is None else heads.matrix(bias, "bias"),
            None if alibi_slopes is None else heads.per_head(alibi_slopes, "alibi_slopes"),
            float(logits_soft_cap),
            float(dropout_p),
            seed,
            offset,
        )

    def of(self, place: Place) -> tuple[_Array, _Array, _Array]:
        """The scores, -inf where a key is not seen; what is seen; their slope behind the cap."""
        q, k = self.heads.queries(place), self.heads.keys(place)
        s = self.scale * (q @ k.T)
        slope = np.ones_like(s)
        if self.cap:
            s = self.cap * np.tanh(s / self.cap)
            slope = 1 - (s / self.cap) ** 2
        if self.bias is not None:
            s = s + self.bias[place.q][:, : len(k)]
        if self.slopes is not None:
            i, j = np.indices(s.shape)
            s = s - self.slopes[place.batch, place.head] * np.abs(i + len(k) - len(q) - j)
        seen = self.mask.seen(len(q), len(k))
        if self.bias is not None:
            seen = seen & ~np.isneginf(self.bias[place.q][:, : len(k)])
        return np.where(seen, s, -np.inf), seen, slope

    def drawn(self, place: Place) -> _Array:
        """The random bytes of dropout."""
        rows, columns = len(self.heads.q[place.q]), self.heads.lengths[place.batch]
        head = place.batch * self.heads.count + place.head
        return dropout_bytes(self.seed, self.offset, head, rows, columns)

    def kept(self, place: Place) -> _Array | float:
        """What dropout multiplies the weights by."""
        if not self.dropout_p:
            return 1.0
        # A product such as 255 * (1 - 0.6), whole in decimals, must not be rounded down.
        most = math.floor(255 * (1 - self.dropout_p) + 1e-6)
        return np.where(self.drawn(place) <= most, 1 / (1 - self.dropout_p), 0.0)


def softmax(s: _Array, seen: _Array) -> tuple[_Array, _Array]:
    """Weights, and the logarithms of their sums; NaN where a score that is seen is."""
    most = np.max(s, axis=1, initial=-np.inf, keepdims=True)
    base = np.where(np.isneginf(most), 0, most)
    e = np.exp(s - base)
    total = e.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = base + np.log(total)
    return np.where(seen, e / np.where(total == 0, 1, total), 0), lse[:, 0]


def product(weights: _Array, used: _Array, x: _Array) -> _Array:
    """``weights @ x`` of what is used alone: NaN times a weight of 0 would be NaN."""
    if np.all(np.isfinite(x)):
        found: _Array = weights @ x
        return found
    out = np.zeros((len(weights), x.shape[1]), x.dtype)
    for row, weight, mine in zip(out, weights, used, strict=True):
        row[:] = weight[mine] @ x[mine]
    return out


@np.errstate(invalid="ignore")  # infinities in, NaN out
def attend(scores: Scores, place: Place, part: slice) -> tuple[_Array, _Array]:
    """(o, lse) of a head over some of its keys."""
    s, seen, _ = scores.of(place)
    kept = np.broadcast_to(scores.kept(place), s.shape)
    p, lse = softmax(s[:, part], seen[:, part])
    return product(p * kept[:, part], seen[:, part], scores.heads.values(place)[part]), lse
