"""Split-K that the library chooses: on an AMD GPU, with the right sums."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_memory import gpu
from on_gpu import OnGpu

import ckdisp
from ckdisp import GroupedConvProblem, KernelSet

pytestmark = pytest.mark.xdist_group("amd_emulator")


def weight_gradients() -> list[int]:
    """Of a 1x1 layer of one tile of weights, by the curated kernel that sums in fp32."""
    kernels = KernelSet.sweep("conv.bwd_weight", "gfx942", where={"dtype": "fp16"}).filter(
        lambda k: k.split_k and k.layout == "nhwgc" and k.tile == (64, 64, 64)
    )
    assert [(k.two_stage, k.dtype_wei) for k in kernels] == [(True, "fp16")]
    dispatcher = ckdisp.Dispatcher(kernels.build())
    random = np.random.default_rng(1)
    chosen = []
    for images, given in [(8, 0), (8, 1), (8, 3), (1, 0)]:
        x, dy = (random.integers(-2, 3, (images, 16, 16, 64)).astype(np.float16) for _ in "xy")
        shapes = ((images, 64, 16, 16), (64, 64, 1, 1))
        problem = GroupedConvProblem("bwd_weight", *shapes, dtype="fp16", k_batch=given)
        plan = dispatcher.plan(problem, device=0)
        chosen += sorted({stage.num_splits for stage in plan.stages})
        assert ("prepare" in [stage.kind for stage in plan.stages]) == (chosen[-1] > 1)
        dw = dispatcher.conv_bwd_weight(
            *(gpu(t).permute([0, 3, 1, 2]) for t in (x, dy)),
            weight_shape=shapes[1],
            k_batch=given,
        )
        wanted = np.einsum("nhwk,nhwc->kc", dy.astype(float), x.astype(float))
        np.testing.assert_array_equal(dw.numpy().astype(float).reshape(64, 64), wanted)
    return chosen


def test_a_layer_of_one_tile_is_split(on_gpu: OnGpu) -> None:
    """8 images are 32 steps of the main loop, at least 4 for each part; 1 image is 4 of them."""
    open_, one, three, few = on_gpu.run(weight_gradients, arch="gfx942")
    assert (one, three, few) == (1, 3, 1)
    assert 1 < open_ <= 8


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_curated_weight_gradients_have_kernels_that_split(arch: str) -> None:
    found = KernelSet.sweep("conv.bwd_weight", arch, where={"dtype": ["fp16", "bf16"]})
    for dtype in ("fp16", "bf16"):
        splitting = found.filter(lambda k, d=dtype: k.split_k and k.dtype_wei == d)
        assert splitting and all(key.two_stage for key in splitting)  # sums stay in fp32
        assert min(np.prod(key.tile[:2]) for key in splitting) == 64 * 64
