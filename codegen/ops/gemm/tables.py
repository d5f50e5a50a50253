"""What is special to GEMM: limits of tiles, D tensors of fused operations."""

from __future__ import annotations

import functools

import numpy as np

from ...columns import Array
from ...enums import FAMILY
from .key import Triple

# (minimum, alignment) of a GPU tile in M, N and K.
TILE_LIMITS: dict[str, tuple[Triple, Triple]] = {
    "gemm.standard": ((16, 16, 8), (16, 16, 8)),
    "gemm.preshuffle": ((64, 64, 32), (32, 32, 16)),
    "gemm.multi_d": ((16, 16, 8), (16, 16, 8)),
}

# Element-wise operation -> fewest and most D tensors; the others take any number.
_D_COUNT = {
    "passthrough": (0, 0),
    "add": (1, 1),
    "multiply": (1, 1),
    "multi_d_add": (1, 4),
    "multi_d_multiply": (1, 4),
}
_ANY_D_COUNT = (0, 4)


def d_count(elementwise: str) -> tuple[int, int]:
    """The fewest and the most D tensors that an element-wise operation takes."""
    return _D_COUNT.get(elementwise, _ANY_D_COUNT)


def limits_of(family: str) -> tuple[Triple, Triple]:
    """Minimum and alignment of the tiles of a family; those of other ops have none."""
    return TILE_LIMITS.get(family, ((1, 1, 1), (1, 1, 1)))


@functools.cache
def tile_limits(part: int) -> Array:
    """(families, 3): minimum (0) or alignment (1) of GPU tiles; 1 for families of other ops."""
    return np.array([limits_of(f)[part] for f in FAMILY.values], np.int64)
