"""Axes that the spaces of every op have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..arch import Arch
from ..factor import Axis
from ..key import KernelKey
from ..space import axis
from .definition import SpaceRequest
from .facts import EPILOGUES

_CPU_ROW_TILES = (1, 4, 8, 16)
_CPU_COLUMNS = (256, 512, 1024, 2048, 4096)
_CPU_DEPTHS = (128, 256, 384, 512)


def identity_axes(key_class: type[KernelKey], request: SpaceRequest) -> list[Axis]:
    """The axes of what a request names."""
    return [
        axis(key_class, "family", [request.family]),
        axis(key_class, "provider", [request.provider]),
        axis(key_class, "arch", [request.arch]),
    ]


def tile_axes(key_class: type[KernelKey], sides: Mapping[str, Sequence[int]]) -> list[Axis]:
    """Axes of the sizes of a tile along ``m``, ``n`` and ``k``."""
    return [axis(key_class, f"tile_{side}", values) for side, values in sides.items()]


def cpu_tiles(key_class: type[KernelKey], registers: Sequence[tuple[int, ...]]) -> list[Axis]:
    """Axes of cache blocks that are multiples of the register tiles."""
    rows = sorted({m * q for m, _, _ in registers for q in _CPU_ROW_TILES})
    columns = sorted({-(-size // n) * n for _, n, _ in registers for size in _CPU_COLUMNS})
    return tile_axes(key_class, {"m": rows, "n": columns, "k": _CPU_DEPTHS})


def epilogues(facts: Arch, every: bool) -> Sequence[str]:
    """The epilogues of an axis: all of the kind of machine, or what AMD GPUs have by default."""
    known = EPILOGUES[facts.device_kind or "cpu"]
    return known if every or len(known) == 1 else ["cshuffle"]
