"""The emulated AMD GPU, and how tests run functions on it."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest
from gpu_memory import gpu
from on_gpu import OnGpu

import ckdisp

pytestmark = pytest.mark.xdist_group("amd_emulator")

ARCHS = ["gfx942", "gfx950", "gfx1201", "gfx1100"]


def one_small_gemm(arch: str) -> list[str]:
    where = {"dtype": ["fp16"], "layout": ["rcr"]}
    keys = ckdisp.KernelSet.sweep("gemm.standard", arch, where=where)
    smallest = min(keys, key=lambda key: np.prod(key.tile))
    dispatcher = ckdisp.Dispatcher(ckdisp.KernelSet([smallest]).build())
    random = np.random.default_rng(0)
    for m, n, k in [(64, 64, 64), (72, 40, 104), (8, 136, 24)]:
        a = random.integers(-3, 4, (m, k)).astype(np.float16)
        b = random.integers(-3, 4, (n, k)).astype(np.float16)
        c = dispatcher.gemm(gpu(a), gpu(b).permute([1, 0]))
        np.testing.assert_array_equal(c.numpy().astype(float), a.astype(float) @ b.T.astype(float))
    return [device.arch for device in ckdisp.devices()]


@pytest.mark.parametrize("arch", ARCHS)
def test_a_gemm_has_the_right_values(on_gpu: OnGpu, arch: str) -> None:
    assert on_gpu.run(one_small_gemm, arch, arch=arch) == [arch]


def wrong() -> None:
    np.testing.assert_array_equal(gpu(np.arange(3)).numpy(), [0, 1, 7])


def crash() -> None:
    print("about to end")
    ctypes.string_at(0)


def leave() -> None:
    os._exit(3)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (wrong, r"(?s)wrong on gfx942 ended with exit status 1:.*Arrays are not equal"),
        (crash, r"(?s)crash on gfx942 ended with signal 11:.*about to end.*string_at"),
        (leave, r"leave on gfx942 ended with exit status 3"),
    ],
    ids=["wrong", "crash", "leave"],
)
def test_a_failure_tells_what_happened(on_gpu: OnGpu, function: object, text: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=text):
        on_gpu.run(function)  # type: ignore[arg-type]
