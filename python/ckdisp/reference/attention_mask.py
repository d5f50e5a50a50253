"""Which keys the queries of a sequence see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codegen.enums import unknown
from ..codegen.errors import InvalidArgument

_MASKS = ("no", "top_left", "bottom_right", "generic")


def check_mask(mask: str) -> None:
    if mask not in _MASKS:
        raise InvalidArgument(unknown("mask", mask, _MASKS))


@dataclass(frozen=True)
class Mask:
    """Keys that a query sees: those from ``left`` before to ``right`` behind its own, -1 all.

    A query's own key is at its place, or counted from the last ones (``bottom_right``). The first
    ``sink`` keys are always seen.
    """

    left: int
    right: int
    bottom_right: bool
    sink: int

    @classmethod
    def make(cls, mask: str, window: Sequence[int] | None, sink: int | None) -> Mask:
        check_mask(mask)
        if mask == "generic" and window is None:
            raise InvalidArgument("mask 'generic' needs window=(left, right)")
        triangle = mask in ("top_left", "bottom_right")
        if window is not None and (not hasattr(window, "__len__") or len(window) != 2):
            raise InvalidArgument(
                f"window is {window!r}; pass (left, right), numbers of keys or -1"
            )
        left, right = window if window is not None else (-1, 0 if triangle else -1)
        if left < -1 or right < -1:
            raise InvalidArgument(f"window is ({left}, {right}); pass numbers of keys, -1 for all")
        if sink is not None and sink < 0:
            raise InvalidArgument(f"sink is {sink}; pass a number of keys")
        return cls(left, right, mask != "top_left", sink or 0)

    def seen(self, rows: int, columns: int) -> NDArray[Any]:
        """(rows, columns) of bool."""
        i, j = np.indices((rows, columns))
        place = j - i - (columns - rows if self.bottom_right else 0)
        found = np.ones((rows, columns), np.bool_)
        if self.left >= 0:
            found &= place >= -self.left
        if self.right >= 0:
            found &= place <= self.right
        found |= j < self.sink
        return found
