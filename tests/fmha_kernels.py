"""The attention kernels of the CPU that the tests of values share, compiled once."""

from __future__ import annotations

from pathlib import Path

import cpu_kernels

import ckdisp

LEVEL = ckdisp.host_arches()[0]
FORWARD = ("fwd", "splitkv", "pagedkv", "batch_prefill")
BACKWARD = ("bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq")
BLOCKED = (*FORWARD, "bwd_dq_dk_dv")


def small(family: str, dtype: str) -> ckdisp.KernelSet:
    """A kernel whose small blocks have many edges."""
    key = ckdisp.make_key(f"fmha.{family}", arch=LEVEL, dtype=dtype, tile=(24, 48))
    return ckdisp.KernelSet([key])


def declared(family: str, dtype: str) -> ckdisp.KernelSet:
    """The kernel that is built by default, and a small one if it has blocks."""
    kernels = ckdisp.KernelSet.sweep(f"fmha.{family}", arch=LEVEL, where={"dtype": [dtype]})
    return kernels | small(family, dtype) if family in BLOCKED else kernels


def all_kernels() -> ckdisp.KernelSet:
    """What the tests of values run."""
    kernels = ckdisp.KernelSet()
    for family in (*FORWARD, *BACKWARD, "splitkv_combine", "appendkv"):
        kernels |= declared(family, "fp32")
    for family in ("fwd", *BACKWARD, "appendkv"):
        kernels |= declared(family, "bf16")
    for family in BACKWARD:
        kernels |= declared(family, "fp16")
    for dtype in ("fp16", "fp8fp32", "bf8"):
        kernels |= declared("fwd", dtype)
    others = {
        "fp8fp32": ("splitkv", "splitkv_combine", "pagedkv", "batch_prefill"),
        "bf16": ("splitkv", "splitkv_combine", "batch_prefill"),
        "fp16": ("pagedkv",),
        "fp8bf16": ("fwd",),
    }
    for dtype, families in others.items():
        for family in families:
            where = {"dtype": [dtype]}
            kernels |= ckdisp.KernelSet.sweep(f"fmha.{family}", arch=LEVEL, where=where)
    return kernels


def build(folder: Path) -> list[ckdisp.Dispatcher]:
    """For one thread and for three."""
    registry = cpu_kernels.build(all_kernels(), folder)
    return [ckdisp.Dispatcher(registry, num_threads=n) for n in (1, 3)]


def names(dispatcher: ckdisp.Dispatcher, family: str, dtype: str) -> list[str]:
    found = dispatcher.registry.kernels(family=f"fmha.{family}")
    return [kernel.name for kernel in found if kernel.key.dtype == dtype]
