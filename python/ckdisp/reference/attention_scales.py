"""The scales of quantised tensors: what their small numbers stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.errors import InvalidArgument

_Array = NDArray[Any]

# Rows that share a scale, where a tensor has one for each block.
BLOCK = 128


def block_scales(given: Any, name: str, shape: tuple[int, int, int], dtype: Any) -> _Array | None:
    """A scale for each block of rows of (batch, heads, rows), or of one number for all."""
    if given is None:
        return None
    batch, heads, rows = shape
    wanted = (batch, heads, -(-rows // BLOCK))
    found = finite(given, name, dtype)
    if found.size == 1:
        return np.full(wanted, found.reshape(-1)[0])
    if found.shape != wanted:
        raise InvalidArgument(
            f"{name} has shape {found.shape}; pass one number, or {wanted}, one for each batch, "
            f"head and {BLOCK} rows"
        )
    return found


def page_scales(given: Any, name: str, pages: _Array, dtype: Any) -> _Array:
    """``pages`` (pages, heads, rows, size) times a scale for each of them and each head."""
    wanted = pages.shape[:2]
    found = finite(given, name, dtype)
    if found.size != 1 and found.shape != wanted:
        raise InvalidArgument(
            f"{name} has shape {found.shape}; pass one number, or {wanted}, one for each page and "
            "head"
        )
    return pages * (found.reshape(1, 1) if found.size == 1 else found)[..., None, None]


def rows_scaled(rows: _Array, scales: _Array | None, place: tuple[int, int]) -> _Array:
    """``rows`` of the head ``place`` times their scales."""
    if scales is None:
        return rows
    each = np.repeat(scales[place], BLOCK)[: len(rows), None]
    scaled: _Array = rows * each
    return scaled


def finite(given: Any, name: str, dtype: Any) -> _Array:
    """Numbers, none of them NaN or infinite."""
    found = np.asarray(given).astype(dtype)
    if not np.all(np.isfinite(found)):
        raise InvalidArgument(f"{name} holds a number that is not finite; pass finite scales")
    return found
