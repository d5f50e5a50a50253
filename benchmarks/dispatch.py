"""What dispatch costs: in C++, on top of a kernel from Python, and at import.

Every number is the best of many rounds, measured side by side in one run; ``--json`` prints them
for a script.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path

import numpy as np

import ckdisp
from ckdisp.codegen.emit.cpp_view import write_cpp_view
from ckdisp.codegen.headers import own_include_dirs
from ckdisp.codegen.toolchain import which

ROOT = Path(__file__).resolve().parent.parent


def best_ns(call: Callable[[], object], number: int = 100, repeat: int = 1000) -> float:
    return min(timeit.repeat(call, number=number, repeat=repeat)) / number * 1e9


def cpp() -> dict[str, float]:
    """Compile and run ``dispatch.cpp`` with the sources of the runtime."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "dispatch"
        write_cpp_view(Path(folder) / "include")
        includes = [f"-I{d}" for d in (Path(folder) / "include", *own_include_dirs())]
        sources = [ROOT / "benchmarks" / "dispatch.cpp", *(ROOT / "csrc" / "runtime").glob("*.cpp")]
        options = ["-std=c++20", "-O2", "-o", program, "-pthread", "-ldl"]
        subprocess.run([which("c++") or "g++", *includes, *sources, *options], check=True)
        output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    result: dict[str, float] = json.loads(output)
    return result


def python() -> dict[str, float]:
    """Calls of ``gemm`` on a matrix without rows: everything but the kernel's work."""
    disp = ckdisp.Dispatcher(ckdisp.Registry.prebuilt(), num_threads=1)
    none, b = np.zeros((0, 8), np.float32), np.zeros((8, 8), np.float32)
    out = np.zeros((0, 8), np.float32)
    small, small_out = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32)
    return {
        "python_call_ns": best_ns(lambda: disp.gemm(none, b)),
        "python_call_out_ns": best_ns(lambda: disp.gemm(none, b, out=out)),
        "python_8x8x8_ns": best_ns(lambda: disp.gemm(small, b, out=small_out)),
        "numpy_8x8x8_ns": best_ns(lambda: np.matmul(small, b, out=small_out)),
    }


def attention() -> dict[str, float]:
    """Calls of ``fmha_fwd`` with no row of a query."""
    kernels = ckdisp.KernelSet.sweep("fmha.fwd", arch="native", where={"dtype": "fp32"})
    disp = ckdisp.Dispatcher(kernels.build(progress=False), num_threads=1)
    q, k = np.zeros((1, 4, 0, 64), np.float32), np.zeros((1, 4, 8, 64), np.float32)
    out = np.zeros_like(q)
    return {
        "python_attention_ns": best_ns(lambda: disp.fmha_fwd(q, k, k)),
        "python_attention_out_ns": best_ns(lambda: disp.fmha_fwd(q, k, k, out=out)),
        "python_attention_lse_ns": best_ns(
            lambda: disp.fmha_fwd(q, k, k, mask="top_left", return_lse=True)
        ),
    }


def import_ms(rounds: int = 15) -> dict[str, float]:
    """Time of ``import ckdisp``, and of loading the runtime, after NumPy is there."""
    code = (
        "import numpy, time; t = time.perf_counter(); import ckdisp; u = time.perf_counter(); "
        "ckdisp.Registry, ckdisp.Dispatcher, ckdisp.KernelSet; v = time.perf_counter(); "
        "print((u - t) * 1e3, (v - t) * 1e3)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        for _ in range(rounds)
    ]
    times = [[float(x) for x in run.stdout.split()] for run in runs]
    return {
        "import_ms": min(t[0] for t in times),
        "import_and_use_ms": min(t[1] for t in times),
    }


def main() -> None:
    results = {**cpp(), **python(), **attention(), **import_ms()}
    if "--json" in sys.argv[1:]:
        print(json.dumps(results))
        return
    for name, value in results.items():
        print(f"{name:30} {value:10.1f}")


if __name__ == "__main__":
    main()
