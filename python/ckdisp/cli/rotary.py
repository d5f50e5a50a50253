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
