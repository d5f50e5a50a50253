"""Attention kernels of the CPU, compiled here: scores near the largest fp32, and hiding biases."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fmha_calls import calls_of_all_families
from fmha_check import DTYPES, TOLERANCE, close, normal
from fmha_kernels import names

import ckdisp
from ckdisp.reference import attention_bwd, attention_fwd

# The kernels are built once, see the fixture.
pytestmark = pytest.mark.xdist_group("cpu_fmha")

TYPES = ("fp32", "bf16", "fp16")
ROWS = (1, 5, 60)  # few rows of Q have a way of their own
KEYS = 200


def lowest(dtype: str) -> float:
    """What masks are filled with."""
    return float(ml_dtypes.finfo(DTYPES[dtype]).min)


def biases(draw: random.Random, dtype: str, rows: int) -> Iterator[tuple[str, Any]]:
    """(2, 4, rows, keys), of which a head has only such numbers and the others have some."""
    low = lowest(dtype)
    values = {"lowest": low, "highest": -low, "1e38": -1e38, "1e9": -1e9}
    for name, value in values.items():
        if value < low:
            continue
        bias = normal(draw, 2, 4, rows, KEYS).astype(np.float64)
        bias[0, 0] = value  # every key of the row
        bias[0, 1, :, 5:] = value  # most
        bias[1, 0, ::2] = value
        bias[1, 1, ::3] = -np.inf
        bias[1, 2, :, :7], bias[1, 2, :, 7:] = value, -np.inf
        # Nearly as low: it has all the weight.
        bias[1, 3], bias[1, 3, :, 90] = value, value * (0.75 if value < 0 else 1)
        yield name, bias.astype(DTYPES[dtype])


def check_families(
    dispatchers: list[ckdisp.Dispatcher], q: Any, k: Any, v: Any, dtype: str, what: str, **how: Any
) -> tuple[Any, Any]:
    """O and the LSE of every forward family; returns those of the reference."""
    draw = random.Random(3)
    want: tuple[Any, Any] = attention_fwd(q, k, v, return_lse=True, **how)
    for dispatcher in dispatchers:
        for family, tensors, more, _ in calls_of_all_families(draw, q, k, v, 8):
            if not names(dispatcher, family, dtype):
                continue
            given = dict(how)
            if family == "batch_prefill" and "bias" in how:
                heads = given["bias"].shape[1]
                given["bias"] = given["bias"].swapaxes(0, 1).reshape(heads, -1, KEYS)
            call = getattr(dispatcher, f"fmha_{family}")
            found = call(*tensors, return_lse=True, **given, **more)
            for got, wanted in zip(found, want, strict=True):
                if family == "batch_prefill":
                    got = got.reshape(4, 2, -1, *got.shape[2:]).swapaxes(0, 1)
                close(got, wanted, TOLERANCE[dtype], f"{family} {what}")
    return want


def check_gradients(
    dispatchers: list[ckdisp.Dispatcher],
    tensors: list[Any],
    want: tuple[Any, Any],
    dtype: str,
    what: str,
    first: int = 0,
    **how: Any,
) -> None:
    """Those from number ``first`` on of dq, dk, dv and the bias."""
    q, k, v, do = tensors
    gradients = attention_bwd(do, q, k, v, return_dbias="bias" in how, **how)
    sums = want[0].astype(q.dtype), want[1].astype(np.float32)
    for dispatcher in dispatchers:
        for name in names(dispatcher, "bwd_dq_dk_dv", dtype):
            found = dispatcher.fmha_bwd(
                do, q, k, v, *sums, return_dbias="bias" in how, kernel=name, **how
            )
            for number, (got, wanted) in enumerate(zip(found, gradients, strict=True)):
                if number >= first:
                    close(got, wanted, 2 * TOLERANCE[dtype], f"gradient {number} {what} by {name}")


def inputs(draw: random.Random, dtype: str, rows: int) -> list[Any]:
    """q, k, v and dO."""
    sizes = ((4, rows), (2, KEYS), (2, KEYS), (4, rows))
    return [normal(draw, 2, *size, 24, dtype=dtype) for size in sizes]


@pytest.mark.parametrize("dtype", TYPES)
def test_biases_near_the_largest_numbers(dispatchers: list[ckdisp.Dispatcher], dtype: str) -> None:
    draw = random.Random(31)
    for rows in ROWS:
        tensors = inputs(draw, dtype, rows)
        for name, bias in biases(draw, dtype, rows):
            if name == "1e9":  # fp32 has no bits for more than the bias
                tensors[0] = np.zeros_like(tensors[0])
            for how in ({"bias": bias}, {"bias": bias, "mask": "bottom_right"}):
                what = f"{name} {rows}"
                want = check_families(dispatchers, *tensors[:3], dtype, what, **how)
                assert np.isfinite(want[1][0]).all()
                check_gradients(dispatchers, tensors, want, dtype, what, **how)


def test_a_row_of_the_lowest_numbers_has_the_mean_of_v(
    dispatchers: list[ckdisp.Dispatcher],
) -> None:
    q, k, v, do = inputs(random.Random(32), "fp32", 6)
    bias = np.full((2, 4, 6, KEYS), lowest("fp32"), np.float32)
    mean = np.repeat(v.mean(axis=2, keepdims=True), 2, axis=1)
    for dispatcher in dispatchers:
        o, lse = dispatcher.fmha_fwd(q, k, v, bias=bias, return_lse=True)
        np.testing.assert_allclose(o, np.broadcast_to(mean, o.shape), atol=1e-5)
        assert (lse == lowest("fp32")).all()
        _, _, dv = dispatcher.fmha_bwd(do, q, k, v, o, lse, bias=bias)
        shares = do.reshape(2, 2, 2, 6, 24).sum(axis=(2, 3)) / KEYS
        np.testing.assert_allclose(dv, np.repeat(shares[:, :, None], KEYS, 2), atol=1e-5)


LARGE: dict[str, dict[str, Any]] = {
    "scale": {"scale": 3e38 / 24},
    "negative scale": {"scale": -3e38 / 24, "mask": "top_left"},
    "scale beyond log2(e)": {"scale": 3e38},
    "soft cap": {"scale": 6e38 / 24, "logits_soft_cap": 3e38},
    "slopes": {"alibi_slopes": np.array([1.1e37, 9e36, 1e30, 1.0], np.float32)},
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", LARGE)
def test_scores_near_the_largest_numbers(
    dispatchers: list[ckdisp.Dispatcher], name: str, dtype: str
) -> None:
    """With more rows than keys, some rows have no key at a distance of 0."""
    draw = random.Random(33)
    for rows in (3, 230):
        tensors = inputs(draw, dtype, rows)
        if name != "slopes":
            size = 1e-38 if name.startswith("scale beyond") and dtype == "fp32" else 1
            q, k = (np.full_like(t, 1) for t in tensors[:2])
            q[:, :, 1::2, 1:] = 0
            k[:, :, 3::4] *= -1
            tensors[:2] = q, (k * size).astype(k.dtype)
        if name == "scale beyond log2(e)" and dtype != "fp32":
            tensors[0][:] = 0
        want = check_families(dispatchers, *tensors[:3], dtype, f"{name} {rows}", **LARGE[name])
        assert np.isfinite(want[1]).all()
        # Others are differences times the scale.
        how = {"first": 0 if name == "slopes" else 2, **LARGE[name]}
        check_gradients(dispatchers, tensors, want, dtype, f"{name} {rows}", **how)


@pytest.mark.parametrize("dtype", TYPES)
def test_dropout_and_columns_of_v(dispatchers: list[ckdisp.Dispatcher], dtype: str) -> None:
    draw = random.Random(34)
    tensors = inputs(draw, dtype, 20)
    _, bias = next(biases(draw, dtype, 20))
    how: dict[str, Any] = {"bias": bias, "dropout_p": 0.4, "seed": 5}
    want = attention_fwd(*tensors[:3], return_lse=True, **how)
    q, k, v, _ = tensors
    for dispatcher in dispatchers:
        for name in names(dispatcher, "fwd", dtype):
            columns = np.ascontiguousarray(v.swapaxes(2, 3))
            for more in ((v, {}), (columns, {"vlayout": "c"})):
                o, lse = dispatcher.fmha_fwd(
                    q, k, more[0], return_lse=True, kernel=name, **how, **more[1]
                )
                close(o, want[0], TOLERANCE[dtype], f"o by {name}")
                close(lse, want[1], TOLERANCE["fp32"], f"lse by {name}")
    check_gradients(dispatchers, tensors, want, dtype, "dropout", **how)


@pytest.mark.parametrize("scales", [{}, {"q_scale": 0.5, "k_scale": 2.0, "v_scale": 3.0}])
def test_fp8(dispatchers: list[ckdisp.Dispatcher], scales: dict[str, float]) -> None:
    draw = random.Random(35)
    q, k, v = (normal(draw, 2, h, n, 32, dtype="fp8") for h, n in ((4, 40), (2, KEYS), (2, KEYS)))
    for name, bias in biases(draw, "fp32", 40):
        q = q if name != "1e9" else np.zeros_like(q)
        want = attention_fwd(q, k, v, bias=bias, **scales)
        for dispatcher in dispatchers:
            for kernel in names(dispatcher, "fwd", "fp8fp32"):
                o = dispatcher.fmha_fwd(
                    q, k, v, bias=bias, out_dtype="fp32", kernel=kernel, **scales
                )
                close(o, want, TOLERANCE["fp8"], f"{name} by {kernel}")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", ["k", "v", "both"])
def test_keys_that_a_bias_hides_do_not_count(
    dispatchers: list[ckdisp.Dispatcher], place: str, bad: float, dtype: str
) -> None:
    """A bias of -infinity hides as a mask does: rows that do not see a key know nothing of it."""
    draw = random.Random(36)
    for rows in ROWS:
        tensors = inputs(draw, dtype, rows)
        bias = normal(draw, 2, 4, rows, KEYS, dtype=dtype)
        bias[:, :, :, [3, 4, 70, 199]] = -np.inf  # hidden from all rows
        bias[:, :, rows // 2 :, 11] = -np.inf  # and from some
        bias[1, 0, -1] = -np.inf  # a row that sees nothing
        for which, name in ((1, "k"), (2, "v")):
            if place in (name, "both"):
                tensors[which][:, :, [3, 70, 199]] = bad
                tensors[which][0, 0, 11, 5] = bad
        what = f"{place} {bad} {rows}"
        with np.errstate(invalid="ignore"):
            want = check_families(dispatchers, *tensors[:3], dtype, what, bias=bias)
            assert np.isfinite(want[0][:, :, rows // 2 :]).all()
            check_gradients(dispatchers, tensors, want, dtype, what, bias=bias)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("broken", ["q", "do"])
def test_broken_rows_leave_keys_alone_that_a_bias_hides(
    dispatchers: list[ckdisp.Dispatcher], broken: str, dtype: str
) -> None:
    tensors = inputs(random.Random(37), dtype, 60)
    tensors[0 if broken == "q" else 3][:, :, 9, 2] = np.nan
    bias = np.zeros((2, 4, 60, KEYS), DTYPES[dtype])
    bias[:, :, 9, ::2] = -np.inf
    want = attention_fwd(*tensors[:3], bias=bias, return_lse=True)
    check_gradients(dispatchers, tensors, want, dtype, broken, bias=bias)
