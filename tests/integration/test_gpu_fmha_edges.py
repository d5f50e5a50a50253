"""Attention on GPUs where CK's kernels need help: ALiBi, empty sequences, pages at their end.

Tensors lie in allocations of exact size, and results start as NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_memory import Tensor, gpu
from numpy.typing import NDArray
from on_gpu import OnGpu

import ckdisp
from ckdisp import reference

pytestmark = pytest.mark.xdist_group("gpu_values")

Array = NDArray[Any]
_PLAIN = {"dtype": "fp16", "hdim_q": 64, "hdim_v": 64}
_FORWARD = {**_PLAIN, "lse": True, "logits": False}
_PADS = (1, 1, 1, 1)


def kernels(family: str, **where: Any) -> ckdisp.KernelSet:
    """The one curated kernel of gfx942 with these fields."""
    found = ckdisp.KernelSet.sweep(family, "gfx942", where=where, companions=False)
    assert len(found) == 1, found.names()
    return found


def forward(**where: Any) -> ckdisp.KernelSet:
    features = {"dropout": False, "skip_min_seqlen_q": False, "padding": [_PADS]}
    return kernels("fmha.fwd", **{**_FORWARD, **features, **where})


def backward(mode: str, **where: Any) -> ckdisp.KernelSet:
    """The stages of a backward pass."""
    common = {**_PLAIN, "mode": mode}
    rows = kernels("fmha.bwd_dot_do_o", **common, padding=[(1, 0, 0, 0)])
    sums = kernels("fmha.bwd_convert_dq", **common, deterministic=False, padding=[(1, 0, 0, 0)])
    main = {"deterministic": False, "dropout": False, "padding": [(0, 0, 0, 0)], **where}
    return rows | sums | kernels("fmha.bwd_dq_dk_dv", **common, **main)


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def integers(*values: int) -> Tensor:
    return gpu(np.array(values, np.int32))


def same(got: Tensor, wanted: Array, tolerance: float = 4e-3) -> None:
    np.testing.assert_allclose(
        got.numpy().astype(float), wanted, rtol=tolerance, atol=tolerance, equal_nan=False
    )


# Mask, window, queries and keys.
_MASKS: list[tuple[str, tuple[int, int] | None, int, int]] = [
    ("no", None, 70, 130),
    ("bottom_right", None, 100, 71),
    ("bottom_right", (20, 4), 40, 90),
    ("top_left", None, 64, 64),
    ("top_left", None, 140, 60),
    ("top_left", (20, 40), 60, 90),
    ("top_left", (-1, 30), 60, 90),
    ("top_left", (50, -1), 90, 60),
]
# What has no form that CK Tile takes.
_REFUSED: list[tuple[str, tuple[int, int] | None, int, int]] = [
    ("top_left", None, 40, 90),
    ("top_left", (20, 4), 40, 90),
    ("top_left", (5, 4), 90, 60),
]
_SLOPES = np.array([0.3, 0.02], np.float32)


def alibi_forward() -> None:
    built = forward(bias="alibi", mask="generic", mode="batch")
    dispatcher = ckdisp.Dispatcher(built.build())
    for mask, window, rows, keys in _MASKS + _REFUSED:
        q, k, v = draw(1, 2, rows, 64), draw(1, 2, keys, 64), draw(1, 2, keys, 64, seed=1)
        options = {"mask": mask, "window": window, "return_lse": True}

        def call(**options: Any) -> Any:
            inputs = (gpu(x) for x in (q, k, v))  # noqa: B023
            return dispatcher.fmha_fwd(*inputs, alibi_slopes=gpu(_SLOPES), **options)

        if (mask, window, rows, keys) in _REFUSED:
            with pytest.raises(ckdisp.UnsupportedProblem, match=r"\[bias\] .*ALiBi"):
                call(**options)
            continue
        wanted, sums = reference.attention_fwd(q, k, v, alibi_slopes=_SLOPES, **options)
        o, lse = call(**options)
        same(o, wanted)
        same(lse, sums, 1e-3)


def test_alibi_is_that_of_the_reference(on_gpu: OnGpu) -> None:
    on_gpu.run(alibi_forward)


def gradients(
    dispatcher: ckdisp.Dispatcher, shapes: tuple[Array, Array, Array], **options: Any
) -> None:
    """Compare the gradients of a call with those of the reference."""
    q, k, v = shapes
    o, lse = reference.attention_fwd(q, k, v, return_lse=True, **_host(options))
    do = draw(*o.shape, seed=3)
    dbias = {"return_dbias": True} if "bias" in options else {}
    wanted = reference.attention_bwd(do, q, k, v, **_host(options), **dbias)
    lengths = {}
    if "cu_seqlens_q" in options:
        steps = [np.diff(options[name]).max() for name in ("cu_seqlens_q", "cu_seqlens_k")]
        lengths = dict(zip(("max_seqlen_q", "max_seqlen_k"), map(int, steps), strict=True))
    on_device = {n: gpu(x) if isinstance(x, np.ndarray) else x for n, x in options.items()}
    inputs = (gpu(x) for x in (do, q, k, v, o.astype(np.float16), lse.astype(np.float32)))
    found = dispatcher.fmha_bwd(*inputs, **on_device, **lengths, **dbias)
    for got, right in zip(found, wanted, strict=True):
        same(got, right, 1e-2)


def _host(options: dict[str, Any]) -> dict[str, Any]:
    return {n: x.astype(float) if n == "bias" else x for n, x in options.items()}


def alibi_and_empty_gradients() -> None:
    dispatcher = ckdisp.Dispatcher(
        backward("batch", bias="alibi", mask="generic", dbias=False).build()
    )

    def check(rows: int, keys: int, **options: Any) -> None:
        shapes = (draw(1, 2, rows, 64), draw(1, 2, keys, 64, seed=1), draw(1, 2, keys, 64, seed=2))
        gradients(dispatcher, shapes, alibi_slopes=_SLOPES, **options)

    for mask, window, rows, keys in [_MASKS[i] for i in (0, 1, 4, 5)]:
        check(rows, keys, mask=mask, window=window)
    check(70, 0)  # dq is 0
    check(0, 70)  # dk and dv are


def test_gradients_of_alibi_and_of_empty_tensors(on_gpu: OnGpu) -> None:
    on_gpu.run(alibi_and_empty_gradients)


def gradients_of_sequences() -> None:
    built = backward("group", bias="bias", mask="no", dbias=True)
    dispatcher = ckdisp.Dispatcher(built.build())
    # One has no queries, one no keys, one neither.
    rows = np.array([0, 20, 20, 47, 47], np.int32)
    keys = np.array([0, 13, 70, 70, 70], np.int32)
    shapes = (draw(2, 47, 64), draw(2, 70, 64, seed=1), draw(2, 70, 64, seed=2))
    bias = draw(2, 47, 57, seed=4)
    gradients(dispatcher, shapes, cu_seqlens_q=rows, cu_seqlens_k=keys, bias=bias)


def test_gradients_of_sequences_without_rows(on_gpu: OnGpu) -> None:
    on_gpu.run(gradients_of_sequences)


def append() -> None:
    plain = {**_PLAIN, "rope": "none", "paged_kv": False, "padding": [_PADS]}
    dispatcher = ckdisp.Dispatcher(kernels("fmha.appendkv", **plain).build())
    k, v, k_new, v_new = (draw(2, 2, rows, 64, seed=rows) for rows in (100, 101, 5, 6))
    v, v_new = v[:, :, :100], v_new[:, :, :5]
    lengths = np.array([10, 95], np.int32)
    cache = [gpu(x.copy()) for x in (k, v)]
    dispatcher.fmha_appendkv(*cache, gpu(k_new), gpu(v_new.copy()), seqlens_k=gpu(lengths))
    wanted = reference.attention_appendkv(k, v, k_new, v_new, seqlens_k=lengths)
    for got, right in zip(cache, wanted, strict=True):
        np.testing.assert_array_equal(got.numpy().astype(float), right)


def test_a_cache_is_appended_to_without_queries(on_gpu: OnGpu) -> None:
    on_gpu.run(append)


def prefill() -> None:
    built = ckdisp.KernelSet.sweep(
        "fmha.batch_prefill",
        "gfx942",
        where={
            **_FORWARD,
            "hdim_q": 128,
            "hdim_v": 128,
            "bias": "no",
            "mode": "group",
            "mask": "generic",
            "dropout": False,
            "padding": [_PADS],
        },
    ).filter("tile[0] == 64")
    assert len(built) == 1
    dispatcher = ckdisp.Dispatcher(built.build())
    # Pages of one key; the list ends with the last sequence, or goes on with what is no page.
    lengths, rows = [100, 0, 60], [1, 2, 3]
    total, pages = sum(lengths), 170
    order = np.random.default_rng(0).permutation(pages)[:total].astype(np.int32)
    starts_k = np.cumsum([0, *lengths]).astype(np.int32)
    starts_q = np.cumsum([0, *rows]).astype(np.int32)
    q, k, v = draw(2, sum(rows), 128), draw(pages, 2, 1, 128), draw(pages, 2, 1, 128, seed=1)
    scale = {"max_seqlen_q": 3, "max_seqlen_k": 100, "return_lse": True}
    place = {
        "cu_seqlens_q": gpu(starts_q),
        "page_indptr": gpu(starts_k),
        "last_page_len": integers(1, 0, 1),
        "kv_lookup": "sglang",
    }
    for window in (None, (-1, 0), (99, 0), (30, 0)):
        for behind in ([], [-7, 1 << 30]):
            listed = gpu(np.array([*order, *behind], np.int32))
            options = {"mask": "no" if window is None else "bottom_right", "window": window}
            calls = ((gpu(q), gpu(k), gpu(v)), {**options, **scale, **place, "page_table": listed})
            if window == (30, 0):
                with pytest.raises(ckdisp.UnsupportedProblem, match=r"\[mask\] the window starts"):
                    dispatcher.fmha_batch_prefill(*calls[0], **calls[1])
                continue
            o, lse = dispatcher.fmha_batch_prefill(*calls[0], **calls[1])
            flat = [x[order, :, 0].transpose(1, 0, 2) for x in (k, v)]
            wanted, wanted_lse = reference.attention_fwd(
                q, *flat, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k, return_lse=True, **options
            )
            same(o, wanted)
            same(lse, wanted_lse, 1e-3)


def test_a_list_of_pages_is_not_read_beyond_its_end(on_gpu: OnGpu) -> None:
    on_gpu.run(prefill)


def heads_of_96() -> None:
    built = forward(hdim_q=96, hdim_v=128, bias="no", mode="batch", mask="generic")
    assert built[0].pipeline == "qr"  # the waves of qr_async race there
    dispatcher = ckdisp.Dispatcher(built.build())
    for mask, rows, keys in [("no", 128, 256), ("bottom_right", 33, 140)]:
        q, k, v = draw(1, 1, rows, 96), draw(1, 1, keys, 96), draw(1, 1, keys, 128)
        o, lse = dispatcher.fmha_fwd(gpu(q), gpu(k), gpu(v), mask=mask, return_lse=True)
        wanted, wanted_lse = reference.attention_fwd(q, k, v, mask=mask, return_lse=True)
        same(o, wanted)
        same(lse, wanted_lse, 1e-3)


def test_waves_do_not_race_at_head_dimension_96(on_gpu: OnGpu) -> None:
    on_gpu.run(heads_of_96)
