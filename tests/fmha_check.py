"""Random attention calls and what they must give, in float64 by ``ckdisp.reference``."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from ckdisp.reference import attention_bwd, attention_fwd

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

    def reference(self, do: Array | None = None) -> tuple[Array, ...]:
        """(o, lse), and with ``do`` also (dq, dk, dv, dbias)."""
        inputs = (self.q, self.k, self.v)
        found: tuple[Array, ...] = attention_fwd(*inputs, return_lse=True, **self.how)
        if do is None:
            return found
        return (*found, *attention_bwd(do, *inputs, return_dbias=True, **self.how))


def normal(draw: random.Random, *shape: int, dtype: str = "fp32") -> Array:
    numbers = np.random.default_rng(draw.getrandbits(32)).standard_normal(shape)
    return numbers.astype(np.float32).astype(DTYPES[dtype])


def random_case(draw: random.Random, dtype: str, *, dropout: bool = True) -> Case:
    """Of the features that all families have, and dropout where they have that."""
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
    if hides and draw.random() < 0.3:
        how["sink"] = draw.choice([1, 5, 40])
    if draw.random() < 0.5:
        how["scale"] = draw.choice([0.5, -0.3])
    extra = draw.choice(["", "", "bias", "alibi", "cap"])
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
