"""Attention kernels of the CPU, compiled here: values against ``ckdisp.reference`` in float64."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fmha_check import TOLERANCE, Case, close, normal, random_case
from fmha_kernels import names
from fmha_random import pages_of

import ckdisp
from ckdisp.reference import attention_bwd, attention_fwd

# The kernels are built once, see the fixture.
pytestmark = pytest.mark.xdist_group("cpu_fmha")


def laid_out(case: Case, layout: str) -> list[Any]:
    tensors = [case.q, case.k, case.v]
    if layout == "bshd":
        tensors = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in tensors]
    return tensors


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_random_forward(dispatchers: list[ckdisp.Dispatcher], dtype: str, layout: str) -> None:
    draw = random.Random(layout)
    for i in range(40):
        case = random_case(draw, dtype)
        want_o, want_lse = case.reference()
        dispatcher = dispatchers[i % 2]
        for name in names(dispatcher, "fwd", dtype):
            o, lse = dispatcher.fmha_fwd(
                *laid_out(case, layout), layout=layout, return_lse=True, kernel=name, **case.how
            )
            o = o if layout == "bhsd" else o.swapaxes(1, 2)
            close(o, want_o, TOLERANCE[dtype], f"o of {case.shape} {case.how} by {name}")
            close(lse, want_lse, TOLERANCE["fp32"], f"lse of {case.shape} {case.how} by {name}")


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_random_backward(dispatchers: list[ckdisp.Dispatcher], dtype: str) -> None:
    draw = random.Random(3)
    for i in range(40):
        case = random_case(draw, dtype)
        dispatcher = dispatchers[i % 2]
        do = normal(draw, *case.q.shape[:3], case.v.shape[3], dtype=dtype)
        o, lse, *want = case.reference(do)
        o, lse = o.astype(do.dtype), lse.astype(np.float32)
        has_bias = "bias" in case.how
        for name in names(dispatcher, "bwd_dq_dk_dv", dtype):
            found = dispatcher.fmha_bwd(
                do, case.q, case.k, case.v, o, lse, return_dbias=has_bias, kernel=name, **case.how
            )
            assert len(found) == 3 + has_bias
            # The rounding of O, which delta is made from, grows with what dropout multiplies by.
            tolerance = 2 * TOLERANCE[dtype] / (1 - case.how.get("dropout_p", 0.0))
            for what, got, right in zip(("dq", "dk", "dv", "dbias"), found, want, strict=False):
                close(got, right, tolerance, f"{what} of {case.shape} {case.how} by {name}")


@pytest.mark.parametrize("cap", [0.0, 1.5])
def test_gradients_are_finite_differences(dispatchers: list[ckdisp.Dispatcher], cap: float) -> None:
    draw = random.Random(11)
    tensors = [normal(draw, 1, h, n, 8) for h, n in ((4, 9), (2, 12), (2, 12))]
    how = {"window": (2, 1), "sink": 3, "logits_soft_cap": cap, "scale": 0.7}
    do = normal(draw, 1, 4, 9, 8)
    o, lse = dispatchers[0].fmha_fwd(*tensors, return_lse=True, **how)
    found = dispatchers[0].fmha_bwd(do, *tensors, o, lse, **how)
    for i, gradient in enumerate(found):
        ahead = normal(draw, *gradient.shape).astype(np.float64)
        sides = []
        for step in (1e-5, -1e-5):
            moved = [x + step * ahead if j == i else x for j, x in enumerate(tensors)]
            sides.append(np.sum(do * attention_fwd(*moved, **how)))
        slope = (sides[0] - sides[1]) / 2e-5
        np.testing.assert_allclose(np.sum(gradient * ahead), slope, rtol=1e-4, atol=1e-4)


def test_threads_and_calls_do_not_change_gradients(dispatchers: list[ckdisp.Dispatcher]) -> None:
    draw = random.Random(5)
    q, k, v, do = (normal(draw, 1, 1, 300, 32) for _ in range(4))
    one, three = dispatchers
    o, lse = one.fmha_fwd(q, k, v, return_lse=True)
    first = three.fmha_bwd(do, q, k, v, o, lse, deterministic=True)
    for _ in range(3):
        again = three.fmha_bwd(do, q, k, v, o, lse, deterministic=True)
        for x, y in zip(first, again, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("splits", [1, 2, 7])
def test_random_parts_of_the_keys(dispatchers: list[ckdisp.Dispatcher], splits: int) -> None:
    draw = random.Random(splits)
    for i in range(20):
        case = random_case(draw, "fp32", dropout=False)
        want_o, want_lse = case.reference()
        dispatcher = dispatchers[i % 2]
        for name in names(dispatcher, "splitkv", "fp32"):
            o, lse = dispatcher.fmha_splitkv(
                case.q, case.k, case.v, num_splits=splits, return_lse=True, kernel=name, **case.how
            )
            close(o, want_o, TOLERANCE["fp32"], f"o of {case.shape} {case.how}")
            close(lse, want_lse, TOLERANCE["fp32"], f"lse of {case.shape} {case.how}")


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_sequences_of_many_lengths(dispatchers: list[ckdisp.Dispatcher], dtype: str) -> None:
    draw = random.Random(9)
    lengths_q, lengths_k = [3, 0, 70, 1, 5], [40, 8, 130, 100, 0]
    starts_q, starts_k = (
        np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in (lengths_q, lengths_k)
    )
    q, do = (normal(draw, 4, int(starts_q[-1]), 32, dtype=dtype) for _ in range(2))
    k, v = (normal(draw, 2, int(starts_k[-1]), 32, dtype=dtype) for _ in range(2))
    varying: dict[str, Any] = {"cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k}
    varying |= {"mask": "bottom_right", "dropout_p": 0.2, "seed": 5, "offset": 1}
    want = [*attention_fwd(q, k, v, return_lse=True, **varying)]
    want += attention_bwd(do, q, k, v, **varying)
    for dispatcher in dispatchers:
        o, lse = dispatcher.fmha_fwd(q, k, v, return_lse=True, **varying)
        dq, dk, dv = dispatcher.fmha_bwd(do, q, k, v, o, lse, **varying)
        found = {"o": o, "lse": lse, "dq": dq, "dk": dk, "dv": dv}
        for (name, got), wanted in zip(found.items(), want, strict=True):
            close(got, wanted, 2 * TOLERANCE[dtype], name)


def test_short_sequences_are_left_to_another_call(
    dispatchers: list[ckdisp.Dispatcher],
) -> None:
    draw = random.Random(12)
    starts_q, starts_k = (np.array(x, np.int32) for x in ([0, 1, 4, 74, 76], [0, 90, 93, 200, 240]))
    q, k, v = (normal(draw, 2, n, 16) for n in (76, 240, 240))
    many: dict[str, Any] = {"cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k}
    want, want_lse = attention_fwd(q, k, v, return_lse=True, **many)
    lengths = np.diff(starts_q)
    done = np.repeat(lengths > 3, lengths)
    for dispatcher in dispatchers:
        out = np.full_like(q, 7)
        dispatcher.fmha_fwd(q, k, v, min_seqlen_q=3, out=out, **many)
        close(out[:, done], want[:, done], TOLERANCE["fp32"], "long sequences")
        assert (out[:, ~done] == 7).all()
        o, lse = dispatcher.fmha_fwd(q, k, v, min_seqlen_q=3, return_lse=True, **many)
        close(lse[:, done], want_lse[:, done], TOLERANCE["fp32"], "their LSE")
        assert (o[:, ~done] == 0).all()
        assert np.isneginf(lse[:, ~done]).all()
    pages: dict[str, Any] = {"page_table": np.zeros((4, 3), np.int32)}
    pages["seqlens_k"] = np.full(4, 40, np.int32)
    first = [np.ascontiguousarray(x[None, :, :16]) for x in (k, v)]
    how = {"layout": "bhsd", "cu_seqlens_q": starts_q, **pages}
    all_rows = dispatchers[0].fmha_pagedkv(q, *first, **how)
    out = np.full_like(q, 7)
    dispatchers[0].fmha_pagedkv(q, *first, min_seqlen_q=3, out=out, **how)
    np.testing.assert_array_equal(out[:, done], all_rows[:, done])
    assert (out[:, ~done] == 7).all()


def test_random_bytes_are_stored_and_used_again(dispatchers: list[ckdisp.Dispatcher]) -> None:
    draw = random.Random(2)
    how = {"dropout_p": 0.4, "seed": 2**63 + 7, "offset": 12, "mask": "top_left"}
    case = Case(*(normal(draw, 2, 2, n, 16) for n in (30, 50, 50)), how)
    for dispatcher in dispatchers:
        found = dispatcher.fmha_fwd(case.q, case.k, case.v, return_randval=True, **how)
        want = attention_fwd(case.q, case.k, case.v, return_randval=True, **how)
        close(found[0], want[0], TOLERANCE["fp32"], "o")
        np.testing.assert_array_equal(found[1], want[1])


@pytest.mark.parametrize("dtype", ["fp8", "bf8"])
def test_quantised_tensors(dispatchers: list[ckdisp.Dispatcher], dtype: str) -> None:
    draw = random.Random(4)
    out = {"fp8": "fp8fp32", "bf8": "bf8"}[dtype]
    scales = {"q_scale": 0.5, "k_scale": 2.0, "v_scale": 0.25}
    for i in range(20):
        case = random_case(draw, dtype)
        want, _ = case.reference()
        tolerance = TOLERANCE[dtype] if out == "fp8fp32" else 0.13
        dispatcher = dispatchers[i % 2]
        o = dispatcher.fmha_fwd(
            case.q, case.k, case.v, out_dtype="fp32" if out == "fp8fp32" else dtype, **case.how
        )
        close(o, want, tolerance, f"{case.shape} {case.how}")
        o = dispatcher.fmha_fwd(
            case.q, case.k, case.v, out_dtype="fp32" if out == "fp8fp32" else dtype,
            **scales, **case.how,
        )  # fmt: skip
        close(o, want * 0.25, tolerance, f"{case.shape} {case.how} with scales")


def calls_of_all_families(
    draw: random.Random, q: Any, k: Any, v: Any, size: int
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any], Any]]:
    """By family: tensors, other arguments, and the table of pages of ``size`` keys or None."""
    batch, keys = k.shape[0], k.shape[2]
    seed = draw.getrandbits(32)
    (kp, table), (vp, _) = (pages_of(np.random.default_rng(seed), x, size) for x in (k, v))
    paged = {"page_table": table, "seqlens_k": np.full(batch, keys, np.int32), "max_seqlen_k": keys}
    yield "fwd", (q, k, v), {}, None
    yield "splitkv", (q, k, v), {"num_splits": 3}, None
    yield "splitkv", (q, kp, vp), {"num_splits": 2, **paged}, table
    yield "pagedkv", (q, kp, vp), paged, table
    starts = np.arange(batch + 1, dtype=np.int32) * q.shape[2]
    rows = np.ascontiguousarray(q.swapaxes(0, 1).reshape(q.shape[1], -1, q.shape[3]))
    many = {"cu_seqlens_q": starts, "layout": "bhsd"}
    yield "batch_prefill", (rows, kp, vp), {**paged, **many}, table


def scale_of(draw: random.Random, kind: str, x: Any, table: Any) -> tuple[Any, Any]:
    """What a call has, and what ``x`` (batch, heads, rows, size) is multiplied by."""
    b, h, n, _ = x.shape
    if kind == "blockscale":
        scale = abs(normal(draw, b, h, -(-n // 128)))
        return scale, np.repeat(scale, 128, 2)[:, :, :n, None]
    if kind == "kv_blockscale":
        scale = abs(normal(draw, table.size + 1, h))
        return scale, np.repeat(scale[table].swapaxes(1, 2), 16, 2)[:, :, :n, None]
    scale = np.float32(draw.uniform(0.2, 3))
    return draw.choice([float(scale), scale.reshape(1)]), scale


@pytest.mark.parametrize("kind", ["pertensor", "blockscale", "kv_blockscale"])
def test_scales_of_quantised_tensors(dispatchers: list[ckdisp.Dispatcher], kind: str) -> None:
    draw = random.Random(6)
    q, k, v = (normal(draw, 2, h, n, 32, dtype="fp8") for h, n in ((4, 130), (2, 200), (2, 200)))
    for family, tensors, how, table in calls_of_all_families(draw, q, k, v, 16):
        if kind == "kv_blockscale" and table is None:
            continue
        wide = []
        for name, x in (("q", q), ("k", k), ("v", v)):
            one = name == "q" and kind == "kv_blockscale"
            how[f"{name}_scale"], factor = scale_of(draw, "pertensor" if one else kind, x, table)
            wide.append(x.astype(np.float64) * factor)
        scores = {"mask": draw.choice(["no", "top_left", "bottom_right"]), "scale": 0.3}
        scores["logits_soft_cap"] = draw.choice([0.0, 2.0])
        want = attention_fwd(*wide, return_lse=True, **scores)
        how |= {"qscale": kind, "out_dtype": "fp32", "return_lse": True, **scores}
        for dispatcher in dispatchers:
            found = getattr(dispatcher, f"fmha_{family}")(*tensors, **how)
            for got, wanted in zip(found, want, strict=True):
                if family == "batch_prefill":
                    got = got.reshape(4, 2, 130, *got.shape[2:]).swapaxes(0, 1)
                close(got, wanted, TOLERANCE["fp32"], f"{family} {kind} {scores}")


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


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("profile", PROFILES)
def test_scores_far_above_those_of_earlier_keys(
    dispatchers: list[ckdisp.Dispatcher], dtype: str, profile: str
) -> None:
    """Whatever the order of large and small scores over many blocks of keys."""
    draw = random.Random(21)
    scores = PROFILES[profile](np.arange(700.0))
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


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_keys_that_nobody_sees_do_not_count(
    dispatchers: list[ckdisp.Dispatcher], bad: float
) -> None:
    draw = random.Random(13)
    how: dict[str, Any] = {"mask": "top_left", "window": (7, 2), "sink": 3}
    for rows in (1, 5, 60):
        q, do = (normal(draw, 2, 4, rows, 24) for _ in range(2))
        k, v = (normal(draw, 2, 2, 200, 24) for _ in range(2))
        want = attention_fwd(q, k, v, return_lse=True, **how)
        gradients = attention_bwd(do, q, k, v, **how)
        hidden = slice(rows + 2, None)
        k[:, :, hidden] = v[:, :, hidden] = bad
        for dispatcher in dispatchers:
            for family, tensors, more, _ in calls_of_all_families(draw, q, k, v, 8):
                found = getattr(dispatcher, f"fmha_{family}")(
                    *tensors, return_lse=True, **how, **more
                )
                for got, wanted in zip(found, want, strict=True):
                    if family == "batch_prefill":
                        got = got.reshape(4, 2, rows, *got.shape[2:]).swapaxes(0, 1)
                    close(got, wanted, TOLERANCE["fp32"], f"{family} {rows} {bad}")
            found = dispatcher.fmha_bwd(
                do, q, k, v, want[0].astype(np.float32), want[1].astype(np.float32), **how
            )
            for got, wanted in zip(found, gradients, strict=True):
                close(got, wanted, 2 * TOLERANCE["fp32"], f"backward {rows} {bad}")


@pytest.mark.parametrize("mask", ["top_left", "bottom_right"])
def test_windows_that_miss_everything(dispatchers: list[ckdisp.Dispatcher], mask: str) -> None:
    """Rows without a key have result 0, LSE -infinity and no gradients."""
    draw = random.Random(13)
    q, do, k, v = (normal(draw, 1, h, n, 8) for h, n in ((4, 40), (4, 40), (2, 3), (2, 3)))
    how: dict[str, Any] = {"mask": mask, "window": (0, 0)}
    empty = slice(3, 40) if mask == "top_left" else slice(0, 37)
    want, sums = attention_fwd(q, k, v, return_lse=True, **how)
    gradients = attention_bwd(do, q, k, v, **how)
    pages = {"page_table": np.zeros((1, 1), np.int32), "seqlens_k": np.array([3], np.int32)}
    validator = ckdisp.Validator()
    for dispatcher in dispatchers:
        for call, more in (
            ("fwd", {}), ("splitkv", {"num_splits": 2}), ("splitkv", pages), ("pagedkv", pages),
        ):  # fmt: skip
            o, lse = getattr(dispatcher, f"fmha_{call}")(q, k, v, return_lse=True, **how, **more)
            assert np.all(o[:, :, empty] == 0), call
            assert np.all(np.isneginf(lse[:, :, empty])), call
            assert validator.check(o, want), call
            assert validator.check(lse, sums), call
        found = dispatcher.fmha_bwd(do, q, k, v, o, lse, **how)
        assert np.all(found[0][:, :, empty] == 0)
        for x, y in zip(found, gradients, strict=True):
            assert validator.check(x, y)


def test_broken_rows_leave_the_gradients_of_other_keys_alone(
    dispatchers: list[ckdisp.Dispatcher],
) -> None:
    draw = random.Random(14)
    q, k, v, do = (normal(draw, 1, 1, n, 8) for n in (20, 40, 40, 20))
    k[0, 0, 3, 2] = np.nan  # all queries but the first three see it, and of keys at most twenty
    o, lse = attention_fwd(q, k, v, mask="top_left", return_lse=True)
    want = attention_bwd(do, q, k, v, mask="top_left")
    for x in want[1:]:
        assert np.isnan(x[0, 0, :20]).all()
        assert (x[0, 0, 20:] == 0).all()
    sums = o.astype(np.float32), lse.astype(np.float32)
    for dispatcher in dispatchers:
        found = dispatcher.fmha_bwd(do, q, k, v, *sums, mask="top_left")
        for got, wanted in zip(found, want, strict=True):
            close(got, wanted, 2 * TOLERANCE["fp32"], "gradients")


@pytest.mark.parametrize("broken", ["q", "do"])
def test_keys_that_a_broken_row_does_not_see_keep_their_gradients(
    dispatchers: list[ckdisp.Dispatcher], broken: str
) -> None:
    draw = random.Random(15)
    for row, how in (
        (3, {"mask": "top_left"}),
        (12, {"window": (-1, 3)}),
        (40, {"mask": "top_left", "window": (7, 2), "sink": 3}),
    ):
        x = {name: normal(draw, 1, 1, 70, 24) for name in ("q", "do", "k", "v")}
        x[broken][0, 0, row, 2] = np.nan
        o, lse = attention_fwd(x["q"], x["k"], x["v"], return_lse=True, **how)
        want = attention_bwd(x["do"], x["q"], x["k"], x["v"], **how)
        sums = o.astype(np.float32), lse.astype(np.float32)
        for dispatcher in dispatchers:
            for name in names(dispatcher, "bwd_dq_dk_dv", "fp32"):
                found = dispatcher.fmha_bwd(
                    x["do"], x["q"], x["k"], x["v"], *sums, kernel=name, **how
                )
                for what, got, wanted in zip(("dq", "dk", "dv"), found, want, strict=True):
                    close(got, wanted, 2 * TOLERANCE["fp32"], f"{what} {how} by {name}")


def test_values_by_columns_in_pages_are_refused(dispatchers: list[ckdisp.Dispatcher]) -> None:
    q, pages = np.zeros((1, 2, 3, 8), np.float32), np.zeros((4, 2, 8, 8), np.float32)
    how = {"page_table": np.zeros((1, 4), np.int32), "seqlens_k": np.full(1, 20, np.int32)}
    with pytest.raises(ckdisp.UnsupportedProblem, match="V by columns only without pages"):
        dispatchers[0].fmha_splitkv(q, pages, pages, vlayout="c", **how)


def test_nothing_to_attend_to(dispatchers: list[ckdisp.Dispatcher]) -> None:
    draw = random.Random(8)
    q = normal(draw, 2, 2, 5, 8)
    k = v = q[:, :1, :0]
    for dispatcher in dispatchers:
        o, lse = dispatcher.fmha_fwd(q, k, v, return_lse=True)
        assert (o == 0).all()
        assert np.isneginf(lse).all()
        dq, dk, _ = dispatcher.fmha_bwd(q, q, k, v, o, lse)
        assert (dq == 0).all()
        assert dk.shape == k.shape
        _, dk, dv = dispatcher.fmha_bwd(q[:, :, :0], q[:, :, :0], q, q, q[:, :, :0], lse[:, :, :0])
        assert (dk == 0).all()
        assert (dv == 0).all()
