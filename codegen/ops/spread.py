"""How CK Tile spreads a tile over the lanes of a block."""

from __future__ import annotations

import numpy as np

from ..columns import Array, Columns
from ..enums import DTYPE
from . import facts

VECTOR_BYTES = 16
# Bytes that a lane of gfx950 gets when it reads LDS with a transposing instruction.
_TRANSPOSED_BYTES = 8


def int64(c: Columns, name: str) -> Array:
    return c[name].astype(np.int64)


def ratio(a: Array, b: Array) -> Array:
    """``a // b`` for positive numbers; 0 where ``b`` is 0."""
    return np.asarray(np.where(b > 0, a // np.maximum(b, 1), 0))


def divides(a: Array, b: Array) -> Array:
    """Whether ``b`` is a positive multiple of ``a``."""
    return np.asarray((a > 0) & (b > 0) & (b % np.maximum(a, 1) == 0))


def is_power_of_two(values: Array) -> Array:
    return np.asarray((values > 0) & ((values & (values - 1)) == 0))


def load_vector(contiguous: Array, per_lane: Array, size: Array) -> Array:
    """How many values CK loads at once: 16 bytes, else 8, else one value."""
    found = np.ones(np.broadcast(contiguous, per_lane, size).shape, np.int64)
    for width in (VECTOR_BYTES // 2, VECTOR_BYTES):
        values = width // size
        found = np.where(divides(values, contiguous) & divides(values, per_lane), values, found)
    return found


def covers(contiguous: Array, rows: Array, vector: Array, waves: Array, lanes: Array) -> Array:
    """Whether ``waves`` of ``lanes`` cover ``rows`` of ``contiguous`` values in whole passes.

    A lane holds ``vector`` values of one row, or fewer if there are more lanes than vectors. The
    lanes of a wave take whole rows.
    """
    per_lane = ratio(contiguous * rows, waves * lanes)
    held = np.minimum(vector, per_lane)
    in_row = ratio(contiguous, held)
    pass_rows = ratio(lanes, in_row) * waves
    return divides(in_row, lanes) & divides(held, contiguous) & divides(pass_rows, rows)


def waves(c: Columns) -> Array:
    return int64(c, "wave_m") * int64(c, "wave_n") * int64(c, "wave_k")


def reads_transposed(c: Columns, dtype: Array) -> Array:
    """Whether CK has the transposing reads of LDS that gfx950 does for a warp tile of ``dtype``."""
    values = _TRANSPOSED_BYTES // facts.element_bytes(dtype) * facts.lanes(c)
    size = int64(c, "warp_n") * int64(c, "warp_k")
    reads = ratio(size, values)
    half = facts.one_of(DTYPE, ("fp16", "bf16"), dtype)
    byte = facts.one_of(DTYPE, ("fp8", "bf8", "int8"), dtype)
    known = (reads == 1) & (half | byte) | (reads == 2) & half | (reads == 4) & byte
    return np.asarray((reads * values == size) & known)


def repeats_m(c: Columns) -> Array:
    """Warp tiles of a wave along M."""
    return ratio(int64(c, "tile_m"), int64(c, "warp_m") * int64(c, "wave_m"))


def held_by_warp(c: Columns) -> Array:
    """Values of a warp tile of C in each lane."""
    return ratio(int64(c, "warp_m") * int64(c, "warp_n"), facts.lanes(c))
