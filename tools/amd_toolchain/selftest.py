"""Compile, link and load something small with the finished prefix."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from common import Failure, run

_ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")

_KERNEL = r"""
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
__global__ void kernel(float* y, const __half* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = expf(__half2float(x[i])) + sinf(y[i]);
}
extern "C" int run_it() {
  kernel<<<2, 64>>>(nullptr, nullptr, 0);
  return hipGetLastError();
}
"""

_MFMA = r"""
#include <ck_tile/core.hpp>
typedef float floats __attribute__((ext_vector_type(16)));
typedef _Float16 halves __attribute__((ext_vector_type(4)));
__global__ void multiply(halves* a, floats* c) {
  c[threadIdx.x] =
      __builtin_amdgcn_mfma_f32_32x32x8f16(a[threadIdx.x], a[64], c[threadIdx.x], 0, 0, 0);
}
"""


def check(prefix: Path, work: Path) -> None:
    """Raise :class:`Failure` unless the prefix compiles, links and its stub works."""
    hipcc = prefix / "bin" / "hipcc"
    (work / "kernel.hip").write_text(_KERNEL)
    (work / "mfma.hip").write_text(_MFMA)
    run(
        *(hipcc, "-shared", "-fPIC", "-O1", "-Werror", work / "kernel.hip"),
        *(f"--offload-arch={arch}" for arch in _ARCHES),
        *("-o", work / "kernel.so"),
    )
    load = f"import ctypes; print(ctypes.CDLL({str(work / 'kernel.so')!r}).run_it())"
    for devices, expected in (("", "100"), ("gfx942", "0"), ("gfx90c", "209")):
        status = run(sys.executable, "-c", load, env={"CKDISP_STUB_DEVICES": devices}).strip()
        if status != expected:
            raise Failure(
                f"self test: a launch with CKDISP_STUB_DEVICES='{devices}' gave error {status} "
                f"and not {expected}; run again with --force"
            )
    code = work / "mfma.co"
    run(
        *(hipcc, "--offload-arch=gfx942", "--offload-device-only", "--no-gpu-bundle-output"),
        *("-std=c++20", "-w", "-c", work / "mfma.hip", "-o", code),
    )
    listing = run(prefix / "bin" / "llvm-objdump", "-d", code)
    if not re.search(r"\bv_mfma_f32_32x32x8", listing):
        raise Failure("self test: the matrix instruction is missing in the compiled kernel")
