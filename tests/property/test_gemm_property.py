"""``Dispatcher.gemm`` over shapes, types and strides: the kernels of the package against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ckdisp

SIZES = st.one_of(st.integers(0, 40), st.sampled_from([63, 64, 65, 97, 127, 257]))
DTYPES: dict[str, Any] = {
    "fp32": np.float32,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "int8": np.int8,
}


@st.composite
def views(draw: st.DrawFn, rows: int, columns: int, dtype: Any) -> np.ndarray[Any, Any]:
    """A matrix as a view of a larger array: any order, leading dimension, step and direction."""
    step = [draw(st.sampled_from([1, 1, 1, 2, -1])) for _ in range(2)]
    offset = [draw(st.integers(0, 3)) for _ in range(2)]
    turned = draw(st.booleans())
    sizes = (columns, rows) if turned else (rows, columns)
    shape = [o + abs(s) * n + 2 for o, s, n in zip(offset, step, sizes, strict=True)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    base = rng.integers(-4, 5, shape).astype(dtype)
    index = tuple(
        slice(o, o + abs(s) * n, abs(s)) for o, s, n in zip(offset, step, sizes, strict=True)
    )
    view = base[index][:: 1 if step[0] > 0 else -1, :: 1 if step[1] > 0 else -1]
    return view.T if turned else view


@pytest.fixture(scope="module")
def disp() -> ckdisp.Dispatcher:
    return ckdisp.Dispatcher(ckdisp.Registry.prebuilt(), num_threads=2)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), m=SIZES, n=SIZES, k=SIZES, dtype=st.sampled_from(list(DTYPES)))
def test_products(
    disp: ckdisp.Dispatcher, data: st.DataObject, m: int, n: int, k: int, dtype: str
) -> None:
    a = data.draw(views(m, k, DTYPES[dtype]))
    b = data.draw(views(k, n, DTYPES[dtype]))
    if dtype == "int8":
        a = np.ascontiguousarray(a)  # of int8 there are kernels for layouts rcr and rrr only
    out = np.full((m, n + 3), 7, disp.gemm(a, b).dtype)
    assert disp.gemm(a, b, out=out[:, :n], scale=0.5 if dtype != "int8" else 1).base is out
    reference = ckdisp.reference.gemm(a, b, scale=0.5 if dtype != "int8" else 1)
    check = ckdisp.Validator().check(out[:, :n], reference)
    assert check, str(check)
    assert (out[:, n:] == 7).all()


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    m=SIZES,
    n=SIZES,
    k=SIZES,
    dtype=st.sampled_from(["fp32", "bf16"]),
    epilogue=st.sampled_from(["add", "relu", "gelu"]),
    shape=st.sampled_from(["full", "row", "column", "vector"]),
)
def test_fused(
    disp: ckdisp.Dispatcher,
    data: st.DataObject,
    m: int,
    n: int,
    k: int,
    dtype: str,
    epilogue: str,
    shape: str,
) -> None:
    a = np.ascontiguousarray(data.draw(views(m, k, DTYPES[dtype])))
    b = np.asfortranarray(data.draw(views(k, n, DTYPES[dtype])))
    rows, columns = (1 if shape in ("row", "vector") else m), (1 if shape == "column" else n)
    d = data.draw(views(rows, columns, DTYPES[dtype]))
    if shape == "vector":
        d = d[0]
    out = disp.gemm(a, b, d=d, epilogue=epilogue)
    check = ckdisp.Validator().check(out, ckdisp.reference.gemm(a, b, d=d, epilogue=epilogue))
    assert check, str(check)
