"""Runs one CPU kernel on awkward shapes and compares it with the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from attention_check import check_attention
from conv_check import check_awkward

import ckdisp
from ckdisp.tensors import numpy_dtype

SHAPES = [(1, 1, 1), (1, 37, 19), (3, 1, 64), (5, 129, 33), (17, 97, 131), (2, 3, 0), (0, 4, 5)]
TALL = (61, 101, 530)  # several panels of A, edges everywhere, more than one block of K
CLAMP = (-1.5, 2.25)


def matrix(rng: Any, rows: int, columns: int, dtype: str, order: str) -> Any:
    """A view with a leading dimension larger than it need be, so that overruns would show."""
    shape = (rows, columns + 3) if order == "r" else (columns, rows + 3)
    if dtype in ("int8", "int32"):
        values = rng.integers(-5, 6, shape)
    else:
        values = rng.standard_normal(shape) * 0.5
    whole = values.astype(numpy_dtype(dtype))
    return whole[:, :columns] if order == "r" else whole[:, :rows].T


def check_kernel(disp: ckdisp.Dispatcher, key: Any, seed: int = 0) -> None:
    """Assert that the kernel of ``key`` computes what its key says."""
    check = {"gemm": check_gemm, "conv": check_awkward, "fmha": check_attention}[key.op]
    check(disp, key, seed)


def check_gemm(disp: ckdisp.Dispatcher, key: Any, seed: int) -> None:
    """Assert that a GEMM kernel computes what its key says, padding left alone."""
    rng = np.random.default_rng(seed)
    most = key.tile[0] if key.pipeline == "skinny" else TALL[0]
    for m, n, k in (shape for shape in [*SHAPES, TALL] if shape[0] <= most):
        a = matrix(rng, m, k, key.dtype_a, "r" if key.layout[0] == "r" else "c")
        b = matrix(rng, k, n, key.dtype_b, "r" if key.layout[1] == "r" else "c")
        d = [matrix(rng, m, n, key.dtype_d, key.layout_d) for _ in range(key.num_d)]
        if key.num_d > 1:  # one of them is broadcast
            d[0] = d[0][:1] if key.layout_d == "r" else d[0][:, :1]
        whole = np.full((m, n + 5), 3, numpy_dtype(key.dtype_c))
        call: dict[str, Any] = {"d": d, "epilogue": key.elementwise}
        call["clamp"] = CLAMP if key.elementwise == "clamp" else None
        disp.gemm(a, b, out=whole[:, :n], kernel=key.name, **call)
        expected = ckdisp.reference.gemm(a, b, **call)
        if key.dtype_c in ("int8", "int32"):
            limits = np.iinfo(numpy_dtype(key.dtype_c))
            expected = np.clip(np.rint(expected), limits.min, limits.max)
        check = ckdisp.Validator().check(whole[:, :n], expected)
        assert check, f"{key.name} at {(m, n, k)}: {check}"
        assert (whole[:, n:] == 3).all(), f"{key.name} at {(m, n, k)} wrote behind its rows"
