"""Attention in Python before a kernel runs: problems, and every way to ask for nonsense."""

from __future__ import annotations

import inspect

import ml_dtypes
import numpy as np
import pytest

from ckdisp import Dispatcher, FmhaProblem, Registry
from ckdisp.codegen.errors import InvalidArgument, InvalidKey, KernelNotFound


def problem(family="fwd", **how):
    usual = {"batch": 2, "heads": (4, 2), "head_dim": 64, "lengths": (5, 7), "dtype": "fp16"}
    return FmhaProblem(family, **{**usual, **how})


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


@pytest.fixture
def dispatcher():
    return Dispatcher(Registry())


def test_a_problem_knows_itself():
    p = problem(mask="bottom_right", lse=True)
    assert p.family == "fmha.fwd"
    assert p.flops == 2 * 2 * 4 * (3 + 4 + 5 + 6 + 7) * 128
    assert p.bytes == 2 * 2 * 2 * (4 * 5 * 64 + 2 * 7 * 64) + 4 * 2 * 4 * 5
    made = p.to_dict()
    assert (made["heads"], made["lengths"], made["totals"]) == ((4, 2), (5, 7), (10, 14))
    assert (made["mask"], made["lse"], made["mode"]) == ("bottom_right", True, "batch")
    assert "fmha.fwd batch 2 heads 4:2 lengths 5:7 head_dim 64:64 fp16 bottom_right lse" in repr(p)


def test_the_same_problem_said_otherwise():
    assert problem(heads=4) == problem(heads=(4, 4)) != problem()
    assert problem("bwd") == problem("fmha.bwd_dq_dk_dv") != problem("fwd")
    assert problem(window=(-1, 0), mask="top_left") == problem(mask="top_left")
    assert problem(window=(-1, 0)) == problem(mask="bottom_right")
    assert problem(window=(-1, -1)) == problem()
    assert hash(problem(window=(2, 1))) == hash(problem(window=(2, 1), mask="bottom_right"))
    assert problem(window=(2, 1)) != problem(window=(2, 1), mask="top_left")


