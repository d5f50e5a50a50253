"""GEMM on an NVIDIA GPU: ckdisp against cuBLAS, by PyTorch.

Random data; for each shape as many sets of operands as take several times the second-level cache,
used in turn; the calls of a measurement in one CUDA graph, so that the host costs nothing; the
median of its replays. Clocks are printed behind the table. Needs PyTorch and a device of sm_90a.

    python benchmarks/gemm_gpu.py [--dtypes bf16,fp8] [--library libmine.so] [--quick]
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
from collections.abc import Callable
from typing import Any

import torch

import ckdisp

SHAPES = (
    (8192, 8192, 8192),
    (4096, 4096, 4096),
    (2048, 2048, 2048),
    (4096, 6144, 4096),
    (4096, 28672, 4096),
    (4096, 4096, 14336),
    (512, 4096, 4096),
    (128, 28672, 4096),
    *((m, n, k) for m in (1, 16, 64) for n, k in ((6144, 4096), (28672, 4096), (4096, 14336))),
)
_CACHE_BYTES = 60e6
_SECONDS = 3e-3  # of one replay, about
_REPLAYS = 5
_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}

Call = Callable[[int], object]


def calls_of(
    disp: ckdisp.Dispatcher, dtype: str, shape: tuple[int, int, int]
) -> tuple[int, dict[str, Call]]:
    """How many sets of operands there are, and the calls, each of the number of a set."""
    m, n, k = shape
    element = _TYPES[dtype]
    result = torch.bfloat16 if dtype == "fp8" else element
    size = (m * k + n * k) * element.itemsize + m * n * result.itemsize
    sets = max(2, math.ceil(4 * _CACHE_BYTES / size))
    a = [torch.randn(m, k, device="cuda").to(element) for _ in range(sets)]
    b = [torch.randn(n, k, device="cuda").to(element).t() for _ in range(sets)]
    c, other = ([torch.empty(m, n, device="cuda", dtype=result) for _ in a] for _ in range(2))
    one = torch.ones((), device="cuda")

    def cublas(i: int) -> object:
        if dtype == "fp8":
            return torch._scaled_mm(
                a[i], b[i], one, one, out_dtype=result, use_fast_accum=True, out=other[i]
            )
        return torch.mm(a[i], b[i], out=other[i])

    return sets, {"ckdisp": lambda i: disp.gemm(a[i], b[i], out=c[i]), "cublas": cublas}


def microseconds(call: Call, sets: int, count: int) -> float:
    """The time of one call among ``count``, which one graph holds."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(2):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(count):
            call(i % sets)
    times = []
    for _ in range(_REPLAYS + 1):  # the first warms up
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) * 1e3 / count)
    return statistics.median(times[1:])


def kernel_of(disp: ckdisp.Dispatcher, dtype: str, shape: tuple[int, int, int]) -> str:
    m, n, k = shape
    out = "bf16" if dtype == "fp8" else dtype
    problem = ckdisp.GemmProblem(m, n, k, dtype=dtype, dtype_c=out, layout="rcr")
    key: Any = ckdisp.parse_name(disp.select(problem, device=_device()).name)
    return f"{key.pipeline} {'x'.join(map(str, key.tile))} {key.epilogue}"


def _device() -> int:
    return next(d.number for d in ckdisp.devices() if d.kind == "cuda")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dtypes", default="bf16,fp8")
    parser.add_argument("--library", help="a built kernel library; default: built now")
    parser.add_argument("--quick", action="store_true", help="a few shapes")
    options = parser.parse_args()
    dtypes = options.dtypes.split(",")
    if options.library:
        registry = ckdisp.Registry.load(options.library)
    else:
        kernels = ckdisp.KernelSet.sweep(
            "gemm.standard",
            arch="sm_90a",
            where={"dtype": dtypes, "layout": ["rcr"], "dtype_c": ["bf16", "fp16"]},
        )
        registry = kernels.filter(
            lambda k: k.dtype_c == ("bf16" if k.dtype_a == "fp8" else k.dtype_a)
        ).build()
    disp = ckdisp.Dispatcher(registry)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for dtype in dtypes:
        ratios = []
        for shape in SHAPES[1::4] if options.quick else SHAPES:
            m, n, k = shape
            sets, calls = calls_of(disp, dtype, shape)
            once = 2 * m * n * k / 6e14 + (m * k + n * k) / 2e12
            count = max(sets, min(200, int(_SECONDS / once) + 1))
            times = {name: microseconds(call, sets, count) for name, call in calls.items()}
            ratios.append(times["cublas"] / times["ckdisp"])
            print(
                f"{dtype} {m}x{n}x{k}: ckdisp {times['ckdisp']:.1f} us, cuBLAS "
                f"{times['cublas']:.1f} us, ratio {ratios[-1]:.2f}, "
                f"{2 * m * n * k / times['ckdisp'] / 1e6:.0f} TFLOP/s, "
                f"{kernel_of(disp, dtype, shape)}",
                flush=True,
            )
        print(f"{dtype}: geometric mean {statistics.geometric_mean(ratios):.3f}", flush=True)
    query = "nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw --format=csv,noheader"
    print(subprocess.run(query.split(), capture_output=True, text=True, check=False).stdout)


if __name__ == "__main__":
    main()
