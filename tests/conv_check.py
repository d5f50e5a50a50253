"""One convolution on the CPU: its tensors, its problem, and whether kernels compute it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import ckdisp
from ckdisp import reference
from ckdisp.tensors import numpy_dtype

# Of the largest value: sums in another order, then one rounding to the type of the result.
_TOLERANCE = {"fp32": 1e-5, "fp16": 1e-3, "bf16": 6e-3, "int8": 0.0, "fp8": 1e-3, "bf8": 1e-3}
# Channels, of the input and of the output, the filter's side, and how.
_AWKWARD: tuple[tuple[int, int, int, dict[str, Any]], ...] = (
    (19, 37, 1, {}),
    (19, 37, 3, {"stride": 2, "padding": 1}),
    (12, 6, 2, {"groups": 3, "dilation": 2}),
    (33, 33, 3, {"groups": 33, "padding": 2}),
    (36, 36, 3, {"groups": 9, "padding": 1}),
)


@dataclass
class Case:
    """The tensors of one convolution, in channels-last order."""

    x: np.ndarray[Any, Any]
    w: np.ndarray[Any, Any]
    dy: np.ndarray[Any, Any]
    how: dict[str, Any]

    def problem(self, direction: str, dtype: str) -> ckdisp.GroupedConvProblem:
        return ckdisp.GroupedConvProblem(
            direction, self.x.shape, self.w.shape, dtype=dtype, **self.how
        )

    def run(self, on: Any, direction: str, **more: Any) -> Any:
        """By a dispatcher, or by the reference."""
        if direction == "fwd":
            return on.conv_fwd(self.x, self.w, **self.how, **more)
        if direction == "bwd_data":
            return on.conv_bwd_data(self.dy, self.w, input_shape=self.x.shape, **self.how, **more)
        return on.conv_bwd_weight(self.x, self.dy, weight_shape=self.w.shape, **self.how, **more)


def channels_last(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    stored = (shape[0], *shape[2:], shape[1])
    whole = rng.integers(-5, 6, stored) if dtype == "int8" else rng.standard_normal(stored) / 2
    return np.moveaxis(whole.astype(numpy_dtype(dtype)), -1, 1)


def make_case(
    x: tuple[int, ...], w: tuple[int, ...], dtype: str = "fp32", seed: int = 0, **how: Any
) -> Case:
    rng = np.random.default_rng(seed)
    case = Case(channels_last(rng, x, dtype), channels_last(rng, w, dtype), np.zeros(0), how)
    case.dy = channels_last(rng, reference.conv_fwd(case.x, case.w, **how).shape, dtype)
    return case


def check_kernel(
    disp: ckdisp.Dispatcher, name: str, case: Case, direction: str, dtype: str = "fp32"
) -> None:
    """Assert that the kernel computes what the float64 reference does."""
    expected = case.run(reference, direction)
    result = case.run(disp, direction, kernel=name)
    error = np.abs(result.astype(np.float64) - expected).max(initial=0.0)
    assert error <= _TOLERANCE[dtype] * np.abs(expected).max(initial=1e-3), f"{name}: {case.how}"


def check_awkward(disp: ckdisp.Dispatcher, key: Any, seed: int = 0) -> None:
    """Assert that the kernel of ``key`` computes each awkward shape that it is for."""
    direction, rank = key.family.removeprefix("conv."), len(key.layout) - 3
    taken = 0
    for c, k, side, how in _AWKWARD:
        weights = (k, c // how.get("groups", 1), *(side,) * rank)
        case = make_case((2, c, *(4, 7, 21)[-rank:]), weights, key.dtype_in, seed, **how)
        candidates = disp.explain(case.problem(direction, key.dtype_in))
        if any(found.supported for found in candidates if found.kernel.name == key.name):
            check_kernel(disp, key.name, case, direction, key.dtype_in)
            taken += 1
    general = key.pipeline == "packed" and key.specialization == "default"
    assert taken == (len(_AWKWARD) if general else 2 if key.pipeline == "direct" else 1)
