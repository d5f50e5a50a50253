"""Attention kernels of the CPU, compiled here: numbers that are large, infinite or no numbers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from fmha_calls import calls_of_all_families
from fmha_check import TOLERANCE, Case, close, normal
from fmha_kernels import names

import ckdisp
from ckdisp.reference import attention_bwd, attention_fwd

# The kernels are built once, see the fixture.
pytestmark = pytest.mark.xdist_group("cpu_fmha")

DTYPES = ("fp32", "bf16", "fp16")


def test_very_large_scores_and_nan(dispatchers: list[ckdisp.Dispatcher]) -> None:
    draw = random.Random(8)
    q, k, v = (normal(draw, 1, 1, n, 8) for n in (20, 40, 40))
    case = Case(q * 1000, k * 1000, v)
    want, _ = case.reference()
    for dispatcher in dispatchers:
        close(dispatcher.fmha_fwd(case.q, case.k, case.v), want, 1e-4, "large scores")
        bad = q.copy()
        bad[0, 0, 3, 2] = np.nan
        o = dispatcher.fmha_fwd(bad, k, v)
        assert np.isnan(o[0, 0, 3]).all()
        assert np.isfinite(np.delete(o, 3, 2)).all()


PROFILES = {
    "rising": lambda j: 0.2 * j,
    "falling": lambda j: -0.2 * j,
    "steps": lambda j: 12.0 * (j // 100),
    "one peak": lambda j: np.where(j == 650, 90.0, np.sin(j)),
    "early peak": lambda j: np.where(j == 20, 200.0, np.sin(j)),
    "valley": lambda j: np.where((j > 5) & (j < 690), -300.0, np.cos(j)),
    "nothing at first": lambda j: np.where(j < 300, -np.inf, np.cos(j)),
    "beyond whole numbers": lambda j: np.where(j % 350 == 20, 6e6 + 1e5 * j, np.sin(j)),
    "infinite": lambda j: np.where(j == 400, np.inf, np.cos(j)),
    "not a number": lambda j: np.where(j == 400, np.nan, np.cos(j)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("profile", PROFILES)
def test_scores_far_above_those_of_earlier_keys(
    dispatchers: list[ckdisp.Dispatcher], dtype: str, profile: str
) -> None:
    """Whatever the order of large and small scores over many blocks of keys."""
    draw = random.Random(21)
    scores = PROFILES[profile](np.arange(700.0))
    if dtype == "fp16":
        scores = np.where(np.isfinite(scores), np.clip(scores, -60000, 60000), scores)
    q = np.ones((1, 1, 45, 8), np.float32)
    q[0, 0, ::3] = 0.5
    k = normal(draw, 1, 1, 700, 8) / 8
    k[0, 0, :, 0] = scores
    tensors = [x.astype(normal(draw, 1, dtype=dtype).dtype) for x in (q, k)]
    v = normal(draw, 1, 1, 700, 24, dtype=dtype)
    if profile in ("infinite", "not a number"):
        for dispatcher in dispatchers:
            for name in names(dispatcher, "fwd", dtype):
                o = dispatcher.fmha_fwd(*tensors, v, scale=1.0, kernel=name)
                assert np.isnan(o.astype(np.float32)).all(), name
        return
    want_o, want_lse = attention_fwd(*tensors, v, scale=1.0, return_lse=True)
    for dispatcher in dispatchers:
        for name in names(dispatcher, "fwd", dtype):
            o, lse = dispatcher.fmha_fwd(*tensors, v, scale=1.0, return_lse=True, kernel=name)
            close(o, want_o, TOLERANCE[dtype], f"o by {name}")
            close(lse, want_lse, TOLERANCE["fp32"], f"lse by {name}")


def test_first_keys_of_some_rows_are_the_last_of_others(
    dispatchers: list[ckdisp.Dispatcher],
) -> None:
    """The last row of a head sees keys from 256 on; it shares a panel with the next head's first,
    which have seen much larger scores by then."""
    draw = random.Random(22)
    q = np.ones((1, 2, 259, 8), np.float32)
    k = normal(draw, 1, 1, 700, 8) / 8
    k[0, 0, :256, 0] = 200
    v = normal(draw, 1, 1, 700, 24)
    how: dict[str, Any] = {"scale": 1.0, "mask": "top_left", "window": (2, 700)}
    want = attention_fwd(q, k, v, return_lse=True, **how)
    for dispatcher in dispatchers:
        for name in names(dispatcher, "fwd", "fp32"):
            found = dispatcher.fmha_fwd(q, k, v, return_lse=True, kernel=name, **how)
            for got, wanted in zip(found, want, strict=True):
                close(got, wanted, TOLERANCE["fp32"], name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_keys_that_nobody_sees_do_not_count(
    dispatchers: list[ckdisp.Dispatcher], bad: float, dtype: str
) -> None:
    draw = random.Random(13)
    how: dict[str, Any] = {"mask": "top_left", "window": (7, 2), "sink": 3}
    for rows in (1, 5, 60):
        q, do = (normal(draw, 2, 4, rows, 24, dtype=dtype) for _ in range(2))
        k, v = (normal(draw, 2, 2, 200, 24, dtype=dtype) for _ in range(2))
        want = attention_fwd(q, k, v, return_lse=True, **how)
        gradients = attention_bwd(do, q, k, v, **how)
        hidden = slice(rows + 2, None)
        k[:, :, hidden] = v[:, :, hidden] = bad
        for dispatcher in dispatchers:
            for family, tensors, more, _ in calls_of_all_families(draw, q, k, v, 8):
                if not names(dispatcher, family, dtype):
                    continue
                found = getattr(dispatcher, f"fmha_{family}")(
                    *tensors, return_lse=True, **how, **more
                )
                for got, wanted in zip(found, want, strict=True):
                    if family == "batch_prefill":
                        got = got.reshape(4, 2, rows, *got.shape[2:]).swapaxes(0, 1)
                    close(got, wanted, TOLERANCE[dtype], f"{family} {rows} {bad}")
            found = dispatcher.fmha_bwd(
                do, q, k, v, want[0].astype(q.dtype), want[1].astype(np.float32), **how
            )
            for got, wanted in zip(found, gradients, strict=True):
                close(got, wanted, 2 * TOLERANCE[dtype], f"backward {rows} {bad}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_broken_rows_leave_the_gradients_of_other_keys_alone(
    dispatchers: list[ckdisp.Dispatcher], dtype: str
) -> None:
    draw = random.Random(14)
    q, k, v, do = (normal(draw, 1, 1, n, 8, dtype=dtype) for n in (20, 40, 40, 20))
    k[0, 0, 3, 2] = np.nan  # all queries but the first three see it, and of keys at most twenty
    o, lse = attention_fwd(q, k, v, mask="top_left", return_lse=True)
    want = attention_bwd(do, q, k, v, mask="top_left")
    for x in want[1:]:
        assert np.isnan(x[0, 0, :20]).all()
        assert (x[0, 0, 20:] == 0).all()
    sums = o.astype(q.dtype), lse.astype(np.float32)
    for dispatcher in dispatchers:
        found = dispatcher.fmha_bwd(do, q, k, v, *sums, mask="top_left")
        for got, wanted in zip(found, want, strict=True):
            close(got, wanted, 2 * TOLERANCE[dtype], "gradients")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("broken", ["q", "do"])
def test_keys_that_a_broken_row_does_not_see_keep_their_gradients(
    dispatchers: list[ckdisp.Dispatcher], broken: str, dtype: str
) -> None:
    draw = random.Random(15)
    for row, how in (
        (3, {"mask": "top_left"}),
        (12, {"window": (-1, 3)}),
        (40, {"mask": "top_left", "window": (7, 2), "sink": 3}),
    ):
        x = {name: normal(draw, 1, 1, 70, 24, dtype=dtype) for name in ("q", "do", "k", "v")}
        x[broken][0, 0, row, 2] = np.nan
        o, lse = attention_fwd(x["q"], x["k"], x["v"], return_lse=True, **how)
        want = attention_bwd(x["do"], x["q"], x["k"], x["v"], **how)
        sums = o.astype(x["q"].dtype), lse.astype(np.float32)
        for dispatcher in dispatchers:
            for name in names(dispatcher, "bwd_dq_dk_dv", dtype):
                found = dispatcher.fmha_bwd(
                    x["do"], x["q"], x["k"], x["v"], *sums, kernel=name, **how
                )
                for what, got, wanted in zip(("dq", "dk", "dv"), found, want, strict=True):
                    close(got, wanted, 2 * TOLERANCE[dtype], f"{what} {how} by {name}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", ["q", "k", "v", "all of v"])
def test_infinite_numbers(dispatchers: list[ckdisp.Dispatcher], dtype: str, place: str) -> None:
    """Infinities give what arithmetic says: a score of -infinity no weight, and V itself."""
    draw = random.Random(16)
    x = {name: abs(normal(draw, 1, 2, 70, 24, dtype=dtype)) for name in ("q", "k", "v")}
    if place == "q":
        x["q"][0, 0, 5, 3] = np.inf
    elif place == "k":
        x["k"][0, :, 40, 3] = -np.inf
    elif place == "v":
        x["v"][0, 1, 40, 3] = np.inf
    else:
        x["v"][0, 1, :, 3] = -np.inf
    with np.errstate(invalid="ignore"):
        want = attention_fwd(*x.values(), return_lse=True)
    assert not np.isfinite(want[0]).all() or place == "k"
    for dispatcher in dispatchers:
        for name in names(dispatcher, "fwd", dtype):
            o, lse = dispatcher.fmha_fwd(*x.values(), return_lse=True, kernel=name)
            close(o, want[0], TOLERANCE[dtype], f"o by {name}")
            close(lse, want[1], TOLERANCE["fp32"], f"lse by {name}")