BAD = {
    "heads": ({"heads": (4, 3)}, "the 4 heads of q are no multiple of the 3 of k and v"),
    "an inverted window": ({"window": (-3, 1)}, r"the window \(-3, 1\) is inverted"),
    "a window of one number": ({"window": (3,)}, "window is .3,.; pass two integers"),
    "a cap with a bias": ({"soft_cap": True, "bias": "alibi"}, "exclude each other"),
    "short sequences": ({"skip_min_seqlen_q": True}, "leaves out short sequences"),
    "sink without a mask": ({"sink": 1}, "there is no mask"),
    "an odd batch": ({"batch": 1.5}, "batch must be an integer, not 1.5"),
    "truth as a number": ({"batch": True}, "batch is True; pass a number"),
    "a number as truth": ({"lse": 1}, "lse is 1; pass True or False"),
    "no heads": ({"heads": None}, "heads is None; pass one integer or two"),
    "64 bits": ({"batch": 2**70}, "does not fit a 64-bit index"),
    "scales of fp16": ({"qscale": "pertensor"}, "qscale is for 8-bit numbers, not fp16"),
    "mx types": ({"dtype": "mxfp4"}, "mxfp4 needs a scale for each few numbers"),
    "a cache of sequences": (
        {"totals": (10, 14), "cache_batches": 3},
        r"there are none in mode group \(cu_seqlens\)",
    ),
    "pages": ({"pages": (16, 2)}, "pages is .16, 2.; pass .page size, number of pages"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_problem_that_can_never_work_is_refused(name):
    how, words = BAD[name]
    with pytest.raises(InvalidArgument, match=words):
        problem(**how)


def test_only_families_that_read_a_cache_have_its_batches():
    for family in ("fwd", "splitkv", "splitkv_combine", "appendkv"):
        assert problem(family, cache_batches=1).to_dict()["cache_batches"] == 1
    for family in ("bwd", "bwd_dot_do_o", "bwd_convert_dq"):
        full = "bwd_dq_dk_dv" if family == "bwd" else family
        with pytest.raises(InvalidArgument, match=f"fmha.{full} has those of q; leave it away"):
            problem(family, cache_batches=1)


def test_unknown_names_are_told():
    with pytest.raises(InvalidKey, match=r"unknown family 'fwdd'.*did you mean 'fwd'"):
        problem("fwdd")
    with pytest.raises(InvalidKey, match=r"unknown argument 'head_dims'.*did you mean 'head_dim'"):
        problem(head_dims=3)
    with pytest.raises(InvalidKey, match=r"unknown mask 'bottom'.*known: no, top_left"):
        problem(mask="bottom")
    with pytest.raises(InvalidKey, match=r"unknown dtype 'fp17'"):
        problem(dtype="fp17")
    with pytest.raises(InvalidKey, match=r"unknown layout 'shd'.*bhsd, bshd"):
        problem(layout="shd")


def test_a_call_asks_for_a_kernel_of_its_family(dispatcher):
    q, k, v = zeros(2, 4, 5, 8), zeros(2, 2, 7, 8), zeros(2, 2, 7, 6)
    words = r"no kernel for fmha.fwd batch 2 heads 4:2 lengths 5:7 head_dim 8:6 fp32.*ckdisp gen"
    with pytest.raises(KernelNotFound, match=words):
        dispatcher.fmha_fwd(q, k, v)
    with pytest.raises(KernelNotFound, match="has no kernel named 'x'"):
        dispatcher.fmha_fwd(q, k, v, kernel="x")
    with pytest.raises(KernelNotFound, match=r"no kernel for fmha.bwd_dq_dk_dv"):
        dispatcher.fmha_bwd(zeros(2, 4, 5, 6), q, k, v, zeros(2, 4, 5, 6), zeros(2, 4, 5))


Q, K = (2, 4, 5, 8), (2, 2, 7, 8)
BAD_TENSORS = {
    "batches": ({"k": zeros(3, 2, 7, 8)}, r"q has shape .2, 4, 5, 8. and k .*batches must be eq"),
    "head dimensions": ({"k": zeros(2, 2, 7, 9)}, "the head dimensions must be equal"),
    "rows of v": ({"v": zeros(2, 2, 6, 8)}, "k has shape .* and v .*the rows must be equal"),
    "heads of v": ({"v": zeros(2, 4, 7, 8)}, "the heads must be equal"),
    "heads of k": ({"q": zeros(2, 3, 5, 8)}, "the 3 heads of q are no multiple of the 2"),
    "dimensions": ({"q": zeros(4, 5, 8)}, r"q has shape \(4, 5, 8\); pass \(batch, heads, rows"),
    "rank": ({"q": zeros(5, 8)}, "q has 2 dimensions; pass four dimensions"),
    "types": ({"k": zeros(*K, dtype=np.float16)}, "k holds fp16, and the type of q is fp32"),
    "double": ({"q": zeros(*Q, dtype=np.float64)}, "float64, which no kernel computes"),
    "whole numbers": (
        dict.fromkeys("qkv", zeros(2, 2, 7, 8, dtype=np.int8)),
        "no attention turns int8 into int8",
    ),
    "last stride": ({"q": zeros(2, 4, 5, 16)[..., ::2]}, "q has strides .*must lie dense in mem"),
    "upside down": ({"q": zeros(*Q)[:, :, ::-1]}, "q has a negative stride"),
    "bias": ({"bias": zeros(4, 5, 6)}, r"bias has shape \(4, 5, 6\), which does not broadcast to"),
    "bias type": ({"bias": zeros(5, 7, dtype=np.float16)}, "bias holds fp16"),
    "both biases": (
        {"bias": zeros(5, 7), "alibi_slopes": zeros(4)},
        "bias and alibi_slopes exclude each other",
    ),
    "slopes": ({"alibi_slopes": zeros(3)}, r"alibi_slopes has shape \(3,\); pass \(4,\), or"),
    "cap with bias": ({"bias": zeros(5, 7), "logits_soft_cap": 1.0}, "exclude each other"),
    "all dropped": ({"dropout_p": 1.0}, "dropout_p is 1"),
    "dropped below none": ({"dropout_p": -0.1}, "dropout_p is -0.1"),
    "no number": ({"dropout_p": float("nan")}, "dropout_p is nan"),
    "scale": ({"scale": float("nan")}, "scale is nan; pass a finite number"),
    "scale in words": ({"scale": "big"}, "scale is 'big'; pass a number"),
    "cap": ({"logits_soft_cap": -1.0}, "the soft cap is -1"),
    "skipping without sequences": ({"min_seqlen_q": 1}, "in mode batch all have one length"),
    "seed": ({"dropout_p": 0.5, "seed": -1}, "seed is -1; pass an integer of 0"),
    "half a group": ({"cu_seqlens_k": zeros(3, dtype=np.int32)}, "and cu_seqlens_q is not"),
    "lengths": (
        {"seqlens_k": np.array([3, 8], np.int32)},
        r"lengths of k hold 8 at \[1\], more than the 7",
    ),
    "longest": ({"max_seqlen_k": 3}, "max_seqlen_k is 3, and without cu_seqlens_q every sequence"),
    "wide indices": ({"seqlens_k": np.array([3, 3])}, r"int64, which no .*\(indices are int32\)"),
    "batch of a cache": (
        {"cache_batch_idx": np.array([0, 2], np.int32)},
        r"cache_batch_idx\[1\] is 2, and k and v have 2 batches",
    ),
    "no batch of a cache": (
        {"k": zeros(0, 2, 7, 8), "v": zeros(0, 2, 7, 8), "cache_batch_idx": np.zeros(2, np.int32)},
        "cache_batch_idx chooses among the batches of k, which has none",
    ),
    "result type": ({"out_dtype": "fp16"}, "no attention turns fp32 into fp16"),
    "result shape": ({"out": zeros(2, 4, 5, 9)}, r"out has shape .*the result has \(2, 4, 5, 8\)"),
    "a stream": ({"stream": 1}, "tensors are in the CPU's memory; leave stream away"),
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_bad_tensors_are_refused_before_anything_runs(naive_fmha, name):
    how, words = BAD_TENSORS[name]
    call = {"q": zeros(*Q), "k": zeros(*K), "v": zeros(*K), **how}
    with pytest.raises(InvalidArgument, match=words):
        Dispatcher(Registry.load(naive_fmha)).fmha_fwd(**call)


def varlen(**how):
    starts = {"cu_seqlens_q": [0, 3, 5], "cu_seqlens_k": [0, 7, 9]}
    return {name: np.array(values, np.int32) for name, values in {**starts, **how}.items()}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"cu_seqlens_q": [1, 3, 5]}, "first rows of q begin with 1"),
        ({"cu_seqlens_q": [0, 6, 5]}, r"rows of q hold 6 at \[1\], past the end of the 5 rows"),
        ({"cu_seqlens_q": [0, 5, 3]}, r"rows of q hold 3 at \[2\] and 5 before it"),
        ({"cu_seqlens_k": [0, 7, 10]}, r"rows of k hold 10 at \[2\], past the end of the 9 rows"),
        ({"cu_seqlens_k": [0, 9]}, r"cu_seqlens_k has shape \(2,\); pass a vector with 3 rows"),
        ({"cu_seqlens_q": []}, "cu_seqlens_q is empty"),
        ({"max_seqlen_q": 2}, "sequence 0 has 3 rows, and the longest is said to have 2"),
    ],
)
def test_bad_first_rows_are_refused(naive_fmha, how, words):
    disp = Dispatcher(Registry.load(naive_fmha))
    q, k = zeros(4, 5, 8), zeros(2, 9, 8)
    longest = how.pop("max_seqlen_q", None)
    with pytest.raises(InvalidArgument, match=words):
        disp.fmha_fwd(q, k, k, max_seqlen_q=longest, **varlen(**how))
    with pytest.raises(InvalidArgument, match=r"hold 3 at \[1\], more than the 2 rows there is"):
        disp.fmha_fwd(q, k, k, **varlen(), seqlens_k=np.array([7, 3], np.int32))
    with pytest.raises(InvalidArgument, match="cu_seqlens_k is missing"):
        disp.fmha_fwd(q, k, k, cu_seqlens_q=np.array([0, 5], np.int32))
    with pytest.raises(InvalidArgument, match="cu_seqlens_q holds fp32, and an index is int32"):
        disp.fmha_fwd(q, k, k, cu_seqlens_q=zeros(2), cu_seqlens_k=zeros(2))


