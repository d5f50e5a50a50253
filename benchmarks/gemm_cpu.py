"""GEMM on the CPU: ckdisp against NumPy and PyTorch.

Bursts of calls of the three alternate in one process, so that they meet the same clock and noise;
each time is the median of its calls. `ratio` compares the medians with the faster of the others,
`best` the shortest times, which other work on the machine disturbs less. One process for each
number of threads. PyTorch is optional.

    python benchmarks/gemm_cpu.py [--quick] [--threads 1,2] [--dtypes fp32,bf16] [--json]
"""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any

from turns import Call, interleaved, ratio
from workers import parser, print_json, rows_of

SQUARE = (256, 384, 512, 768, 1024, 1536, 2048)
FEW_ROWS = (1, 4, 16)
WEIGHTS = 4096  # N and K of the problems with few rows


def shapes(quick: bool) -> list[tuple[int, int, int, str]]:
    """(M, N, K, layout): squares, then few rows times a weight matrix stored either way."""
    squares = (256, 512, 1024) if quick else SQUARE
    n = WEIGHTS // 4 if quick else WEIGHTS
    few = [(m, n, n, layout) for layout in ("rcr", "rrr") for m in FEW_ROWS]
    return [(s, s, s, "rrr") for s in squares] + few


def numpy_calls(m: int, n: int, k: int, dtype: str, layout: str, disp: Any) -> dict[str, Call]:
    """Calls over NumPy arrays; NumPy itself only in fp32, the only type it multiplies fast."""
    import numpy as np

    from ckdisp.codegen.ops.facts import default_output
    from ckdisp.tensors import numpy_dtype

    element = numpy_dtype(dtype)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k), np.float32).astype(element)
    b = rng.standard_normal((k, n), np.float32).astype(element)
    b = np.asfortranarray(b) if layout[1] == "c" else b
    out, other = (np.empty((m, n), numpy_dtype(default_output(dtype))) for _ in range(2))
    calls: dict[str, Call] = {"ckdisp": lambda: disp.gemm(a, b, out=out)}
    if dtype == "fp32":
        calls["numpy"] = lambda: np.matmul(a, b, out=other)
    return calls


def torch_call(m: int, n: int, k: int, dtype: str, layout: str) -> Call | None:
    try:
        import torch
    except ImportError:
        return None
    element = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}.get(dtype)
    if element is None:  # PyTorch's results have other types
        return None
    a = torch.randn(m, k).to(element)
    b = torch.randn(k, n).to(element)
    b = b.t().contiguous().t() if layout[1] == "c" else b
    out = torch.empty(m, n, dtype=element)
    return lambda: torch.mm(a, b, out=out)


def measure(threads: int, dtypes: list[str], quick: bool) -> list[dict[str, Any]]:
    """One row for each problem, in this process."""
    import ckdisp

    disp = ckdisp.Dispatcher(ckdisp.Registry.prebuilt(), num_threads=threads)
    rows = []
    for dtype in dtypes:
        for m, n, k, layout in shapes(quick):
            calls = numpy_calls(m, n, k, dtype, layout, disp)
            torch_mm = torch_call(m, n, k, dtype, layout)
            if torch_mm is not None:
                calls["torch"] = torch_mm
            taken = interleaved(calls, 0.2 if quick else 1.0, threads)
            ms = {name: statistics.median(t) for name, t in taken.items()}
            row: dict[str, Any] = {"m": m, "n": n, "k": k, "layout": layout, "dtype": dtype}
            row |= {"threads": threads, "arch": disp.arches[0], "ms": ms}
            row["gflops"] = 2e-6 * m * n * k / ms["ckdisp"]
            row["ratio"] = ratio(ms)
            row["best_ratio"] = ratio({name: min(t) for name, t in taken.items()})
            rows.append(row)
            print_row(row)
    return rows


def print_row(row: dict[str, Any]) -> None:
    shape = f"{row['m']}x{row['n']}x{row['k']}"
    ms = [f"{row['ms'][name]:>10.3f}" if name in row["ms"] else f"{'-':>10}" for name in NAMES]
    ratios = [f"{r:>7.2f}" if r else f"{'-':>7}" for r in (row["ratio"], row["best_ratio"])]
    print(
        f"{shape:<16}{row['layout']:<8}{row['dtype']:<6}{row['threads']:>7}{row['gflops']:>9.1f}"
        f"{''.join(ms)}{''.join(ratios)}",
        file=sys.stderr,
        flush=True,
    )


NAMES = ("ckdisp", "numpy", "torch")


def main() -> None:
    options = parser(__doc__, quick="fewer and smaller problems", threads="1,2").parse_args()
    if options.worker:
        rows = measure(int(options.threads), options.dtypes.split(","), options.quick)
        json.dump(rows, sys.stdout)
        return
    print(
        f"{'M x N x K':<16}{'layout':<8}{'dtype':<6}{'threads':>7}{'GFLOP/s':>9}"
        + "".join(f"{name + ' ms':>10}" for name in NAMES)
        + f"{'ratio':>7}{'best':>7}",
        file=sys.stderr,
    )
    rows = rows_of(__file__, options, ("dtypes",))
    if options.json:
        print_json(rows)


if __name__ == "__main__":
    main()
