"""What ops share about curated algorithms, which are rows of data files."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InvalidKey

Triple = tuple[int, int, int]
Row = TypeVar("Row")

# What a row says at least, and a caller must where there is no row.
ALGORITHM = ("tile", "wave", "warp", "pipeline", "scheduler")


@functools.cache
def document(path: Path) -> Any:
    """The content of a data file."""
    return json.loads(path.read_text(encoding="utf-8"))


def triple(numbers: Sequence[int]) -> Triple:
    """M, N and K of a list in a data file."""
    m, n, k = numbers
    return m, n, k


def closest(
    rows: Sequence[Row], fields: Sequence[str], values: Mapping[str, Any], types: tuple[str, str]
) -> Row | None:
    """The row that agrees most with ``values``: a pipeline goes with its tile. None without rows.

    Where there are no rows, ``values`` must have the whole algorithm; else :class:`InvalidKey`.
    ``types`` are those of A and B.
    """
    if rows:
        return max(rows, key=lambda r: sum(getattr(r, f) == values.get(f) for f in fields))
    missing = [f for f in ALGORITHM if f not in values]
    if missing:
        raise InvalidKey(
            f"no default tile for {values['family']} {' x '.join(types)} on {values['arch']}: "
            f"give {', '.join(missing)}, or choose types that the arch supports"
        )
    return None
