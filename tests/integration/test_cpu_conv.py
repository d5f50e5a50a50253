"""Convolution kernels of the CPU, compiled here: values against the float64 reference."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import conv_cases
import cpu_kernels
import numpy as np
import pytest
from conv_check import Case, check_kernel, make_case

import ckdisp
from ckdisp.codegen.ops.conv.cpu_rules import DIRECT_TYPES

pytestmark = pytest.mark.xdist_group("cpu_conv")  # the kernels are compiled once

LEVEL = ckdisp.host_arches()[0]
DIRECTIONS = ("fwd", "bwd_data", "bwd_weight")
LAYOUTS = {1: "nwgc", 2: "nhwgc", 3: "ndhwgc"}
RANKS = (2, 3)  # of fp32
# Other types. The rank is a number to a kernel: each type has one.
OTHERS = (
    *(("bf16", direction, 2) for direction in DIRECTIONS),
    *(("fp16", direction, 1) for direction in DIRECTIONS),
    *((dtype, "fwd", 2) for dtype in ("int8", "fp8")),
)


def declared(direction: str, dtype: str, rank: int) -> ckdisp.KernelSet:
    """Filters of one pixel are plain GEMMs in any rank and type."""
    where = {"dtype": [dtype], "layout": [LAYOUTS[rank]]}
    found = ckdisp.KernelSet.sweep(f"conv.{direction}", arch=LEVEL, where=where)
    if (dtype, rank) == ("fp32", 2) or (dtype, direction) == ("bf16", "fwd"):
        return found
    return found.filter(lambda k: k.specialization == "default")


def all_kernels() -> ckdisp.KernelSet:
    kernels = ckdisp.KernelSet()
    for direction in DIRECTIONS:
        for rank in RANKS:
            kernels |= declared(direction, "fp32", rank)
    for dtype, direction, rank in OTHERS:
        kernels |= declared(direction, dtype, rank)
    return kernels


@pytest.fixture(scope="module")
def dispatchers(kernel_cache: Path) -> list[ckdisp.Dispatcher]:
    """For one thread and for three."""
    registry = cpu_kernels.build(all_kernels(), kernel_cache)
    return [ckdisp.Dispatcher(registry, num_threads=n) for n in (1, 3)]


def test_objects_hold_one_kernel_and_nothing_shared(
    dispatchers: list[ckdisp.Dispatcher], kernel_cache: Path
) -> None:
    compiled = cpu_kernels.without_prebuilt(all_kernels())
    assert {(k.family, k.pipeline) for k in compiled} == {
        (f"conv.{direction}", pipeline)
        for direction in DIRECTIONS
        for pipeline in ("packed", "direct")
    }
    cpu_kernels.check_objects(compiled, kernel_cache)


def random_case(draw: random.Random, rank: int, dtype: str) -> Case:
    small = draw.randint(0, 3) == 0  # what pipeline direct is for
    groups = draw.randint(1, 70) if small else draw.choice([1, 1, 2, 3])
    c, k = draw.randint(1, 40), draw.randint(1, 50)
    if small:
        c = k = draw.choice([1, 1, 2, 4, 8, 16, 24, 32])
    if draw.randint(0, 5) == 0:  # what filter1x1_stride1_pad0 takes
        taps, stride, pads = [1] * rank, [1] * rank, [(0, 0)] * rank
    else:
        taps = [draw.randint(1, 4) for _ in range(rank)]
        stride = [draw.randint(1, 3) for _ in range(rank)]
        pads = [(draw.randint(0, 3), draw.randint(0, 3)) for _ in range(rank)]
    dilation = [draw.randint(1, 3) for _ in range(rank)]
    spatial = [
        max(1, d * (t - 1) + 1 - low - high) + draw.randint(0, 20 if rank < 3 else 9)
        for d, t, (low, high) in zip(dilation, taps, pads, strict=True)
    ]
    x = (draw.randint(0, 2), groups * c, *spatial)
    how = {"stride": stride, "padding": pads, "dilation": dilation, "groups": groups}
    return make_case(x, (groups * k, c, *taps), dtype, draw.randint(0, 99), **how)


def check(
    dispatchers: list[ckdisp.Dispatcher], case: Case, direction: str, dtype: str = "fp32"
) -> set[str]:
    """Every kernel that supports the case agrees with the reference; returns their pipelines."""
    used = set()
    for dispatcher in dispatchers:
        for candidate in dispatcher.explain(case.problem(direction, dtype)):
            if candidate.supported:
                check_kernel(dispatcher, candidate.kernel.name, case, direction, dtype)
                used.add(candidate.kernel.key.pipeline)
    assert used, "no kernel supports the case"
    return used


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("rank", RANKS)
def test_random_convolutions(
    dispatchers: list[ckdisp.Dispatcher], rank: int, direction: str
) -> None:
    draw = random.Random(rank)
    used: set[str] = set()
    for _ in range(40):
        used |= check(dispatchers, random_case(draw, rank, "fp32"), direction)
    assert used == {"packed", "direct"}


@pytest.mark.parametrize(("dtype", "direction", "rank"), OTHERS)
def test_random_convolutions_of_other_types(
    dispatchers: list[ckdisp.Dispatcher], dtype: str, direction: str, rank: int
) -> None:
    draw = random.Random(7)
    used: set[str] = set()
    for _ in range(25):
        used |= check(dispatchers, random_case(draw, rank, dtype), direction, dtype)
    assert used == ({"packed", "direct"} if dtype in DIRECT_TYPES else {"packed"})


EDGES = {
    "one pixel": ((2, 3, 1, 1), (4, 3, 1, 1), {}),
    "one pixel, every second": ((2, 64, 1, 1), (64, 64, 3, 3), {"stride": 2, "padding": 1}),
    "one column, every second": ((2, 64, 5, 1), (64, 64, 3, 3), {"stride": 2, "padding": 1}),
    "one column of a volume": ((2, 9, 3, 4, 1), (17, 9, 3, 3, 3), {"stride": 2, "padding": 1}),
    "the filter is the image": ((2, 5, 6, 7), (3, 5, 6, 7), {}),
    "all of it padding": ((1, 2, 1, 1), (3, 2, 3, 3), {"padding": 1}),
    "a stride beyond the filter": ((2, 4, 11, 11), (6, 4, 2, 2), {"stride": 5}),
    "a stride beyond the image": ((2, 4, 5, 5), (6, 4, 2, 2), {"stride": 9}),
    "stride and dilation share a factor": (
        (1, 3, 17, 16),
        (5, 3, 3, 2),
        {"stride": 4, "dilation": (6, 2)},
    ),
    "one channel": ((2, 1, 9, 9), (1, 1, 3, 3), {"padding": 1}),
    "seventeen channels": ((1, 17, 8, 8), (17, 17, 3, 3), {"padding": 1}),
    "deep": ((1, 300, 4, 4), (70, 300, 3, 3), {"padding": 1}),
    "groups of four": ((2, 64, 9, 19), (64, 4, 3, 3), {"padding": 1, "groups": 16}),
    "groups of a vector": ((1, 48, 5, 40), (48, 16, 3, 5), {"padding": 2, "groups": 3}),
    "groups of eight": ((2, 40, 9, 28), (40, 8, 3, 4), {"padding": 1, "groups": 5}),
    "groups of two vectors": ((1, 96, 6, 21), (96, 32, 3, 3), {"padding": 1, "groups": 3}),
    "depthwise, wide filters": ((2, 19, 9, 30), (19, 1, 5, 7), {"padding": 3, "groups": 19}),
    "depthwise, long lines": ((1, 19, 4, 203), (19, 1, 3, 3), {"padding": 1, "groups": 19}),
    "depthwise, long lines, five taps": (
        (1, 8, 3, 230),
        (8, 1, 2, 5),
        {"padding": ((0, 1), (4, 1)), "groups": 8},
    ),
    "depthwise, every second pixel": (
        (2, 33, 17, 31),
        (33, 1, 3, 3),
        {"padding": 1, "groups": 33, "stride": 2},
    ),
    "depthwise, taps apart": (
        (1, 8, 14, 40),
        (8, 1, 3, 5),
        {"padding": 4, "groups": 8, "dilation": (5, 3), "stride": (1, 2)},
    ),
    "depthwise volumes": ((2, 8, 5, 6, 17), (8, 1, 3, 3, 3), {"padding": 1, "groups": 8}),
    "groups that grow": ((2, 64, 9, 9), (128, 4, 3, 3), {"padding": 1, "groups": 16}),
    **{
        f"lines of {width} pixels": ((3, 19, 7, width), (40, 19, 3, 3), {"padding": 1})
        for width in range(1, 10)
    },
    "short lines of groups": ((3, 96, 5, 7), (96, 32, 3, 3), {"padding": 1, "groups": 3}),
    "short lines, taps apart": (
        (2, 17, 9, 7),
        (35, 17, 3, 3),
        {"padding": ((2, 0), (1, 4)), "dilation": (2, 3), "stride": (1, 2)},
    ),
    "short lines of volumes": (
        (2, 34, 4, 5, 3),
        (66, 17, 3, 2, 3),
        {"padding": ((1, 0), (0, 1), (2, 1)), "groups": 2},
    ),
    "no image": ((0, 4, 9, 9), (8, 4, 3, 3), {}),
    "the first layer of ResNet": ((1, 3, 40, 40), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", EDGES)
def test_edges(dispatchers: list[ckdisp.Dispatcher], name: str, direction: str) -> None:
    x, w, how = EDGES[name]
    check(dispatchers, make_case(x, w, **how), direction)


def check_all(
    dispatchers: list[ckdisp.Dispatcher],
    cases: Iterator[conv_cases.Case],
    direction: str,
    dtype: str = "fp32",
) -> None:
    """Every kernel that supports a case gives the exact result of the reference."""
    pipelines = set()
    for number, case in enumerate(cases):
        taken, failed = conv_cases.wrong(dispatchers, case, direction, dtype, number)
        assert taken and not failed, f"{direction} {case}: {failed or 'no kernel takes it'}"
        pipelines.update(ckdisp.parse_name(name).pipeline for name in taken)
    assert pipelines == {"packed", "direct"}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_short_line(dispatchers: list[ckdisp.Dispatcher], direction: str) -> None:
    cases = conv_cases.with_channels(conv_cases.every_axis(1, seed=1), seed=1)
    check_all(dispatchers, cases, direction, "fp16")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("rank", RANKS)
def test_every_side_of_small_images(
    dispatchers: list[ckdisp.Dispatcher], rank: int, direction: str
) -> None:
    cases = conv_cases.with_channels(conv_cases.every_axis(rank, seed=rank), seed=rank)
    check_all(dispatchers, cases, direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("rank", RANKS)
def test_every_tiny_image(dispatchers: list[ckdisp.Dispatcher], rank: int, direction: str) -> None:
    cases = conv_cases.with_channels(conv_cases.core(rank), seed=rank)
    check_all(dispatchers, cases, direction)


def test_pixels_that_no_filter_reaches_have_no_gradient(
    dispatchers: list[ckdisp.Dispatcher],
) -> None:
    case = make_case((1, 8, 9, 9), (8, 8, 1, 1), stride=4)
    gradient = case.run(dispatchers[0], "bwd_data")
    assert np.count_nonzero(gradient[..., 1:4, :]) == 0 and np.count_nonzero(gradient) > 0


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_kernels_are_chosen_by_what_they_are_for(
    dispatchers: list[ckdisp.Dispatcher], direction: str
) -> None:
    dense = make_case((4, 64, 28, 28), (64, 64, 3, 3), padding=1)
    depthwise = make_case((4, 64, 28, 28), (64, 1, 3, 3), padding=1, groups=64)
    small = make_case((4, 64, 28, 28), (64, 4, 3, 3), padding=1, groups=16)
    short_lines = make_case((4, 128, 7, 7), (128, 32, 3, 3), padding=1, groups=4)
    chosen = [
        dispatchers[0].select(case.problem(direction, "fp32")).key
        for case in (dense, depthwise, small, short_lines)
    ]
    assert [key.pipeline for key in chosen] == ["packed", "direct", "direct", "packed"]
    assert chosen[0].specialization == "default"


def test_tensors_of_pytorch_keep_their_order(dispatchers: list[ckdisp.Dispatcher]) -> None:
    torch = pytest.importorskip("torch", reason="tensors of PyTorch go in")
    x, w = torch.randn(2, 8, 9, 10), torch.randn(12, 4, 3, 3)
    expected = torch.conv2d(x, w, padding=1, groups=2)
    for order in (torch.contiguous_format, torch.channels_last):
        result = dispatchers[0].conv_fwd(
            x.to(memory_format=order), w.to(memory_format=order), padding=1, groups=2
        )
        assert isinstance(result, torch.Tensor)
        assert result.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    out = torch.empty_like(expected, memory_format=torch.channels_last)
    assert dispatchers[0].conv_fwd(x, w, padding=1, groups=2, out=out) is out
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
