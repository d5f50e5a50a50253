"""GEMM kernels of GPUs touch nothing behind C: not its allocation's end, nor what follows there."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gpu_memory import Memory, Tensor, gpu
from on_gpu import OnGpu

import ckdisp

pytestmark = pytest.mark.xdist_group("gpu_values")

_TILE = {"tile": [64, 64, 64], "wave": [2, 2, 1], "warp": [16, 16, 32], "layout": "rcr"}
_TILE |= {"pad_m": True, "pad_n": True, "pad_k": True, "persistent": False, "split_k": True}
_TILE |= {"pipeline": "compv3", "scheduler": "intrawave", "block_per_cu": 1}
_RDNA = {"tile": [64, 64, 64], "wave": [4, 2, 1], "warp": [16, 16, 16]}
# Where CK adds through plain pointers: bf16 (but for gfx950), and everything on RDNA 3.
_KERNELS: dict[str, dict[str, Any]] = {
    "gfx942": {"dtype": "bf16", "dtype_c": "bf16", "epilogue": "cshuffle"},
    "gfx1100": {"dtype": "fp16", "dtype_c": "fp32", "epilogue": ["cshuffle", "default"], **_RDNA},
}


def split_sums(arch: str) -> int:
    """How many kernels computed the right C, whose last tiles end behind it."""
    where = {**_TILE, **_KERNELS[arch]}
    keys = ckdisp.KernelSet.sweep("gemm.standard", arch, tiles="all", where=where)
    dispatcher = ckdisp.Dispatcher(keys.build(), arch=arch)
    types: dict[str, Any] = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32}
    inputs, result = types[where["dtype"]], types[where["dtype_c"]]
    random = np.random.default_rng(0)
    m, n, k = 72, 40, 128
    a = random.integers(-2, 3, (m, k)).astype(inputs)
    b = random.integers(-2, 3, (n, k)).astype(inputs)
    for key in keys:
        # Numbers that adding 0 changes: -0, and NaN of the signalling kind.
        size = np.dtype(result).itemsize
        behind = np.array([0x8000, 0x7F81] if size == 2 else [1 << 31, 0x7F800001], f"u{size}")
        host = np.resize(behind, m * n + 64 * 64)
        whole = gpu(host)
        c = Tensor(whole.memory, (m, n), (n, 1), result)
        exact = Tensor(Memory(m * n * size, 0), (m, n), (n, 1), result)
        for out in (c, exact):
            device = [gpu(a), gpu(b).permute([1, 0])]
            dispatcher.gemm(*device, out=out, k_batch=2, kernel=key.name)
            wanted = a.astype(float) @ b.T.astype(float)
            np.testing.assert_array_equal(out.numpy().astype(float), wanted)
        np.testing.assert_array_equal(whole.numpy()[m * n :], host[m * n :])
    return len(keys)


@pytest.mark.parametrize("arch", _KERNELS)
def test_sums_of_a_split_k_end_with_c(on_gpu: OnGpu, arch: str) -> None:
    epilogues = np.size(_KERNELS[arch]["epilogue"])
    assert on_gpu.run(split_sums, arch, arch=arch) == epilogues