def test_bad_pages_are_refused(naive_fmha):
    disp = Dispatcher(Registry.load(naive_fmha))
    q, pages = zeros(2, 4, 1, 8), zeros(6, 2, 16, 8)
    lengths = np.array([20, 9], np.int32)
    table = np.array([[0, 6], [1, 9]], np.int32)
    with pytest.raises(InvalidArgument, match=r"page_table\[0, 1\] is page 6, and there are 6"):
        disp.fmha_pagedkv(q, pages, pages, page_table=table, seqlens_k=lengths)
    table[0, 1] = 5  # sequence 1 does not use its page 9
    disp.fmha_pagedkv(q, pages, pages, page_table=table, seqlens_k=lengths)
    with pytest.raises(InvalidArgument, match="page_indptr and last_page_len say where pages are"):
        disp.fmha_batch_prefill(
            q[:, :, 0].swapaxes(0, 1), pages, pages, page_table=table, seqlens_k=lengths,
            cu_seqlens_q=np.arange(3, dtype=np.int32), page_indptr=np.arange(3, dtype=np.int32),
        )  # fmt: skip
    with pytest.raises(InvalidArgument, match="and there are none with pages; leave it away"):
        disp.fmha_splitkv(
            q, pages, pages, page_table=table, seqlens_k=lengths, cache_batch_idx=table[0] % 2
        )
    with pytest.raises(InvalidArgument, match="the lengths of k are missing"):
        disp.fmha_pagedkv(q, pages, pages, page_table=table)
    with pytest.raises(InvalidArgument, match=r"lengths of k hold 33 at \[0\], more than the 32"):
        disp.fmha_pagedkv(q, pages, pages, page_table=table, seqlens_k=lengths + 13)


FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
BAD_SCALES = {
    "one for all blocks": (
        {"q_scale": 2.0, "qscale": "blockscale"},
        r"q_scale is one number, and blockscale has one for each batch, head and 128 rows; "
        r"pass \(2, 4, 2\)",
    ),
    "no scales": ({"qscale": "blockscale"}, r"q_scale is missing, and .*; pass \(2, 4, 2\)"),
    "blocks of too many rows": (
        {"q_scale": zeros(2, 4, 2), "k_scale": zeros(2, 2, 1)},
        r"k_scale has shape \(2, 2, 1\), and blockscale .* pass \(2, 2, 3\)",
    ),
    "heads of q": (
        {"q_scale": zeros(2, 4, 2), "k_scale": zeros(2, 2, 3), "v_scale": zeros(2, 4, 3)},
        r"v_scale has shape \(2, 4, 3\)",
    ),
    "several for a tensor": (
        {"q_scale": zeros(2), "qscale": "pertensor"},
        r"q_scale has shape \(2,\), and pertensor has one number; pass a number",
    ),
    "a scale for nothing": ({"q_scale": 2.0, "qscale": "no"}, "q_scale is given, and qscale is no"),
    "one of a key for nothing": (
        {"k_scale": 2.0, "qscale": "no"},
        "k_scale is given, and qscale is no",
    ),
    "half numbers": ({"q_scale": zeros(1, dtype=np.float16)}, "q_scale holds fp16, and a scale"),
}


@pytest.mark.parametrize("name", BAD_SCALES)
def test_bad_scales_are_refused(naive_fmha, name):
    how, words = BAD_SCALES[name]
    q, k = zeros(2, 4, 130, 8, dtype=FP8), zeros(2, 2, 300, 8, dtype=FP8)
    with pytest.raises(InvalidArgument, match=words):
        Dispatcher(Registry.load(naive_fmha)).fmha_fwd(q, k, k, **how)


def test_nothing_is_scaled_without_scales(naive_fmha):
    disp = Dispatcher(Registry.load(naive_fmha))
    q, empty = np.ones((2, 4, 5, 8), np.float32), zeros(0, 4, 130, 8, dtype=FP8)
    np.testing.assert_array_equal(disp.fmha_fwd(q, q, q, qscale="no"), disp.fmha_fwd(q, q, q))
    # No blocks, no scales: all that is missing is a kernel.
    with pytest.raises(KernelNotFound, match="fp8"):
        disp.fmha_fwd(empty, empty, empty, qscale="blockscale")


def test_scales_of_pages_are_those_of_the_pages(naive_fmha):
    disp = Dispatcher(Registry.load(naive_fmha))
    q, pages = zeros(2, 4, 1, 8, dtype=FP8), zeros(6, 2, 16, 8, dtype=FP8)
    how = {"page_table": np.zeros((2, 2), np.int32), "seqlens_k": np.array([20, 9], np.int32)}
    with pytest.raises(InvalidArgument, match=r"k_scale has shape .2, 2., and kv_b.*pass \(6, 2\)"):
        disp.fmha_pagedkv(q, pages, pages, k_scale=zeros(2, 2), qscale="kv_blockscale", **how)
    with pytest.raises(InvalidArgument, match="each page has a scale, and there are no pages"):
        disp.fmha_fwd(q, q, q, qscale="kv_blockscale")


def test_the_backward_pass_needs_what_the_forward_pass_stored(naive_fmha):
    disp = Dispatcher(Registry.load(naive_fmha))
    q, k, o = zeros(*Q), zeros(*K), zeros(*Q)
    with pytest.raises(InvalidArgument, match="lse is missing: the backward pass reads the LSE"):
        disp.fmha_bwd(o, q, k, k, o, None)
    with pytest.raises(InvalidArgument, match=r"lse has shape .*that of this call has \(2, 4, 5\)"):
        disp.fmha_bwd(o, q, k, k, o, zeros(2, 4, 6))
    with pytest.raises(InvalidArgument, match=r"do has shape .*the call has \(2, 4, 5, 8\)"):
        disp.fmha_bwd(zeros(2, 4, 5, 9), q, k, k, o, zeros(2, 4, 5))
    with pytest.raises(InvalidArgument, match="there is no bias tensor"):
        disp.fmha_bwd(o, q, k, k, o, zeros(2, 4, 5), return_dbias=True)
    with pytest.raises(InvalidArgument, match="out holds no three tensors; pass those for dq, dk"):
        disp.fmha_bwd(o, q, k, k, o, zeros(2, 4, 5), out=(q, k))


