"""A first GEMM: with the prebuilt kernels, then with kernels compiled for this machine."""

import numpy as np

import ckdisp

rng = np.random.default_rng(0)
x = rng.random((16, 512), dtype=np.float32)
weight = rng.random((1024, 512), dtype=np.float32)
bias = rng.random(1024, dtype=np.float32)

# The kernels inside the installed package.
disp = ckdisp.Dispatcher(ckdisp.Registry.prebuilt())
y = disp.gemm(x, weight.T, epilogue="add", d=[bias])  # x @ weight.T + bias, in one kernel
assert ckdisp.Validator().check(y, x @ weight.T + bias).ok

# Kernels that are declared here and compiled on demand; a second run finds them in the cache.
kernels = ckdisp.KernelSet.sweep(
    "gemm.standard", arch="native", where={"dtype": ["fp32"], "layout": ["rrr"]}
)
registry = kernels.build()
disp = ckdisp.Dispatcher(registry)
product = disp.gemm(x, np.ascontiguousarray(weight.T))
assert ckdisp.Validator().check(product, x @ weight.T).ok
print(f"computed with {len(registry)} kernels, the first is {registry.kernels()[0].name}")
