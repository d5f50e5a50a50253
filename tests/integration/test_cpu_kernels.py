"""The CPU provider's own kernels: the prebuilt ones, and others built from their declaration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cpu_kernels import check_objects
from installed import needs_prebuilt, prebuilt
from kernel_check import check_kernel

import ckdisp
from ckdisp.codegen.enums import ELEMENTWISE

LEVELS = [level for level in ckdisp.host_arches() if not ckdisp.arch(level).is_gpu]
FUSED = [v for v in ELEMENTWISE.values if v != "passthrough"]


@needs_prebuilt
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("level", LEVELS)
def test_every_prebuilt_kernel_computes(level: str, threads: int) -> None:
    registry = ckdisp.Registry.load(prebuilt(level))
    assert len(registry) > 20
    disp = ckdisp.Dispatcher(registry, num_threads=threads)
    for kernel in registry:
        check_kernel(disp, kernel.key, seed=threads)


def fused_set() -> ckdisp.KernelSet:
    """Every fused operation once in fp32, and a few in the other types."""
    counts = {"add": 1, "multiply": 1, "multi_d_add": 4, "multi_d_multiply": 3, "gelu": 0}
    cases = [("fp32", e, counts.get(e, 2), "r", "fp32") for e in FUSED]
    cases += [
        ("bf16", "swish", 1, "c", "fp32"),
        ("fp16", "clamp", 2, "r", "bf16"),
        ("int8", "relu", 1, "r", "int8"),
        ("int8", "clamp", 0, "r", "int32"),
        ("fp8", "fast_gelu", 1, "r", "bf8"),
    ]
    keys = [
        ckdisp.make_key(
            "gemm.multi_d",
            arch=LEVELS[0],
            dtype=dtype,
            dtype_c=out,
            layout="rcr" if number % 2 else "rrr",
            elementwise=elementwise,
            num_d=num_d,
            layout_d=order if num_d else "r",
        )
        for number, (dtype, elementwise, num_d, order, out) in enumerate(cases)
    ]
    return ckdisp.KernelSet(keys)


def sampled_set() -> ckdisp.KernelSet:
    """Keys that nobody curated, of every level that runs here, the same ones every time."""
    picked = ckdisp.KernelSet()
    for level in LEVELS:
        for family in ("gemm.standard", "gemm.multi_d"):
            picked |= ckdisp.KernelSet.sweep(family, level, tiles="all").sample(3, seed=7)
    if "x86-64-v4-amx" in LEVELS:
        where = {"warp_m": [32]}
        amx = ckdisp.KernelSet.sweep("gemm.multi_d", "x86-64-v4-amx", tiles="all", where=where)
        picked |= amx.sample(6, seed=7)
    return picked


@pytest.mark.xdist_group("cpu_kernels")
@pytest.mark.parametrize("declare", [fused_set, sampled_set])
def test_declared_kernels_compute(kernel_cache: Path, declare: object) -> None:
    assert callable(declare)
    kernels = declare()
    registry = kernels.build(cache_dir=kernel_cache, progress=False)
    assert sorted(k.name for k in registry) == sorted(kernels.names())
    disp = ckdisp.Dispatcher(registry, num_threads=2)
    for key in kernels:
        check_kernel(disp, key)


@pytest.mark.xdist_group("cpu_kernels")
def test_objects_hold_one_kernel_and_nothing_shared(kernel_cache: Path) -> None:
    kernels = fused_set() | sampled_set()
    kernels.build(cache_dir=kernel_cache, progress=False)
    check_objects(kernels, kernel_cache)


@needs_prebuilt
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("m", [1, 40])
def test_not_a_number_and_infinity_stay_where_they_belong(dtype: str, m: int) -> None:
    from ckdisp.tensors import numpy_dtype

    disp = ckdisp.Dispatcher(ckdisp.Registry.load(prebuilt(LEVELS[0])), num_threads=1)
    a = np.ones((m, 30), np.float32)
    b = np.ones((30, 50), np.float32)
    a[0, 29] = np.nan
    b[3, 7], b[4, 8] = np.inf, -np.inf
    out = disp.gemm(a.astype(numpy_dtype(dtype)), b.astype(numpy_dtype(dtype))).astype(np.float32)
    assert np.isnan(out[0]).all()
    assert (out[1:, 7] == np.inf).all() and (out[1:, 8] == -np.inf).all()
    rest = np.delete(out[1:], [7, 8], axis=1)
    assert (rest == 30).all()
