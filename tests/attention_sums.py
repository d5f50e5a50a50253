"""Attention by whole matrices in float64, for tests of everything around the kernels.

One head of one sequence at a time: ``q`` is (sq, d), ``k`` (sk, d), ``v`` (sk, dv).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass
class Scores:
    """How scores are made and masked; ``low`` and ``high`` bound key minus diagonal."""

    scale: float
    low: float = -np.inf
    high: float = np.inf
    bottom_right: bool = False
    sink: int = 0
    cap: float = 0.0
    slope: float = 0.0

    def of(self, q: Array, k: Array, bias: Any = 0.0) -> Array:
        i, j = np.indices((len(q), len(k)))
        s: Array = self.scale * (q @ k.T)
        if self.cap:
            s = self.cap * np.tanh(s / self.cap)
        s = s + bias - self.slope * np.abs(i + len(k) - len(q) - j)
        place = j - i - (len(k) - len(q) if self.bottom_right else 0)
        seen = ((place >= self.low) & (place <= self.high)) | (j < self.sink)
        return np.where(seen, s, -np.inf)


def softmax(s: Array) -> tuple[Array, Array]:
    """Weights, and the logarithms of the sums; a row without keys has weights 0."""
    most = np.max(s, axis=1, initial=-np.inf, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(most), most, 0))
    total = e.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.where(total > 0, np.where(np.isfinite(most), most, 0) + np.log(total), -np.inf)
    return e / np.where(total > 0, total, 1), lse[:, 0]


def forward(scores: Scores, q: Array, k: Array, v: Array, bias: Any = 0.0) -> tuple[Array, Array]:
    weights, lse = softmax(scores.of(q, k, bias))
    return weights @ v, lse


def backward(
    scores: Scores, do: Array, q: Array, k: Array, v: Array, bias: Any = 0.0
) -> tuple[Array, Array, Array, Array]:
    """dq, dk, dv and the gradient of the bias, without a soft cap."""
    p, _ = softmax(scores.of(q, k, bias))
    dp = do @ v.T
    ds = p * (dp - np.sum(dp * p, axis=1, keepdims=True))
    return scores.scale * ds @ k, scores.scale * ds.T @ q, p.T @ do, ds


def each_head(f: Callable[..., Sequence[Array]], *tensors: Any) -> list[Array]:
    """The results of ``f`` for each (batch, head), stacked as (batch, heads, ...).

    Tensors are (batch, heads, rows, size); those with fewer heads serve several each.
    """
    wide = [np.asarray(t, np.float64) for t in tensors]
    heads = max(t.shape[1] for t in wide)
    wide = [np.repeat(t, heads // t.shape[1], axis=1) for t in wide]
    found = [[f(*(t[b, h] for t in wide)) for h in range(heads)] for b in range(wide[0].shape[0])]
    return [np.array([[x[n] for x in row] for row in found]) for n in range(len(found[0][0]))]
