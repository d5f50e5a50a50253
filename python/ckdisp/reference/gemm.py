"""GEMM in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.enums import ELEMENTWISE
from ..codegen.errors import InvalidArgument

_Array = NDArray[Any]


def gemm(
    a: Any,
    b: Any,
    *,
    d: Any = (),
    epilogue: str = "passthrough",
    scale: float = 1.0,
    clamp: tuple[float, float] | None = None,
    dtype: Any = np.float64,
) -> _Array:
    """``epilogue(scale * a @ b, *d)`` computed in ``dtype``.

    ``a`` is (M, K), ``b`` is (K, N), each D broadcasts to (M, N). The arguments mean what they mean
    in :meth:`ckdisp.Dispatcher.gemm`; inputs may have any NumPy or ``ml_dtypes`` type. Raises
    :class:`InvalidArgument` for shapes that do not fit and a wrong number of D, and
    :class:`InvalidKey` for an unknown epilogue.
    """
    ELEMENTWISE.code(epilogue, "epilogue")
    left, right = np.asarray(a), np.asarray(b)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise InvalidArgument(
            f"a has shape {left.shape} and b {right.shape}; pass (M, K) and (K, N)"
        )
    product = left.astype(dtype) @ right.astype(dtype)
    if scale != 1.0:
        product = product * scale
    tensors = list(d) if isinstance(d, (tuple, list)) else [d]
    addends = [np.asarray(t).astype(dtype) for t in tensors]
    _check_count(epilogue, len(addends))
    return _apply(epilogue, product, addends, clamp)


def _check_count(epilogue: str, count: int) -> None:
    least, most = {
        "passthrough": (0, 0),
        "add": (1, 1),
        "multiply": (1, 1),
        "multi_d_add": (1, 4),
        "multi_d_multiply": (1, 4),
    }.get(epilogue, (0, 4))
    if not least <= count <= most:
        takes = str(least) if least == most else f"{least} to {most}"
        raise InvalidArgument(f"epilogue {epilogue!r} takes {takes} D tensors, not {count}")


def _apply(
    epilogue: str, product: _Array, d: Sequence[_Array], clamp: tuple[float, float] | None
) -> _Array:
    if epilogue in ("multiply", "multi_d_multiply"):
        for factor in d:
            product = product * factor
        return product
    for addend in d:
        product = product + addend
    if epilogue == "clamp":
        if clamp is None:
            raise InvalidArgument("epilogue 'clamp' needs its bounds: pass clamp=(min, max)")
        return np.clip(product, *clamp)
    activation = _ACTIVATIONS.get(epilogue)
    return product if activation is None else activation(product)


def _sigmoid(x: _Array) -> _Array:
    # The negative half through exp(x), so that neither half overflows.
    small = np.exp(-np.abs(x))
    result: _Array = np.where(x >= 0, 1 / (1 + small), small / (1 + small))
    return result


def _gelu(x: _Array) -> _Array:
    # erfc keeps its precision where 1 + erf cancels.
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    result: _Array = 0.5 * x * erfc(-x / math.sqrt(2))
    return result


def _fast_gelu(x: _Array) -> _Array:
    result: _Array = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return result


_ACTIVATIONS: dict[str, Callable[[_Array], _Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": _gelu,
    "fast_gelu": _fast_gelu,
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "swish": lambda x: x * _sigmoid(x),
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}