def test_bad_caches_are_refused(naive_fmha):
    disp = Dispatcher(Registry.load(naive_fmha))
    cache, new, used = zeros(2, 2, 9, 8), zeros(2, 2, 1, 8), np.array([3, 9], np.int32)
    with pytest.raises(InvalidArgument, match=r"hold 9 at \[1\], with 1 new rows, more than the 9"):
        disp.fmha_appendkv(cache, cache.copy(), new, new, seqlens_k=used)
    used[1] = 0
    with pytest.raises(InvalidArgument, match="the lengths of k are missing: rows are appended"):
        disp.fmha_appendkv(cache, cache.copy(), new, new, seqlens_k=None)
    with pytest.raises(InvalidArgument, match="v shares memory with k"):
        disp.fmha_appendkv(cache, cache, new, new, seqlens_k=used)
    with pytest.raises(InvalidArgument, match="the heads and head dimensions must be equal"):
        disp.fmha_appendkv(cache, cache.copy(), new[:, :1], new, seqlens_k=used)
    short = {"rope": "interleaved", "rotary_cos": zeros(8, 2), "rotary_sin": zeros(8, 2)}
    with pytest.raises(InvalidArgument, match=r"rotary_cos has shape \(8, 2\); pass a row of"):
        disp.fmha_appendkv(cache, cache.copy(), new, new, seqlens_k=used, **short)
    turned = {"rotary_cos": zeros(9, 2), "rotary_sin": zeros(9, 2)}
    with pytest.raises(InvalidArgument, match="are for a rotation, and rope is none; pass rope="):
        disp.fmha_appendkv(cache, cache.copy(), new, new, seqlens_k=used, **turned)
    twice = {"cache_batch_idx": np.ones(2, np.int32)}
    with pytest.raises(InvalidArgument, match=r"idx\[1\] is 1 like one before it, and rows would"):
        disp.fmha_appendkv(cache, cache.copy(), new, new, seqlens_k=used, **twice)
    with pytest.raises(InvalidArgument, match="be equal, or cache_batch_idx choose among those"):
        disp.fmha_appendkv(cache, cache.copy(), new[:1], new[:1], seqlens_k=used[:1])
    cache.flags.writeable = False
    with pytest.raises(InvalidArgument, match="k is read-only"):
        disp.fmha_appendkv(cache, zeros(2, 2, 9, 8), new, new, seqlens_k=used)


def test_outputs_must_not_be_inputs(naive_fmha):
    disp = Dispatcher(Registry.load(naive_fmha))
    q, k = zeros(*Q), zeros(*K)
    with pytest.raises(InvalidArgument, match="o shares memory with q"):
        disp.fmha_fwd(q, k, k, out=q)
    read_only = zeros(*Q)
    read_only.flags.writeable = False
    with pytest.raises(InvalidArgument, match="out is read-only"):
        disp.fmha_fwd(q, k, k, out=read_only)


def test_only_calls_can_be_prepared(dispatcher):
    with pytest.raises(InvalidArgument, match=r"cannot prepare 'fmha_fw' .did you mean 'fmha_fwd'"):
        dispatcher.prepare("fmha_fw")


def test_arguments_are_those_of_the_signature(dispatcher):
    q = zeros(2, 4, 5, 8)
    with pytest.raises(TypeError, match=r"fmha_fwd\(\): got an unexpected keyword .* 'masks'"):
        dispatcher.fmha_fwd(q, q, q, masks="no")
    with pytest.raises(TypeError, match=r"fmha_fwd\(\): missing a required argument: 'v'"):
        dispatcher.fmha_fwd(q, q)
    with pytest.raises(TypeError, match=r"fmha_pagedkv\(\): missing a required .*'page_table'"):
        dispatcher.fmha_pagedkv(q, q, q)
    with pytest.raises(KernelNotFound):
        dispatcher.fmha_fwd(k=q, v=q, q=q)
    assert "cu_seqlens_q" in inspect.signature(Dispatcher.fmha_fwd).parameters
    assert "attention of ``q``" in Dispatcher.fmha_fwd.__doc__
