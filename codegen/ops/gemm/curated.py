"""Curated GEMM tiles: the few per arch and type that a deployment builds, from data files."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...arch import arch, arches
from .. import facts
from ..curated import Triple, document, triple

_HERE = Path(__file__).parent
_CPU_ROLES = {
    "packed": ("compute", "essential"),
    "skinny": ("memory", "latency", "essential"),
}


@dataclass(frozen=True)
class Curated:
    """One algorithm. ``roles``: compute, memory (few rows), latency; essential for small sets.

    ``spills`` says why a GPU tile is here although its code spills registers; else it is empty.
    ``epilogue`` is that of the tile, if it goes with one alone.
    """

    roles: tuple[str, ...]
    tile: Triple
    wave: Triple
    warp: Triple
    pipeline: str
    scheduler: str
    num_wave_groups: int
    spills: str = ""
    epilogue: str = ""


def _cpu_rows(level: str, dtype_a: str) -> Iterator[Curated]:
    for row in document(_HERE / "curated_cpu.json")[level].get(dtype_a, ()):
        roles = _CPU_ROLES[row["pipeline"]]
        tile, warp = triple(row["tile"]), triple(row["warp"])
        yield Curated(roles, tile, (1, 1, 1), warp, row["pipeline"], "default", 1)


def _gpu_rows(name: str, family: str, dtypes: str) -> Iterator[Curated]:
    kind = "preshuffle" if family == "gemm.preshuffle" else "block"
    for group in document(_HERE / "curated_gpu.json")["groups"]:
        if kind == group["kind"] and name in group["archs"] and dtypes in group["dtypes"]:
            for row in group["rows"]:
                yield Curated(
                    tuple(row["roles"]),
                    triple(row["tile"]),
                    triple(row["wave"]),
                    triple(row["warp"]),
                    row["pipeline"],
                    row["scheduler"],
                    row.get("num_wave_groups", 1),
                    row.get("spills", {}).get(name, ""),
                    row.get("epilogue", ""),
                )


@functools.cache
def curated(name: str, family: str, dtype_a: str, dtype_b: str) -> tuple[Curated, ...]:
    """The curated algorithms for a pair of types on an arch; empty where there are none."""
    if arch(name).is_gpu:
        same = dtype_a if dtype_a == dtype_b else f"{dtype_a}_{dtype_b}"
        return tuple(_gpu_rows(name, family, same))
    allowed = facts.warp_tiles(arches()[name], family, dtype_a, dtype_b)
    return tuple(r for r in _cpu_rows(name, dtype_a) if r.warp in allowed)
