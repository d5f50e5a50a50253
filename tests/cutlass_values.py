"""GEMM of the cutlass provider on a device of sm_90a against float64, for the tests that have one.

python tests/cutlass_values.py LIBRARY
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import torch

import ckdisp

_TYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp8": torch.float8_e4m3fn,
    "bf8": torch.float8_e5m2,
}
# Half a unit of the result's last place; fast sums of 8-bit floats keep about 14 bits.
_TOLERANCE = {"bf16": 4e-3, "fp16": 5e-4, "fp32": 1e-5}
_FAST_TOLERANCE = 4e-3
# Around the edges of tiles, few rows, odd ones, more tiles than multiprocessors.
SIZES = (
    (1, 1, 1),
    (1, 64, 16),
    (3, 5, 7),
    (16, 6144, 512),
    (64, 200, 1000),
    (127, 129, 65),
    (128, 256, 64),
    (129, 264, 72),
    (200, 1024, 2048),
    (1, 2048, 4096),
    (48, 4104, 640),
    (65, 8, 8),
    (300, 520, 1032),
    (512, 511, 513),
    (1000, 768, 512),
    (1024, 1, 128),
    (2048, 1920, 256),
    (40, 24, 0),
    (0, 8, 8),
)


def matrix(rows: int, columns: int, order: str, dtype: str, pad: int) -> torch.Tensor:
    """Random, in memory that holds NaN between the lines; ``pad`` elements are added to each."""
    lines, line = (rows, columns) if order == "r" else (columns, rows)
    whole = torch.full((lines, line + pad), float("nan"), device="cuda")
    whole[:, :line] = torch.randn(lines, line, device="cuda")
    view = whole.to(_TYPES[dtype])[:, :line]
    return view if order == "r" else view.t()


def check(
    disp: ckdisp.Dispatcher, a: torch.Tensor, b: torch.Tensor, dtype_c: str, scale: float, pad: int
) -> tuple[float, bool]:
    """The relative error of a product, and whether the memory behind its lines stayed as it was."""
    m, n = a.shape[0], b.shape[1]
    whole = torch.full((m, n + pad), 77.0, device="cuda", dtype=_TYPES[dtype_c])
    out = whole[:, :n]
    out.fill_(float("nan"))
    assert disp.gemm(a, b, out=out, scale=scale) is out
    torch.cuda.synchronize()
    want = scale * (a.double() @ b.double())
    error = float((out.double() - want).norm() / max(float(want.norm()), 1e-30))
    return (error if m * n else 0.0), bool((whole[:, n:] == 77).all())


def signatures(registry: ckdisp.Registry) -> Iterator[tuple[str, str, str, str, bool]]:
    """(A, B, C, layout, fast) of the kernels for sm_90a."""
    found = {
        (k.dtype_a, k.dtype_b, k.dtype_c, k.layout, k.dtype_a in ("fp8", "bf8"))
        for k in (kernel.key for kernel in registry)
        if k.arch == "sm_90a"
    }
    yield from sorted(found)


def failures(
    registry: ckdisp.Registry, sizes: tuple[tuple[int, int, int], ...] = SIZES
) -> list[str]:
    """What is wrong with the results of all signatures, sizes and strides; prints a summary."""
    disp = ckdisp.Dispatcher(registry)
    device = next(d.number for d in ckdisp.devices() if d.arch == "sm_90a")
    wrong, used, worst = [], Counter[str](), Counter[str]()
    torch.manual_seed(0)
    for dtype_a, dtype_b, dtype_c, layout, fast in signatures(registry):
        for m, n, k in sizes:
            for pad, scale in ((0, 1.0), (16, -0.5), (3, 1.0)):
                a = matrix(m, k, layout[0], dtype_a, pad)
                b = matrix(k, n, layout[1], dtype_b, pad)
                error, kept = check(disp, a, b, dtype_c, scale, pad)
                limit = max(_TOLERANCE[dtype_c], _FAST_TOLERANCE if fast else 0.0)
                what = f"{dtype_a} x {dtype_b} -> {dtype_c} {layout} {m}x{n}x{k} pad {pad}"
                worst[f"{dtype_a} {dtype_b} {dtype_c}"] = max(
                    worst[f"{dtype_a} {dtype_b} {dtype_c}"], error
                )
                problem = disp.problem(a, b, out_dtype=dtype_c)
                used[disp.select(problem, device=device).name.partition("_r_t")[2]] += 1
                if not error <= limit or not kept:
                    wrong.append(f"{what}: error {error:.2e}, limit {limit:.0e}, kept {kept}")
    for name, error in sorted(worst.items()):
        print(f"worst relative error {name}: {error:.2e}")
    for name, count in sorted(used.items()):
        print(f"{count:5} x {name}")
    return wrong


if __name__ == "__main__":
    found = failures(ckdisp.Registry.load(sys.argv[1]))
    print("\n".join(found[:40]), f"\n{len(found)} wrong")
    sys.exit(bool(found))
