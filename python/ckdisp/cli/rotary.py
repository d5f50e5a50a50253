"""Rotary embedding in NumPy: what a cache must hold behind ``fmha_appendkv``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BASE = 10000.0


def angles(places: int, size: int) -> NDArray[Any]:
    """(places, size / 2): by how much each pair of numbers is turned at each place."""
    import numpy as np

    return np.outer(np.arange(places), _BASE ** -(np.arange(0, size, 2) / size))


def rotate(x: NDArray[Any], by: NDArray[Any], kind: str) -> NDArray[Any]:
    """``x`` (..., rows, size) turned by angles (rows, size / 2).

    Pairs are neighbours (``"interleaved"``), or a number and that half a row behind it.
    """
    import numpy as np

    half = x.shape[-1] // 2
    neighbours = kind == "interleaved"
    first, second = (x[..., 0::2], x[..., 1::2]) if neighbours else (x[..., :half], x[..., half:])
    cos, sin = np.cos(by), np.sin(by)
    turned = (first * cos - second * sin, second * cos + first * sin)
    return np.stack(turned, -1).reshape(x.shape) if neighbours else np.concatenate(turned, -1)
