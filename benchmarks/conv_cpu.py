"""Grouped convolution on the CPU: ckdisp against PyTorch, both on channels-last tensors.

Bursts of calls of the two alternate in one process, so that they meet the same clock and noise;
each time is the median of its calls. `ratio` compares the medians, `best` the shortest times, which
other work on the machine disturbs less; above 1 ckdisp is faster. One process for each number of
threads.

    python benchmarks/conv_cpu.py [--quick] [--threads 1] [--dtypes fp32,bf16,fp16] [--json]
                                  [--directions fwd,bwd_data,bwd_weight]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from typing import Any

from turns import Call
from workers import print_groups, print_json, rows_of, timed, torch_parser

DIRECTIONS = ("fwd", "bwd_data", "bwd_weight")


@dataclass(frozen=True)
class Shape:
    """One layer: channels of all groups, sizes; padded so that stride 1 keeps the size."""

    n: int
    c: int
    k: int
    size: int
    filter: int
    stride: int = 1
    groups: int = 1
    rank: int = 2

    def __str__(self) -> str:
        group = f" g{self.groups}" if self.groups > 1 else ""
        stride = f"/{self.stride}" if self.stride > 1 else ""
        return f"{self.n}x{self.size}^{self.rank} {self.c}-{self.k} {self.filter}^{self.rank}" + (
            stride + group
        )

    @property
    def motion(self) -> dict[str, Any]:
        padding = self.filter // 2
        return {"stride": self.stride, "padding": padding, "groups": self.groups}


# ResNet-50's blocks at N = 4 and 32, ResNeXt-50 32x4d's, depthwise ones, a network on volumes.
SHAPES = (
    *(Shape(n, 64, 64, 56, 3) for n in (4, 32)),
    *(Shape(n, 64, 256, 56, 1) for n in (4, 32)),
    Shape(4, 256, 64, 56, 1),
    *(Shape(n, 128, 128, 28, 3) for n in (4, 32)),
    Shape(4, 128, 128, 56, 3, stride=2),
    *(Shape(n, 256, 256, 14, 3) for n in (4, 32)),
    *(Shape(n, 512, 512, 7, 3) for n in (4, 32)),
    Shape(4, 512, 2048, 7, 1),
    *(
        Shape(4, c, c, size, 3, groups=32)
        for c, size in ((128, 56), (256, 28), (512, 14), (1024, 7))
    ),
    *(Shape(4, c, c, size, 3, groups=c) for c, size in ((32, 112), (144, 56), (576, 14))),
    Shape(2, 32, 32, 28, 3, rank=3),
)
QUICK = (SHAPES[0], SHAPES[2], SHAPES[8], SHAPES[14], SHAPES[17])


def calls_of(shape: Shape, direction: str, dtype: str, disp: Any) -> dict[str, Call]:
    """The two contestants, on the same tensors."""
    import torch

    element = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    order = torch.channels_last if shape.rank == 2 else torch.channels_last_3d

    def tensor(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes).to(element).to(memory_format=order)

    x = tensor(shape.n, shape.c, *[shape.size] * shape.rank)
    w = tensor(shape.k, shape.c // shape.groups, *[shape.filter] * shape.rank)
    move = shape.motion
    convolve = torch.conv2d if shape.rank == 2 else torch.conv3d
    y = convolve(x, w, None, **move)
    dy = torch.randn(y.shape).to(element).to(memory_format=order)
    if direction == "fwd":
        out = torch.empty_like(dy, memory_format=order)
        return {
            "ckdisp": lambda: disp.conv_fwd(x, w, out=out, **move),
            "torch": lambda: convolve(x, w, None, **move),
        }
    each = [[move[name]] * shape.rank for name in ("stride", "padding")]
    rest = (*each, [1] * shape.rank, False, [0] * shape.rank, shape.groups)
    mask = [direction == "bwd_data", direction == "bwd_weight", False]
    backward = torch.ops.aten.convolution_backward
    theirs: Call = lambda: backward(dy, x, w, None, *rest, mask)  # noqa: E731
    if direction == "bwd_data":
        return {
            "ckdisp": lambda: disp.conv_bwd_data(dy, w, input_shape=x.shape, **move),
            "torch": theirs,
        }
    return {
        "ckdisp": lambda: disp.conv_bwd_weight(x, dy, weight_shape=w.shape, **move),
        "torch": theirs,
    }


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each problem, in this process."""
    import ckdisp

    threads = int(options.threads)
    rows = []
    for dtype in options.dtypes.split(","):
        for direction in options.directions.split(","):
            kernels = ckdisp.KernelSet()
            for layout in ("nhwgc", "ndhwgc"):
                where = {"dtype": [dtype], "layout": [layout]}
                kernels |= ckdisp.KernelSet.sweep(f"conv.{direction}", arch="native", where=where)
            disp = ckdisp.Dispatcher(kernels.build(progress=False), num_threads=threads)
            rows += [
                measure_one(shape, direction, dtype, disp, options)
                for shape in (QUICK if options.quick else SHAPES)
            ]
    return rows


def measure_one(
    shape: Shape, direction: str, dtype: str, disp: Any, options: argparse.Namespace
) -> dict[str, Any]:
    import ckdisp

    times = timed(calls_of(shape, direction, dtype, disp), options, disp.num_threads)
    problem = ckdisp.GroupedConvProblem(
        direction,
        (shape.n, shape.c, *[shape.size] * shape.rank),
        (shape.k, shape.c // shape.groups, *[shape.filter] * shape.rank),
        dtype=dtype,
        **shape.motion,
    )
    key = disp.select(problem).key
    row = {
        "shape": str(shape),
        "direction": direction,
        "dtype": dtype,
        "threads": disp.num_threads,
        "kernel": key.pipeline if key.specialization == "default" else "packed 1x1",
        "gflops": 1e-6 * problem.flops / times["ms"]["ckdisp"],
        **times,
    }
    print_row(row)
    return row


def print_row(row: dict[str, Any]) -> None:
    ms = "".join(f"{row['ms'][name]:>10.3f}" for name in ("ckdisp", "torch"))
    print(
        f"{row['shape']:<28}{row['direction']:<11}{row['dtype']:<6}{row['threads']:>3} "
        f"{row['kernel']:<11}{row['gflops']:>8.1f}{ms}{row['ratio']:>7.2f}{row['best_ratio']:>7.2f}",
        file=sys.stderr,
        flush=True,
    )


def means(key: tuple[str, str, int], members: list[dict[str, Any]]) -> str:
    """Geometric means of the ratios."""
    direction, dtype, threads = key
    ratio, best = (
        statistics.geometric_mean(row[name] for row in members) for name in ("ratio", "best_ratio")
    )
    return (
        f"{f'mean of {len(members)}':<28}{direction:<11}{dtype:<6}{threads:>3}"
        f"{ratio:>47.2f}{best:>7.2f}"
    )


def main() -> None:
    options = torch_parser(__doc__, "directions", DIRECTIONS).parse_args()
    if options.worker:
        json.dump(measure(options), sys.stdout)
        return
    print(
        f"{'shape':<28}{'direction':<11}{'dtype':<6}{'thr':>3} {'kernel':<11}{'GFLOP/s':>8}"
        f"{'ckdisp ms':>10}{'torch ms':>10}{'ratio':>7}{'best':>7}",
        file=sys.stderr,
    )
    rows = rows_of(__file__, options, ("dtypes", "directions", "seconds"))
    print_groups(rows, "direction", means)
    if options.json:
        print_json(rows)


if __name__ == "__main__":
    main()
