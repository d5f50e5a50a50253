"""Random attention calls and what they must give, in float64 by whole matrices."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
DTYPES = {
    "fp32": np.dtype(np.float32),
    "fp16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp8": np.dtype(ml_dtypes.float8_e4m3fn),
    "bf8": np.dtype(ml_dtypes.float8_e5m2),
}
# Of results of about 1: a few units in the last place, and for fp32 the rounding of scores.
TOLERANCE = {"fp32": 5e-5, "fp16": 5e-3, "bf16": 4e-2, "fp8": 5e-5, "bf8": 5e-5}


def random_bytes(seed: int, offset: int, head: int, rows: int, columns: int) -> Array:
    """Philox4x32-10: 16 bytes of a row at a time, by block of columns, row, head and offset."""
    blocks = -(-columns // 16)
    low = 0xFFFFFFFF
    c = [np.zeros((rows, blocks), np.uint64) for _ in range(4)]
    c[0] += np.arange(blocks, dtype=np.uint64)
    c[1] += np.arange(rows, dtype=np.uint64)[:, None]
    c[2] += np.uint64(head)
    c[3] += np.uint64(offset & low)
    key = [seed & low, seed >> 32]
    for _ in range(10):
        x, y = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high_x, high_y = x >> np.uint64(32), y >> np.uint64(32)
        c = [
            high_y ^ c[1] ^ np.uint64(key[0]),
            y & np.uint64(low),
            high_x ^ c[3] ^ np.uint64(key[1]),
            x & np.uint64(low),
        ]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    words = np.stack(c, -1).astype("<u4")
    return words.view(np.uint8).reshape(rows, 16 * blocks)[:, :columns]


@dataclass
class Case:
    """The tensors of a call as (batch, heads, rows, size), and its other arguments."""

    q: Array
    k: Array
    v: Array
    how: dict[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (*self.q.shape[:3], self.k.shape[2])

    def _seen(self) -> Array:
        _, _, sq, sk = self.shape
        i, j = np.indices((sq, sk))
        mask, window = self.how.get("mask", "no"), self.how.get("window")
        if mask == "no" and window is None:
            return np.ones((sq, sk), bool)
        left, right = window or (-1, 0)
        place = j - i - (0 if mask == "top_left" else sk - sq)
        seen = np.ones((sq, sk), bool)
        if left >= 0:
            seen &= place >= -left
        if right >= 0:
            seen &= place <= right
        return seen | (j < (self.how.get("sink") or 0))

    def kept(self) -> Array:
        """What dropout multiplies the weights by, and the random bytes."""
        b, h, sq, sk = self.shape
        p = self.how["dropout_p"]
        drawn = [
            random_bytes(self.how["seed"], self.how["offset"], i, sq, sk) for i in range(b * h)
        ]
        return np.array(drawn).reshape(b, h, sq, sk), p

    def reference(self, do: Array | None = None) -> tuple[Array, ...]:
        """(o, lse), and with ``do``, without a soft cap, also (dq, dk, dv, dbias)."""
        b, h, sq, sk = self.shape
        group = h // self.k.shape[1]
        q = self.q.astype(np.float64)
        k, v = (np.repeat(x.astype(np.float64), group, 1) for x in (self.k, self.v))
        scale = self.how.get("scale") or 1 / math.sqrt(q.shape[3])
        raw = scale * q @ k.swapaxes(2, 3)
        cap = self.how.get("logits_soft_cap", 0.0)
        s = cap * np.tanh(raw / cap) if cap else raw
        if "bias" in self.how:
            s = s + self.how["bias"].astype(np.float64)
        if "alibi_slopes" in self.how:
            i, j = np.indices((sq, sk))
            s = s - self.how["alibi_slopes"][:, None, None].astype(float) * abs(i + sk - sq - j)
        s = np.where(self._seen(), s, -np.inf)
        most = np.max(s, -1, initial=-np.inf, keepdims=True)
        base = np.where(np.isfinite(most), most, 0)
        e = np.exp(s - base)
        total = e.sum(-1, keepdims=True)
        p = e / np.where(total > 0, total, 1)
        with np.errstate(divide="ignore"):
            lse = (base + np.log(total))[..., 0]
        factor: Any = 1.0
        if "dropout_p" in self.how:
            drawn, share = self.kept()
            factor = (drawn <= math.floor(255 * (1 - share) + 1e-9)) / (1 - share)
        o = (p * factor) @ v
        if do is None:
            return o, lse
        do = do.astype(np.float64)
        dp = do @ v.swapaxes(2, 3) * factor
        ds = p * (dp - (do * o).sum(-1, keepdims=True))
        dk, dv = scale * ds.swapaxes(2, 3) @ q, (p * factor).swapaxes(2, 3) @ do
        dk, dv = (x.reshape(b, h // group, group, sk, x.shape[3]).sum(2) for x in (dk, dv))
        return o, lse, scale * ds @ k, dk, dv, ds


def normal(draw: random.Random, *shape: int, dtype: str = "fp32") -> Array:
    numbers = np.random.default_rng(draw.getrandbits(32)).standard_normal(shape)
    return numbers.astype(np.float32).astype(DTYPES[dtype])


def random_case(
    draw: random.Random, dtype: str, *, dropout: bool = True, backward: bool = False
) -> Case:
    """Of the features that a family has: only the forward ones have sinks and a soft cap."""
    b, hk, group = draw.choice([1, 2]), draw.choice([1, 2, 3]), draw.choice([1, 1, 2, 4])
    sq, sk = draw.choice([1, 2, 5, 17, 64, 140]), draw.choice([1, 3, 16, 31, 100, 300])
    d = draw.choice([1, 8, 40, 64, 128])
    dv = draw.choice([d, d, 24, 5])
    h = hk * group
    case = Case(
        normal(draw, b, h, sq, d, dtype=dtype),
        normal(draw, b, hk, sk, d, dtype=dtype),
        normal(draw, b, hk, sk, dv, dtype=dtype),
    )
    how = case.how
    kind = draw.choice(["no", "top_left", "bottom_right", "window", "window"])
    if kind == "window":
        how["window"] = (draw.choice([-1, 0, 3, 50]), draw.choice([-1, 0, 3, 50]))
        how["mask"] = draw.choice(["top_left", "bottom_right"])
    else:
        how["mask"] = kind
    hides = kind != "no" and how.get("window") != (-1, -1)
    if hides and not backward and draw.random() < 0.3:
        how["sink"] = draw.choice([1, 5, 40])
    if draw.random() < 0.5:
        how["scale"] = draw.choice([0.5, -0.3])
    extra = draw.choice(["", "", "bias", "alibi", "" if backward else "cap"])
    if extra == "bias":
        how["bias"] = normal(draw, b, h, sq, sk, dtype="fp32" if "8" in dtype else dtype)
    elif extra == "alibi":
        how["alibi_slopes"] = abs(normal(draw, h))
    elif extra == "cap":
        how["logits_soft_cap"] = 3.0
    if dropout and draw.random() < 0.3:
        how["dropout_p"] = draw.choice([0.1, 0.5, 0.9])
        how["seed"], how["offset"] = draw.getrandbits(64), draw.getrandbits(40)
    return case


def close(got: Array, want: Array, tolerance: float, what: str) -> None:
    """Within ``tolerance`` of 1 or the largest number; infinities at the same places."""
    got = np.asarray(got).astype(np.float64)
    assert got.shape == want.shape, what
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite], err_msg=what)
    size = 1 + np.max(abs(want[finite]), initial=0)
    np.testing.assert_allclose(
        got[finite], want[finite], rtol=0, atol=tolerance * size, err_msg=what
    )
