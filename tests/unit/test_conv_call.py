"""Convolutions in Python before a kernel runs: problems, and every way to ask for nonsense."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from ckdisp import Dispatcher, GroupedConvProblem, Registry, reference
from ckdisp.codegen.enums import DTYPE
from ckdisp.codegen.errors import InvalidArgument, InvalidKey, KernelNotFound
from ckdisp.codegen.make import make_key
from ckdisp.codegen.rules import check

SHAPES = ((2, 8, 9, 10), (12, 4, 3, 3))


def problem(direction="fwd", input_shape=SHAPES[0], weight_shape=SHAPES[1], **how):
    return GroupedConvProblem(direction, input_shape, weight_shape, **{"groups": 2, **how})


def nhwc(*shape, dtype=np.float32):
    """An array of this shape whose channels lie innermost."""
    stored = np.zeros((shape[0], *shape[2:], shape[1]), dtype)
    return np.moveaxis(stored, -1, 1)


@pytest.fixture
def dispatcher():
    return Dispatcher(Registry())


def test_a_problem_knows_its_sizes():
    p = problem(stride=(2, 1), padding=((0, 1), (2, 1)), dilation=(1, 2))
    assert p.family == "conv.fwd"
    assert (p.input_shape, p.weight_shape) == SHAPES
    # floor((9 + 0 + 1 - 2 - 1) / 2) + 1 and (10 + 2 + 1 - 4 - 1) / 1 + 1
    assert p.output_shape == (2, 12, 4, 9)
    assert p.flops == 2 * 2 * 12 * 4 * 9 * 4 * 3 * 3
    assert p.bytes == 4 * (2 * 8 * 9 * 10 + 12 * 4 * 3 * 3 + 2 * 12 * 4 * 9)
    assert p.to_dict() == {
        "family": "conv.fwd",
        "input_shape": SHAPES[0],
        "weight_shape": SHAPES[1],
        "output_shape": (2, 12, 4, 9),
        "stride": (2, 1),
        "padding": ((0, 1), (2, 1)),
        "dilation": (1, 2),
        "groups": 2,
        "dtype_in": "fp32",
        "dtype_wei": "fp32",
        "dtype_out": "fp32",
        "dtype_acc": "fp32",
        "layout": "nhwgc",
        "k_batch": 1,
    }
    assert "9x10 filter 3x3 stride 2x1 dilation 1x2 pad 0x2:1x1 -> 4x9" in repr(p)


@pytest.mark.parametrize(("rank", "layout"), [(1, "nwgc"), (2, "nhwgc"), (3, "ndhwgc")])
def test_the_rank_is_that_of_the_shapes(rank, layout):
    p = problem(input_shape=(1, 4, *[5] * rank), weight_shape=(6, 2, *[3] * rank))
    assert p.to_dict()["layout"] == layout
    assert p.output_shape == (1, 6, *[3] * rank)


def test_numbers_and_sequences_mean_the_same():
    assert problem(stride=2, padding=1) == problem(stride=(2, 2), padding=((1, 1), (1, 1)))
    assert problem(stride=np.int64(2), padding=np.int64(1)) == problem(stride=2, padding=1)
    assert problem(stride=np.array([2, 2])) == problem(stride=2)
    assert problem(padding=(1, 2)) == problem(padding=[(1, 1), (2, 2)])
    assert hash(problem(stride=2)) == hash(problem(stride=[2, 2]))
    assert problem(stride=2) != problem(stride=1)
    assert problem("fwd") == problem("conv.fwd") != problem("bwd_data")
    assert problem() != SHAPES


@pytest.mark.parametrize(
    ("dtype", "out", "acc"),
    [("bf16", "bf16", "fp32"), ("int8", "int32", "int32"), ("fp8", "fp16", "fp32")],
)
def test_types_that_are_left_out_follow_the_input(dtype, out, acc):
    made = problem(dtype=dtype).to_dict()
    assert made["dtype_wei"] == dtype
    assert (made["dtype_out"], made["dtype_acc"]) == (out, acc)


BAD = {
    "groups that do not divide": (
        {"groups": 3},
        "with 3 groups the 8 channels of the input are not 4 in each",
    ),
    "no groups": ({"groups": 0}, "there are 0 groups; pass 1 or more"),
    "output channels": (
        {"weight_shape": (13, 4, 3, 3)},
        "the 13 channels of the output do not divide into 2 groups",
    ),
    "weights of another rank": (
        {"weight_shape": (12, 4, 3)},
        "one to three spatial dimensions, the same number in both",
    ),
    "no spatial dimension": ({"input_shape": (2, 8), "weight_shape": (12, 4)}, "one to three"),
    "kernel larger than the input": (
        {"weight_shape": (12, 4, 11, 3), "padding": ((0, 1), (0, 0))},
        "spans 11 pixels in height .* more than the 10 of the padded input.* output would be empty",
    ),
    "dilated kernel larger than the input": ({"dilation": (1, 5)}, "spans 11 pixels in width"),
    "no stride": ({"stride": 0}, "stride 0 in height; pass 1 or more"),
    "stride backwards": ({"stride": (1, -1)}, "stride -1 in width"),
    "no dilation": ({"dilation": 0}, "dilation 0 in height"),
    "negative pad": ({"padding": (0, -1)}, "left pad -1 in width; pass 0 or more"),
    "negative right pad": ({"padding": ((0, 0), (0, -2))}, "right pad -2 in width"),
    "negative size": ({"input_shape": (2, 8, -9, 10)}, "input size -9 in height"),
    "negative images": ({"input_shape": (-2, 8, 9, 10)}, "there are -2 images"),
    "no channels": (
        {"input_shape": (2, 0, 9, 10), "weight_shape": (12, 0, 3, 3)},
        "there are 0 input channels in a group",
    ),
    "a filter of no pixel": ({"weight_shape": (12, 4, 0, 3)}, "filter size 0 in height"),
    "too many strides": ({"stride": (1, 1, 1)}, "stride is .* 3 numbers for 2 spatial dimensions"),
    "a pad for one dimension of two": ({"padding": [(1, 1)]}, "padding holds 1 pairs for 2"),
    "three pads": ({"padding": [(1, 1, 1), (1, 1, 1)]}, "holds \\(1, 1, 1\\), which is no pair"),
    "a pair and a number": ({"padding": [(1, 1), 1]}, "padding holds 1, which is no pair"),
    "a number and a pair": ({"padding": [1, (1, 1)]}, "padding holds 1, which is no pair"),
    "padding in words": ({"padding": "same"}, "'same'; pass an integer, or one for each spatial"),
    "bytes": ({"padding": b"ab"}, "padding is b'ab'; pass an integer, or one for each"),
    "pairs of bytes": ({"padding": (b"ab", b"ab")}, "padding must be an integer, not b'ab'"),
    "digits": ({"dilation": "2"}, "dilation is '2'; pass an integer"),
    "a list of digits": ({"dilation": ["2", "2"]}, "dilation must be an integer, not '2'"),
    "digits of groups": ({"groups": "2"}, "groups must be an integer, not '2'"),
    "groups in a list": ({"groups": [2]}, r"groups must be an integer, not \[2\]"),
    "a fraction": ({"stride": 1.5}, "stride is 1.5; pass an integer"),
    "fractions": ({"stride": (1.0, 2.0)}, "stride must be an integer, not 1.0"),
    "not a number": ({"stride": float("nan")}, "stride is nan; pass an integer"),
    "a truth value": ({"stride": True}, "stride is True; pass a number"),
    "truth values of NumPy": (
        {"stride": np.array([True, True])},
        "must be an integer, not np.True_",
    ),
    "true groups": ({"groups": True}, "groups is True; pass a number"),
    "truth in a shape": ({"input_shape": (True, 8, 9, 10)}, "input_shape is True; pass a number"),
    "an array without dimensions": ({"padding": np.array(1.0)}, "padding is array"),
    "more groups than fit": ({"groups": 2**62}, "groups the 8 channels of the input are not"),
    "nothing": ({"dilation": None}, "dilation is None"),
    "more than 64 bits": ({"stride": 2**70}, "does not fit a 64-bit index"),
    "a span that overflows": ({"dilation": 2**62}, "in height overflow 63 bits; pass smaller"),
    "pads that overflow": ({"padding": 2**62}, "in height overflow 63 bits; pass smaller"),
    "bytes that overflow": (
        {"input_shape": (2**40, 2**20, 9, 10), "weight_shape": (2, 2**19, 3, 3)},
        "the bytes of its input overflow",
    ),
    "operations that overflow": (
        {"input_shape": (2**30, 8, 2**10, 2**10), "weight_shape": (2**12, 4, 3, 3)},
        "overflow 63 bits; split it",
    ),
    "no parts": ({"k_batch": -1}, "k_batch is -1; pass 1 or more"),
    "digits of parts": ({"k_batch": "2"}, "k_batch is '2'; pass the number of parts"),
    "a fraction of parts": ({"k_batch": 2.0}, "k_batch is 2.0; pass the number of parts"),
    "true parts": ({"k_batch": True}, "k_batch is True; pass the number of parts"),
    "parts beyond 32 bits": ({"k_batch": 2**40}, "k_batch is 1099511627776; pass the number"),
    "mixed integers": (
        {"dtype_in": "int8", "dtype_wei": "fp16"},
        "integers multiply only integers",
    ),
    "int32 input": ({"dtype": "int32"}, "int32 is a type of results"),
    "integers out of fractions": ({"dtype_out": "int8"}, "the output cannot be int8"),
    "another accumulator": ({"dtype_acc": "fp16"}, "the accumulator of fp32 inputs is fp32"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_problem_that_can_never_work_is_refused(name):
    how, words = BAD[name]
    with pytest.raises(InvalidArgument, match=words):
        problem(**how)


@pytest.mark.parametrize("direction", ["fwd", "bwd_data", "bwd_weight"])
@pytest.mark.parametrize("dtype", [d for d in DTYPE.values if d != "int32"])
def test_problems_have_the_types_that_kernels_of_their_direction_have(direction, dtype):
    """The runtime and the rule of keys agree."""
    key = make_key(f"conv.{direction}", arch="x86-64-v3", dtype="fp32")
    key = replace(key, dtype_in=dtype, dtype_wei=dtype, dtype_out=dtype)
    refused = [r.reason for r in check(key) if r.rule == "gradient_dtype"]
    if refused:
        with pytest.raises(InvalidArgument, match=re.escape(refused[0])):
            problem(direction, dtype=dtype, dtype_out=dtype)
    else:
        assert problem(direction, dtype=dtype).to_dict()["dtype_in"] == dtype


def test_types_are_named_as_in_calls():
    assert problem(dtype=np.float16) == problem(dtype=np.dtype("float16")) == problem(dtype="fp16")
    with pytest.raises(InvalidKey, match=r"unknown dtype <class 'numpy\.float64'>; known: fp32"):
        problem(dtype=np.float64)
    for nothing in (None, 3, b"fp16"):
        with pytest.raises(InvalidKey, match="unknown dtype"):
            problem(dtype=nothing)


def test_unknown_names_are_told():
    with pytest.raises(InvalidKey, match=r"unknown direction 'fwdd'.*did you mean 'fwd'"):
        problem("fwdd")
    with pytest.raises(InvalidKey, match=r"unknown dtype_in 'fp33'.*did you mean 'fp32'"):
        problem(dtype="fp33")


CALLS = {
    "conv_fwd": lambda d, x, w, dy, **how: d.conv_fwd(x, w, **how),
    "conv_bwd_data": lambda d, x, w, dy, **how: d.conv_bwd_data(dy, w, input_shape=x.shape, **how),
    "conv_bwd_weight": lambda d, x, w, dy, **how: d.conv_bwd_weight(
        x, dy, weight_shape=w.shape, **how
    ),
}


def tensors():
    return nhwc(2, 8, 9, 10), nhwc(12, 4, 3, 3), nhwc(2, 12, 7, 8)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_asks_for_a_kernel_of_its_direction(dispatcher, name):
    family = name.replace("conv_", "conv.")
    with pytest.raises(KernelNotFound, match=rf"has no kernel for {family} n=2 g=2 .* generate"):
        CALLS[name](dispatcher, *tensors(), groups=2)


@pytest.mark.parametrize("name", CALLS)
def test_bad_tensors_are_refused_before_anything_runs(dispatcher, name):
    x, w, dy = tensors()
    call = CALLS[name]
    with pytest.raises(InvalidArgument, match=r"has 2 dimensions; pass .N, C, .spatial."):
        call(dispatcher, x[0, 0], w[0, 0], dy[0, 0], groups=2)
    with pytest.raises(InvalidArgument, match="float64, which no kernel computes"):
        call(dispatcher, x.astype(np.float64), w, dy.astype(np.float64), groups=2)
    with pytest.raises(InvalidArgument, match="stride 0 in height"):
        call(dispatcher, x, w, dy, groups=2, stride=0)
    with pytest.raises(InvalidArgument, match="tensors are in the CPU's memory; leave stream away"):
        call(dispatcher, x, w, dy, groups=2, stream=1)


def test_tensors_of_different_ranks_are_refused(dispatcher):
    with pytest.raises(InvalidArgument, match=r"same number of dimensions"):
        dispatcher.conv_fwd(nhwc(2, 8, 9, 10), nhwc(12, 8, 3))


def test_a_gradient_of_another_output_is_refused(dispatcher):
    x, w, _ = tensors()
    wrong = nhwc(2, 12, 7, 7)
    with pytest.raises(InvalidArgument, match=r"dy has shape \(2, 12, 7, 7\).*\(2, 12, 7, 8\)"):
        dispatcher.conv_bwd_data(wrong, w, input_shape=x.shape, groups=2)
    with pytest.raises(InvalidArgument, match=r"dy has shape \(2, 12, 7, 7\).*\(2, 12, 7, 8\)"):
        dispatcher.conv_bwd_weight(x, wrong, weight_shape=w.shape, groups=2)
    with pytest.raises(InvalidArgument, match="input_shape is None; pass a sequence of integers"):
        dispatcher.conv_bwd_data(wrong, w, input_shape=None, groups=2)


def test_an_output_must_fit(dispatcher):
    x, w, _ = tensors()
    good = nhwc(2, 12, 7, 8)
    read_only = nhwc(2, 12, 7, 8)
    read_only.flags.writeable = False
    bad = {
        r"out has shape \(2, 12, 7, 9\), the result has \(2, 12, 7, 8\)": nhwc(2, 12, 7, 9),
        "not dense in channels-last order": np.ascontiguousarray(good),
        "out is read-only": read_only,
    }
    for words, out in bad.items():
        with pytest.raises(InvalidArgument, match=words):
            dispatcher.conv_fwd(x, w, groups=2, out=out)
    with pytest.raises(InvalidArgument, match="out has type fp32 and out_dtype asks for fp16"):
        dispatcher.conv_fwd(x, w, groups=2, out=good, out_dtype="fp16")


def test_a_gradient_of_integers_is_refused_for_what_it_is(dispatcher):
    _, w, dy = (t.astype(np.int8) for t in tensors())
    with pytest.raises(InvalidArgument, match="gradients are fp32, fp16, bf16; only"):
        dispatcher.conv_bwd_data(dy, w, input_shape=SHAPES[0], groups=2)


REFERENCE = {
    "stride": [True, 1.5, "1", (1, 1, 1), (1.0, 1.0), None, 0, np.array(1.0)],
    "dilation": [True, 1.5, "1", b"11", 0],
    "padding": [True, 1.5, "11", (1, 1, 1), ((1, 1, 1), (1, 1)), ((1, 1), 1.5), -1],
    "groups": [True, 2.0, "2", None, 3, 0],
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("what", REFERENCE)
def test_the_reference_refuses_the_same(name, what):
    for value in REFERENCE[what]:
        with pytest.raises(InvalidArgument):
            CALLS[name](reference, *tensors(), **{"groups": 2, what: value})
    for shape in ("2x8", 5, (2, 8, 9.0, 10), (2, 8, 9)):
        with pytest.raises(InvalidArgument):
            reference.conv_bwd_data(tensors()[2], tensors()[1], input_shape=shape, groups=2)
        with pytest.raises(InvalidArgument):
            reference.conv_bwd_weight(tensors()[0], tensors()[2], weight_shape=shape, groups=2)


def test_an_unknown_kernel_is_told(dispatcher):
    x, w, _ = tensors()
    with pytest.raises(KernelNotFound, match="has no kernel named 'conv_x'"):
        dispatcher.conv_fwd(x, w, groups=2, kernel="conv_x")
