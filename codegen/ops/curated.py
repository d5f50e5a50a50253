"""What ops share about curated algorithms, which are rows of data files, and about CPU blocks."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..arch import Arch
from ..enums import EPILOGUE
from ..errors import InvalidKey
from ..factor import Axis
from ..key import KernelKey
from ..space import axis

Triple = tuple[int, int, int]
Row = TypeVar("Row")

# What a row says at least, and a caller must where there is no row.
ALGORITHM = ("tile", "wave", "warp", "pipeline", "scheduler")

_CPU_ROW_TILES = (1, 4, 8, 16)
_CPU_COLUMNS = (256, 512, 1024, 2048, 4096)
_CPU_DEPTHS = (128, 256, 384, 512)


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


def epilogues(facts: Arch, every: bool) -> Sequence[str]:
    """The epilogues of an axis: all, or what GPUs have by default; a CPU has one."""
    if not facts.is_gpu:
        return ["default"]
    return EPILOGUE.values if every else ["cshuffle"]


def cpu_tiles(key_class: type[KernelKey], registers: Sequence[tuple[int, ...]]) -> list[Axis]:
    """Axes of cache blocks that are multiples of the register tiles."""
    rows = sorted({m * q for m, _, _ in registers for q in _CPU_ROW_TILES})
    columns = sorted({-(-size // n) * n for _, n, _ in registers for size in _CPU_COLUMNS})
    sides = {"m": rows, "n": columns, "k": _CPU_DEPTHS}
    return [axis(key_class, f"tile_{side}", values) for side, values in sides.items()]
