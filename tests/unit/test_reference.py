"""The references and the validator, which every other comparison rests on."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ckdisp
from ckdisp import Validator, reference
from ckdisp.codegen.enums import ELEMENTWISE

A = np.array([[1.0, -2.0], [0.5, 3.0]])
B = np.array([[2.0, 0.0, -1.0], [1.0, -4.0, 0.25]])
D0 = np.array([1.0, -1.0, 2.0])
D1 = np.array([[3.0], [-2.0]])


def scalar(name: str, x: float) -> float:
    """Each activation once more, element by element, from its definition."""
    sigmoid = 1 / (1 + math.exp(-x))
    cube = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return {
        "relu": max(x, 0),
        "gelu": x * 0.5 * math.erfc(-x / math.sqrt(2)),
        "fast_gelu": 0.5 * x * (1 + math.tanh(cube)),
        "sigmoid": sigmoid,
        "tanh": math.tanh(x),
        "swish": x * sigmoid,
        "hard_swish": x * min(max(x + 3, 0), 6) / 6,
        "clamp": min(max(x, -1.5), 2.5),
    }[name]


@pytest.mark.parametrize("name", ELEMENTWISE.values[5:])
def test_activations(name: str) -> None:
    clamp = (-1.5, 2.5) if name == "clamp" else None
    got = reference.gemm(A, B, d=(D0, D1), epilogue=name, scale=0.5, clamp=clamp)
    x = 0.5 * (A @ B) + D0 + D1
    np.testing.assert_allclose(got, np.vectorize(lambda v: scalar(name, v))(x), rtol=1e-14)


def test_combinations() -> None:
    np.testing.assert_array_equal(reference.gemm(A, B), A @ B)
    np.testing.assert_array_equal(reference.gemm(A, B, d=D0, epilogue="add"), A @ B + D0)
    np.testing.assert_array_equal(reference.gemm(A, B, d=[D1], epilogue="multiply"), A @ B * D1)
    both = {"d": (D0, D1)}
    np.testing.assert_array_equal(
        reference.gemm(A, B, epilogue="multi_d_add", **both), A @ B + D0 + D1
    )
    np.testing.assert_array_equal(
        reference.gemm(A, B, epilogue="multi_d_multiply", **both), A @ B * D0 * D1
    )


def test_sigmoid_of_large_values_does_not_overflow() -> None:
    with np.errstate(all="raise", under="ignore"):
        got = reference.gemm([[1.0]], [[-1000.0, 1000.0]], epilogue="sigmoid")
    np.testing.assert_array_equal(got, [[0, 1]])


def test_precision_and_types() -> None:
    narrow = A.astype(ml_dtypes.bfloat16)
    assert reference.gemm(narrow, B).dtype == np.float64
    assert reference.gemm(A, B, dtype=np.float32).dtype == np.float32
    np.testing.assert_array_equal(reference.gemm(narrow, B), A @ B)


def test_bad_arguments() -> None:
    with pytest.raises(ckdisp.InvalidArgument, match=r"shape \(2, 2\) and b \(2,\)"):
        reference.gemm(A, D0[:2])
    with pytest.raises(ckdisp.InvalidArgument, match="takes 1 D tensors, not 0"):
        reference.gemm(A, B, epilogue="add")
    with pytest.raises(ckdisp.InvalidKey, match="unknown epilogue"):
        reference.gemm(A, B, epilogue="ad")
    with pytest.raises(ckdisp.InvalidArgument, match="needs its bounds"):
        reference.gemm(A, B, epilogue="clamp")


def test_validator_measures() -> None:
    check = Validator(rtol=0, atol=0.5).check([[1.0, 2.0, 4.0]], [[1.0, 2.25, 8.0]])
    assert not check and not check.ok
    assert (check.mismatches, check.size, check.worst) == (1, 3, (0, 2))
    assert (check.max_abs, check.max_rel) == (4.0, 0.5)
    assert "1 of 3 elements differ" in str(check)
    good = Validator(rtol=0.5, atol=0).check([4.0], [8.0])
    assert good and str(good).startswith("ok")


@pytest.mark.parametrize(
    ("out", "ref", "ok"),
    [
        ([math.nan], [math.nan], True),
        ([math.nan], [1.0], False),
        ([1.0], [math.nan], False),
        ([math.inf], [math.inf], True),
        ([math.inf], [-math.inf], False),
        ([math.inf], [1.0], False),
        ([], [], True),
    ],
)
def test_validator_special_values(out: Any, ref: Any, ok: bool) -> None:
    assert Validator().check(np.array(out), np.array(ref)).ok is ok


def test_validator_tolerances_follow_the_type() -> None:
    ref = np.full(4, 1.0)
    off = np.full(4, 1.0078125)
    assert Validator().check(off.astype(ml_dtypes.bfloat16), ref)
    assert not Validator().check(off.astype(np.float16), ref)
    assert not Validator().check(np.array([3], np.int32), np.array([4]))
    assert Validator().check(off.astype(ml_dtypes.float8_e4m3fn), ref)


def test_validator_shapes_and_kinds() -> None:
    with pytest.raises(ckdisp.InvalidArgument, match=r"shape \(2,\), its reference \(3,\)"):
        Validator().check([1.0, 2.0], [1.0, 2.0, 3.0])


def test_validator_takes_torch() -> None:
    torch = pytest.importorskip("torch")
    out = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    check = Validator().check(out, np.array([1.0, 2.0]))
    assert check and check.rtol == Validator().check(np.zeros(1, ml_dtypes.bfloat16), [0.0]).rtol
