"""Test data: element types by name, random arrays, and a check that they fit into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..codegen.errors import InvalidArgument
from ..codegen.jobs import memory_mb

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMPY = {"fp32": "float32", "fp16": "float16", "int8": "int8", "int32": "int32"}
_ML_DTYPES = {"bf16": "bfloat16", "fp8": "float8_e4m3fn", "bf8": "float8_e5m2"}
_CHUNK = 1 << 22  # elements that are random in fp32 before they are rounded


def element_type(dtype: str) -> Any:
    """The NumPy dtype of the key value ``dtype``; types NumPy lacks need ``ml_dtypes``."""
    import numpy as np

    if dtype in _NUMPY:
        return np.dtype(_NUMPY[dtype])
    try:
        import ml_dtypes
    except ImportError:
        raise click.ClickException(
            f"{dtype} arrays need the package ml_dtypes, which is not installed; "
            "run `pip install ml_dtypes` or choose --dtype fp32 or fp16"
        ) from None
    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[dtype]))


def random_array(shape: tuple[int, ...], dtype: str, seed: int) -> NDArray[Any]:
    """Uniform values: in [-0.5, 0.5) for floating-point types, in [-8, 8) for integers."""
    import numpy as np

    rng = np.random.default_rng(seed)
    target = element_type(dtype)
    out = np.empty(shape, target)
    flat = out.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        if dtype.startswith("int"):
            part[:] = rng.integers(-8, 8, part.size, dtype=np.int8)
        else:
            part[:] = rng.random(part.size, dtype=np.float32) - np.float32(0.5)
    return out


def require_memory(size: int, what: str) -> None:
    """Refuse arrays of ``size`` bytes that this machine cannot hold, before it starts to swap."""
    available = memory_mb(available=True) << 20
    if size > available:
        raise InvalidArgument(
            f"{what} needs {size / 1e9:.1f} GB, but only {available / 1e9:.1f} GB of memory are "
            "free; choose smaller shapes or close other programs"
        )
