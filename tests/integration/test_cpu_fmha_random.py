"""Attention kernels of the CPU on calls that hypothesis makes up, against ``ckdisp.reference``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fmha_check import TOLERANCE, close
from fmha_kernels import names
from fmha_random import Call, Pages, calls, normal, pages_of, starts, turned
from hypothesis import given, settings
from hypothesis import strategies as st

from ckdisp.reference import attention_appendkv, attention_bwd, attention_fwd, gather_kv

pytestmark = pytest.mark.xdist_group("cpu_fmha")

WHICH = st.integers(0, 1)  # of the dispatchers
LAYOUT = st.sampled_from(["bhsd", "bshd"])
LOOKUPS = ("vllm", "sglang")


def check(call: Call, found: Any, wanted: Any, dtype: str, layout: str) -> None:
    """(o, lse) of a call and of its reference. Weights are as exact as their scores."""
    exact = 4e-7 * call.size
    close(turned(found[0], layout), wanted[0], max(TOLERANCE[dtype], exact), f"o of {call}")
    close(found[1], wanted[1], max(TOLERANCE["fp32"], exact), f"lse of {call}")


@settings(deadline=None)
@given(st.data())
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_forward(dispatchers: Any, dtype: str, data: st.DataObject) -> None:
    cache = data.draw(st.booleans())
    packed, broken = False if cache else None, dtype == "fp32"
    call = data.draw(calls(dtype, cache=cache, packed=packed, lengths=True, broken=broken))
    if cache and data.draw(st.booleans()):
        shared_cache(call, data)
    layout = data.draw(LAYOUT)
    q, k, v = (turned(x, layout) for x in call.inputs)
    how = {**call.how, "layout": layout, "return_lse": True}
    if data.draw(st.booleans()):
        v, how["vlayout"] = np.ascontiguousarray(call.v.swapaxes(-1, -2)), "c"
    dispatcher = dispatchers[data.draw(WHICH)]
    kernel = data.draw(st.sampled_from(names(dispatcher, "fwd", dtype)))
    stores = "dropout_p" in call.how and data.draw(st.booleans())
    found = dispatcher.fmha_fwd(q, k, v, kernel=kernel, return_randval=stores, **how)
    wanted = call.reference(return_lse=True, return_randval=stores)
    check(call, found, wanted, dtype, layout)
    if stores:
        seen = call.how.get("seqlens_k")  # only the bytes of keys in use are drawn
        same = found[2] == wanted[2]
        assert same.all() if seen is None else same[..., : min(seen, default=0)].all()


def shared_cache(call: Call, data: st.DataObject) -> None:
    """Sequences that attend to any batch of the cache."""
    count = len(call.k)
    index = np.array([data.draw(st.integers(0, count - 1)) for _ in range(count)], np.int32)
    call.how |= {"cache_batch_idx": index, "seqlens_k": call.how["seqlens_k"][index]}


@settings(deadline=None)
@given(st.data())
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_parts(dispatchers: Any, dtype: str, data: st.DataObject) -> None:
    cache = data.draw(st.booleans())
    packed, broken = False if cache else None, dtype == "fp32"
    some = calls(dtype, cache=cache, packed=packed, dropout=False, lengths=True, broken=broken)
    call = data.draw(some)
    if cache and data.draw(st.booleans()):
        shared_cache(call, data)
    layout, columns = data.draw(LAYOUT), data.draw(st.booleans())
    dispatcher = dispatchers[data.draw(WHICH)]
    q, k, v = (turned(x, layout) for x in call.inputs)
    found = dispatcher.fmha_splitkv(
        q,
        k,
        np.ascontiguousarray(call.v.swapaxes(-1, -2)) if columns else v,
        vlayout="c" if columns else "r",
        num_splits=data.draw(st.integers(0, 9)),
        kernel=data.draw(st.sampled_from(names(dispatcher, "splitkv", dtype))),
        layout=layout,
        return_lse=True,
        **call.how,
    )
    check(call, found, call.reference(return_lse=True), dtype, layout)


@settings(deadline=None)
@given(st.data())
@pytest.mark.parametrize(
    ("family", "dtype"), [("pagedkv", "fp32"), ("pagedkv", "fp16"), ("splitkv", "fp32")]
)
def test_pages(dispatchers: Any, family: str, dtype: str, data: st.DataObject) -> None:
    call = data.draw(calls(dtype, cache=True, dropout=False, broken=dtype == "fp32"))
    pages = Pages.of(call, data.draw(st.sampled_from([1, 4, 48])))
    how = {**call.how, **pages.how}
    if "cu_seqlens_q" in how and data.draw(st.booleans()):
        how["cu_seqlens_k"] = starts(list(how.pop("seqlens_k")))  # the lengths, said otherwise
    layout = data.draw(LAYOUT)
    dispatcher = dispatchers[data.draw(WHICH)]
    found = getattr(dispatcher, f"fmha_{family}")(
        *(turned(x, layout) for x in (call.q, pages.k, pages.v)),
        kernel=data.draw(st.sampled_from(names(dispatcher, family, dtype))),
        layout=layout,
        max_seqlen_k=call.k.shape[2],
        return_lse=True,
        **how,
    )
    check(call, found, call.reference(return_lse=True), dtype, layout)


@settings(deadline=None)
@given(st.data())
@pytest.mark.parametrize(
    ("memory", "lookup", "dtype"),
    [
        *((memory, lookup, "fp32") for memory in ("linear", "vectorized") for lookup in LOOKUPS),
        ("linear", "vllm", "bf16"),
        ("vectorized", "sglang", "bf16"),
    ],
)
def test_prefill(
    dispatchers: Any, memory: str, lookup: str, dtype: str, data: st.DataObject
) -> None:
    vectors, broken = memory == "vectorized", dtype == "fp32"
    some = calls(dtype, packed=True, cache=True, broken=broken, whole_vectors=vectors)
    call = data.draw(some)
    pages = Pages.of(call, data.draw(st.sampled_from([4 if dtype == "fp32" else 8, 16])))
    layout = data.draw(LAYOUT)
    k, v = turned(pages.k, layout), turned(pages.v, layout)
    if vectors:
        pages.vectors()
        k, v = pages.k, pages.v
    how = dict(call.how)
    if lookup == "sglang":
        pages.listed()
        del how["seqlens_k"]
    dispatcher = dispatchers[data.draw(WHICH)]
    found = dispatcher.fmha_batch_prefill(
        turned(call.q, layout), k, v,
        kernel=data.draw(st.sampled_from(names(dispatcher, "batch_prefill", dtype))),
        layout=layout,
        kv_lookup=lookup,
        max_seqlen_k=call.k.shape[2],
        return_lse=True,
        **{**how, **pages.how},
    )  # fmt: skip
    check(call, found, call.reference(return_lse=True), dtype, layout)


@settings(deadline=None)
@given(st.data())
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_backward(dispatchers: Any, dtype: str, data: st.DataObject) -> None:
    call = data.draw(calls(dtype, large=dtype == "fp32", broken=dtype == "fp32"))
    layout = data.draw(LAYOUT)
    o, lse = call.reference(return_lse=True)
    do = call.normal(*o.shape, dtype=dtype)
    has_bias = "bias" in call.how
    want = attention_bwd(do, *call.inputs, return_dbias=has_bias, **call.how)
    dispatcher = dispatchers[data.draw(WHICH)]
    found = dispatcher.fmha_bwd(
        *(turned(x, layout) for x in (do, *call.inputs, o.astype(do.dtype))),
        lse.astype(np.float32),
        kernel=data.draw(st.sampled_from(names(dispatcher, "bwd_dq_dk_dv", dtype))),
        layout=layout,
        return_dbias=has_bias,
        deterministic=data.draw(st.booleans()),
        **call.how,
    )
    # The rounding of O, which delta is made of, grows with what dropout multiplies by, that of the
    # LSE with the scores, and that of dK with the rows of Q it is made of.
    exact = max(TOLERANCE[dtype], 4e-7 * call.size) * 2 / (1 - call.how.get("dropout_p", 0.0))
    scale = call.how.get("scale", call.q.shape[-1] ** -0.5)
    of_k = exact * max(1.0, abs(scale) * np.max(abs(call.q), initial=0))
    tolerances = (exact, of_k, exact)
    for i, (got, tolerance) in enumerate(zip(found, tolerances, strict=False)):
        close(turned(got, layout), want[i], tolerance, f"gradient {i} of {call}")
    if has_bias:
        close(found[3], want[3], exact, f"dbias of {call}")


@settings(deadline=None)
@given(st.data())
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("rope", [None, "interleaved", "half_rotated"])
def test_append(dispatchers: Any, rope: str | None, dtype: str, data: st.DataObject) -> None:
    pick = st.sampled_from
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    batch, heads, group = (data.draw(st.integers(1, 3)) for _ in range(3))
    rows, new = data.draw(pick([1, 6, 20])), data.draw(pick([0, 1, 3, 6]))
    new = min(rows, new)
    d, dv = data.draw(pick([2, 8, 33])), data.draw(pick([1, 8, 20]))
    k, v, new_k, new_v, q = (
        normal(rng, batch, h, n, size, dtype=dtype)
        for h, n, size in (
            (heads, rows, d), (heads, rows, dv), (heads, new, d), (heads, new, dv),
            (heads * group, new, d),
        )
    )  # fmt: skip
    used = [data.draw(st.integers(0, rows - new)) for _ in range(batch)]
    how: dict[str, Any] = {"seqlens_k": np.array(used, np.int32), "rope": rope}
    how["mask"] = data.draw(pick(["no", "bottom_right"]))
    how["layout"] = layout = data.draw(LAYOUT)
    size = data.draw(pick([0, 1, 4]))  # of a page, if any
    if rope is not None:
        places = -(-rows // size) * size if size else rows
        angles = rng.uniform(0, 6, (places, data.draw(st.integers(1, d // 2))))
        how["rotary_cos"], how["rotary_sin"] = (f(angles).astype(k.dtype) for f in (np.cos, np.sin))
    if size:
        seed = int(rng.integers(2**32))
        k, how["page_table"] = pages_of(np.random.default_rng(seed), k, size)
        v, _ = pages_of(np.random.default_rng(seed), v, size)
    elif data.draw(st.booleans()):
        how["cache_batch_idx"] = rng.permutation(batch).astype(np.int32)
    inputs = [turned(x, layout).copy() for x in (k, v, new_k, new_v, q)]
    if not size and data.draw(st.booleans()):
        inputs[1], how["vlayout"] = v.swapaxes(2, 3).copy(), "c"
    wanted = attention_appendkv(*inputs[:4], q=inputs[4], **how)
    rotated = dispatchers[data.draw(WHICH)].fmha_appendkv(*inputs[:4], q=inputs[4], **how)
    for name, got, right in zip("kvq", (*inputs[:2], rotated), wanted, strict=True):
        exact = 1e-6 if dtype == "fp32" else 1e-2
        np.testing.assert_allclose(
            got.astype(np.float64), right, rtol=exact, atol=exact, err_msg=name
        )


@settings(deadline=None, max_examples=50)
@given(st.data())
@pytest.mark.parametrize("family", ["fwd", "splitkv", "pagedkv", "batch_prefill"])
def test_quantised(dispatchers: Any, family: str, data: st.DataObject) -> None:
    """Tensors of fp8 with a scale each, or one for each block of rows or page."""
    paged = family in ("pagedkv", "batch_prefill")
    packed = family == "batch_prefill" or None
    call = data.draw(calls("fp8", cache=paged, packed=packed, dropout=False, scored=False))
    kinds = {"fwd": ["pertensor", "blockscale"], "batch_prefill": ["pertensor", "kv_blockscale"]}
    kind = data.draw(st.sampled_from(kinds.get(family, ["pertensor"])))
    out_dtype = data.draw(st.sampled_from(["fp32", "bf16"])) if family == "fwd" else "fp32"
    how = {**call.how, "out_dtype": out_dtype, "return_lse": True, "qscale": kind}
    scales: dict[str, Any] = {"q_scale": 0.5, "k_scale": 1.5, "v_scale": 0.25}
    k, v = call.k, call.v
    if paged:
        pages = Pages.of(call, 4)
        k, v, how = pages.k, pages.v, {**how, **pages.how, "max_seqlen_k": call.k.shape[2]}
    if kind == "blockscale":
        batch = len(call.how.get("cu_seqlens_q", call.q)) - ("cu_seqlens_q" in call.how)
        heads = call.q.shape[-3], call.k.shape[-3], call.k.shape[-3]
        rows = [longest(call, x, f"cu_seqlens_{x}") for x in "qkk"]
        for name, h, n in zip(scales, heads, rows, strict=True):
            scales[name] = abs(call.normal(batch, h, -(-n // 128), dtype="fp32"))
    elif kind == "kv_blockscale":
        for name in ("k_scale", "v_scale"):
            scales[name] = abs(call.normal(*k.shape[:2], dtype="fp32"))
        scales["q_scale"] = np.array([0.5], np.float32)
    found = getattr(dispatchers[data.draw(WHICH)], f"fmha_{family}")(call.q, k, v, **how, **scales)
    if kind == "kv_blockscale":
        pair = {name: scales.pop(name) for name in ("k_scale", "v_scale")}
        k, v, _ = gather_kv(k, v, max_seqlen_k=call.k.shape[2], **pages.how, **pair)
        wanted = attention_fwd(call.q, k, v, return_lse=True, **call.how, **scales)
    else:
        wanted = call.reference(return_lse=True, **scales)
    check(call, found, wanted, out_dtype, "bhsd")


def longest(call: Call, name: str, first: str) -> int:
    tensor = getattr(call, name)
    return int(max(np.diff(call.how[first]))) if first in call.how else tensor.shape[-2]
