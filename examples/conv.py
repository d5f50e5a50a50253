"""A convolution forward and backward, on PyTorch's order of dimensions with channels last."""

import numpy as np

import ckdisp

rng = np.random.default_rng(0)


def channels_last(*shape: int) -> np.ndarray:
    """Random numbers of ``shape`` (N, C, H, W), stored as N, H, W, C."""
    n, c, height, width = shape
    return rng.random((n, height, width, c), dtype=np.float32).transpose(0, 3, 1, 2)


x = channels_last(2, 64, 28, 28)
weight = channels_last(128, 32, 3, 3)  # two groups of 32 input and 64 output channels
how = {"stride": 2, "padding": 1, "groups": 2}

# One set for all directions, compiled on demand; a second run finds it in the cache.
kernels = ckdisp.KernelSet()
for direction in ("conv.fwd", "conv.bwd_data", "conv.bwd_weight"):
    kernels |= ckdisp.KernelSet.sweep(
        direction, arch="native", where={"dtype": "fp32", "layout": "nhwgc"}
    )
disp = ckdisp.Dispatcher(kernels.build())

y = disp.conv_fwd(x, weight, **how)
assert ckdisp.Validator().check(y, ckdisp.reference.conv_fwd(x, weight, **how)).ok

# Gradients of sum(y * dy).
dy = channels_last(*y.shape)
dx = disp.conv_bwd_data(dy, weight, input_shape=x.shape, **how)
dw = disp.conv_bwd_weight(x, dy, weight_shape=weight.shape, **how)
total = np.vdot(dy, y)
for other in (np.vdot(dx, x), np.vdot(dw, weight)):  # y is linear in either
    assert abs(other - total) <= 1e-4 * abs(total)

# What was chosen, and what a problem that has no data would get.
problem = ckdisp.GroupedConvProblem("fwd", (2, 64, 28, 28), (64, 1, 3, 3), padding=1, groups=64)
print(f"a depthwise layer runs {disp.select(problem).name}")
