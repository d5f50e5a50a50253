"""Attention on the CPU: ckdisp against PyTorch's scaled_dot_product_attention.

Bursts of calls of the two alternate in one process, so that they meet the same clock and noise;
each time is the median of its calls. `ratio` compares the medians, `best` the shortest times, which
other work on the machine disturbs less; above 1 ckdisp is faster. Backward, PyTorch's is its
autograd of the forward pass; decode is one query for each of 8 heads, with the keys in as many
parts as there are threads. One process for each number of threads.

    python benchmarks/fmha_cpu.py [--quick] [--threads 1] [--dtypes fp32,bf16,fp16] [--json]
                                  [--kinds fwd,bwd,decode]
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

KINDS = ("fwd", "bwd", "decode")
FAMILIES = {
    "fwd": ("fwd",),
    "bwd": ("fwd", "bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq"),
    "decode": ("splitkv", "splitkv_combine"),
}
HEADS = 8


@dataclass(frozen=True)
class Shape:
    """One call; ``queries`` 0 are as many as keys."""

    batch: int
    keys: int
    size: int
    causal: bool
    queries: int = 0

    def __str__(self) -> str:
        rows = f"{self.queries}:{self.keys}" if self.queries else str(self.keys)
        return f"B{self.batch} H{HEADS} S{rows} D{self.size}" + (" causal" if self.causal else "")

    def flops(self, kind: str) -> float:
        rows = self.queries or self.keys
        products = 10 if kind == "bwd" else 4
        every = products * self.batch * HEADS * rows * self.keys * self.size
        return every / 2 if self.causal else every


ALL = tuple(
    Shape(batch, keys, size, causal)
    for batch, keys in ((1, 512), (2, 512), (1, 1024), (1, 2048), (1, 4096))
    for size in (64, 128)
    for causal in (False, True)
)
QUICK = tuple(s for s in ALL if s.batch == 1 and s.keys in (512, 1024))
DECODE = tuple(Shape(1, 16384, size, False, queries=1) for size in (64, 128))


def calls_of(shape: Shape, kind: str, dtype: str, disp: Any) -> dict[str, Call]:
    """The two contestants, on the same tensors."""
    import torch

    attend = torch.nn.functional.scaled_dot_product_attention
    element = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    rows = shape.queries or shape.keys
    q, k, v = (
        torch.randn(shape.batch, HEADS, n, shape.size).to(element)
        for n in (rows, shape.keys, shape.keys)
    )
    mask = "top_left" if shape.causal else "no"
    if kind == "decode":
        return {
            "ckdisp": lambda: disp.fmha_splitkv(q, k, v, num_splits=disp.num_threads),
            "torch": lambda: attend(q, k, v),
        }
    if kind == "fwd":
        out = torch.empty_like(q)
        return {
            "ckdisp": lambda: disp.fmha_fwd(q, k, v, mask=mask, out=out),
            "torch": lambda: attend(q, k, v, is_causal=shape.causal),
        }
    o, lse = disp.fmha_fwd(q, k, v, mask=mask, return_lse=True)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    theirs = attend(*leaves, is_causal=shape.causal)
    do = torch.randn_like(o)
    return {
        "ckdisp": lambda: disp.fmha_bwd(do, q, k, v, o, lse, mask=mask),
        "torch": lambda: torch.autograd.grad(theirs, leaves, do, retain_graph=True),
    }


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each problem, in this process."""
    import ckdisp

    rows = []
    for dtype in options.dtypes.split(","):
        for kind in options.kinds.split(","):
            kernels = ckdisp.KernelSet()
            for family in FAMILIES[kind]:
                where = {"dtype": [dtype]}
                kernels |= ckdisp.KernelSet.sweep(f"fmha.{family}", arch="native", where=where)
            disp = ckdisp.Dispatcher(
                kernels.build(progress=False), num_threads=int(options.threads)
            )
            shapes = DECODE if kind == "decode" else QUICK if options.quick else ALL
            rows += [measure_one(shape, kind, dtype, disp, options) for shape in shapes]
    return rows


def measure_one(
    shape: Shape, kind: str, dtype: str, disp: Any, options: argparse.Namespace
) -> dict[str, Any]:
    times = timed(calls_of(shape, kind, dtype, disp), options, disp.num_threads)
    row = {
        "shape": str(shape),
        "kind": kind,
        "dtype": dtype,
        "threads": disp.num_threads,
        "gflops": 1e-6 * shape.flops(kind) / times["ms"]["ckdisp"],
        **times,
    }
    print_row(row)
    return row


def print_row(row: dict[str, Any]) -> None:
    ms = "".join(f"{row['ms'][name]:>10.3f}" for name in ("ckdisp", "torch"))
    print(
        f"{row['shape']:<28}{row['kind']:<8}{row['dtype']:<6}{row['threads']:>3}"
        f"{row['gflops']:>9.1f}{ms}{row['ratio']:>7.2f}{row['best_ratio']:>7.2f}",
        file=sys.stderr,
        flush=True,
    )


def means(key: tuple[str, str, int], members: list[dict[str, Any]]) -> str:
    """Geometric mean and the least of the ratios."""
    kind, dtype, threads = key
    ratios = [row["ratio"] for row in members]
    return (
        f"{f'mean of {len(members)}, least':<28}{kind:<8}{dtype:<6}{threads:>3}"
        f"{statistics.geometric_mean(ratios):>36.2f}{min(ratios):>7.2f}"
    )


def main() -> None:
    options = torch_parser(__doc__, "kinds", KINDS).parse_args()
    if options.worker:
        json.dump(measure(options), sys.stdout)
        return
    print(
        f"{'shape':<28}{'kind':<8}{'dtype':<6}{'thr':>3}{'GFLOP/s':>9}"
        f"{'ckdisp ms':>10}{'torch ms':>10}{'ratio':>7}{'best':>7}",
        file=sys.stderr,
    )
    rows = rows_of(__file__, options, ("dtypes", "kinds", "seconds"))
    print_groups(rows, "kind", means)
    if options.json:
        print_json(rows)


if __name__ == "__main__":
    main()
