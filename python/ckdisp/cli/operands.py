"""Random data of a problem, and who can compute it: ckdisp, NumPy, PyTorch, the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from .arrays import element_type, random_array, require_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .. import Dispatcher
    from .conv_options import ConvOptions
    from .gemm_options import GemmOptions

TORCH_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


class Operands(Protocol):
    """The tensors of one problem."""

    def run(self, dispatcher: Dispatcher) -> Any:
        """The result by a kernel."""

    def reference(self) -> NDArray[Any]:
        """The result in float64."""

    def numpy(self) -> tuple[str, Callable[[], object]] | None:
        """NumPy's way, and what to call it; None where it has none."""

    def torch(self) -> Callable[[], object] | None:
        """PyTorch's way; None for a type that it lacks."""


class GemmOperands:
    """A, B, C and the D tensors of a problem, stored as its layout says."""

    def __init__(self, problem: GemmOptions) -> None:
        shape, layout = problem.shape, problem.layout
        self.dtype, self.epilogue, self.k_batch = problem.dtype, problem.epilogue, problem.k_batch
        out = str(problem.make().to_dict()["dtype_c"])
        sizes = shape.m * shape.k + shape.k * shape.n
        item = element_type(problem.dtype).itemsize
        wide = 4 * sizes if problem.dtype != "fp32" else 0
        outputs = shape.m * shape.n * (element_type(out).itemsize * (1 + problem.num_d) + 8)
        require_memory(sizes * item + wide + outputs, f"a GEMM of {shape}")
        self.a = _stored((shape.m, shape.k), layout[0], problem.dtype, 1)
        self.b = _stored((shape.k, shape.n), layout[1], problem.dtype, 2)
        self.d = [_stored((shape.m, shape.n), "r", out, 3 + i) for i in range(problem.num_d)]
        self.c = _stored((shape.m, shape.n), layout[2], out, 0)

    def run(self, dispatcher: Dispatcher) -> Any:
        return dispatcher.gemm(
            *(self.a, self.b), d=self.d, epilogue=self.epilogue, out=self.c, k_batch=self.k_batch
        )

    def reference(self) -> NDArray[Any]:
        from .. import reference

        return reference.gemm(self.a, self.b, d=self.d, epilogue=self.epilogue)

    def numpy(self) -> tuple[str, Callable[[], object]]:
        import numpy as np

        a, b = (np.asarray(x, np.float32) for x in (self.a, self.b))
        out = np.empty((a.shape[0], b.shape[1]), np.float32)
        label = "numpy" if self.dtype == "fp32" else "numpy fp32"
        return label, lambda: np.matmul(a, b, out=out)

    def torch(self) -> Callable[[], object] | None:
        if self.dtype not in TORCH_TYPES:
            return None
        import torch

        a, b = (to_torch(x, self.dtype) for x in (self.a, self.b))
        out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype)
        return lambda: torch.matmul(a, b, out=out)


class ConvOperands:
    """Input, weights and output of a problem, in channels-last order."""

    def __init__(self, problem: ConvOptions) -> None:
        made = problem.make()
        types = made.to_dict()
        self.family = problem.family
        self.motion = problem.motion
        self.parts = {"k_batch": problem.k_batch} if problem.family == "conv.bwd_weight" else {}
        self.dtype = problem.dtype
        shapes = (made.input_shape, made.weight_shape, made.output_shape)
        names = [str(types[f"dtype_{tensor}"]) for tensor in ("in", "wei", "out")]
        require_memory(int(3 * made.bytes), f"a convolution of {problem}")
        self.x, self.w, self.y = (
            _channels_last(shape, name, seed)
            for seed, (shape, name) in enumerate(zip(shapes, names, strict=True))
        )

    def run(self, dispatcher: Dispatcher) -> Any:
        return self._convolve(dispatcher, out_dtype=self._result.dtype, **self.parts)

    def reference(self) -> NDArray[Any]:
        from .. import reference

        result: NDArray[Any] = self._convolve(reference)
        return result

    @property
    def _result(self) -> NDArray[Any]:
        """The tensor that stands for what the direction computes."""
        return {"conv.fwd": self.y, "conv.bwd_data": self.x, "conv.bwd_weight": self.w}[self.family]

    def _convolve(self, by: Any, **options: Any) -> Any:
        """The direction's function of the same name in a dispatcher or the references."""
        options |= self.motion
        if self.family == "conv.fwd":
            return by.conv_fwd(self.x, self.w, **options)
        if self.family == "conv.bwd_data":
            return by.conv_bwd_data(self.y, self.w, input_shape=self.x.shape, **options)
        return by.conv_bwd_weight(self.x, self.y, weight_shape=self.w.shape, **options)

    def numpy(self) -> None:
        return None

    def torch(self) -> Callable[[], object] | None:
        if self.dtype not in TORCH_TYPES or self.x.dtype != self.y.dtype:
            return None
        import torch

        x, w, y = (to_torch(t, self.dtype) for t in (self.x, self.w, self.y))
        rank = x.ndim - 2
        move = self.motion
        if self.family == "conv.fwd":
            convolve = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
            return lambda: convolve(x, w, None, **move)
        mask = [self.family == "conv.bwd_data", self.family == "conv.bwd_weight", False]
        backward = torch.ops.aten.convolution_backward
        options = (move["stride"], move["padding"], move["dilation"], False, [0] * rank)
        return lambda: backward(y, x, w, None, *options, move["groups"], mask)


def _channels_last(shape: tuple[int, ...], dtype: str, seed: int) -> NDArray[Any]:
    stored = random_array((shape[0], *shape[2:], shape[1]), dtype, seed)
    return stored.transpose(0, len(shape) - 1, *range(1, len(shape) - 1))


def _stored(shape: tuple[int, int], order: str, dtype: str, seed: int) -> NDArray[Any]:
    if order == "r":
        return random_array(shape, dtype, seed)
    return random_array(shape[::-1], dtype, seed).T


def to_torch(array: NDArray[Any], dtype: str) -> Any:
    """The same bytes as a PyTorch tensor; PyTorch does not know the bfloat16 of ml_dtypes."""
    import numpy as np
    import torch

    if dtype == "bf16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
