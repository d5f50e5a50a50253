"""Attention kernels of the CPU, compiled here: values against ``ckdisp.reference`` in float64."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import cpu_kernels
import fmha_kernels
import numpy as np
import pytest
from fmha_calls import calls_of_all_families
from fmha_check import TOLERANCE, Case, close, normal, random_case
from fmha_kernels import names

import ckdisp
from ckdisp.reference import attention_bwd, attention_fwd

# The kernels are built once, see the fixture.
pytestmark = pytest.mark.xdist_group("cpu_fmha")


def test_objects_hold_one_kernel_and_nothing_shared(
    dispatchers: list[ckdisp.Dispatcher], kernel_cache: Path
) -> None:
    compiled = cpu_kernels.without_prebuilt(fmha_kernels.all_kernels())
    families = {kernel.key.family for kernel in dispatchers[0].registry}
    assert {key.family for key in compiled} == families
    cpu_kernels.check_objects(compiled, kernel_cache)


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
