"""Curated convolution algorithms: the few per arch and type that a deployment builds."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...arch import arch
from .. import facts
from ..curated import Triple, document, triple
from ..gemm.curated import curated as gemm_curated
from ..tiles import AMX_ROWS
from .cpu_rules import DIRECT_TYPES

_HERE = Path(__file__).parent
_GENERAL = "default"
_POINTWISE = "filter1x1_stride1_pad0"


@dataclass(frozen=True)
class Curated:
    """One algorithm. ``roles``: essential for small sets; search for tiles to time.

    ``spills`` says why a GPU tile is here although its code spills registers; else it is empty.
    """

    tile: Triple
    wave: Triple
    warp: Triple
    pipeline: str
    scheduler: str
    epilogue: str = "default"
    specialization: str = _GENERAL
    vector: Triple = (1, 1, 1)
    two_stage: bool = False
    split_k: bool = False
    num_wave_groups: int = 1
    groups_to_merge: int = 1
    roles: tuple[str, ...] = ("essential",)
    spills: str = ""

    @property
    def double_buffer(self) -> bool:
        """Follows from the pipeline."""
        return self.pipeline == "compv4"


def _cpu_rows(level: str, family: str, a: str, b: str) -> Iterator[Curated]:
    data = document(_HERE / "curated_cpu.json")
    for row in gemm_curated(level, "gemm.standard", a, b):
        if row.pipeline == "packed":
            if row.warp[0] == AMX_ROWS:
                other = data["without_amx"]
                row = replace(row, tile=triple(other["tile"]), warp=triple(other["warp"]))
            own = data["packed"].get(level) if row.warp[2] == 1 else None
            tile, warp = (triple(own["tile"]), triple(own["warp"])) if own else (row.tile, row.warp)
            yield Curated(tile, (1, 1, 1), warp, "packed", "default")
            yield Curated(
                row.tile, (1, 1, 1), row.warp, "packed", "default", specialization=_POINTWISE
            )
    if a == b and a in DIRECT_TYPES:
        tile = triple(data["direct"][level])
        yield Curated(tile, (1, 1, 1), tile, "direct", "default")


def _vectors(name: str, family: str, a: str, b: str, row: Mapping[str, Any]) -> Triple:
    """The widest vectors but for those of A, which suit channels that are multiples of 4.

    Where a direction transposes A or B, the vector must be that of CK's transposition.
    """
    m, n, k = row["tile"]
    lanes = math.prod(row["wave"]) * arch(name).wave_size
    result = "fp32" if row.get("two_stage") else facts.default_output(a)
    size_a, size_b, size_c = (facts.ELEMENT_BYTES[t] for t in (a, b, result))

    def own(outer: int, size: int) -> int:
        outer_and_lane = math.gcd(outer, outer * k // lanes)
        return next((w // size for w in (16, 8) if outer_and_lane % (w // size) == 0), 1)

    return (
        own(m, size_a) if family == "conv.bwd_weight" else min(4, 16 // size_a),
        own(n, size_b) if family != "conv.fwd" else min(8, 16 // size_b),
        16 // size_c,
    )


def _merged(group: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a group of the data file: its tiles, each with each of its ways to run."""
    for tile, wave, warp in group["tiles"]:
        for way in group["ways"]:
            yield {"tile": tile, "wave": wave, "warp": warp, **way}


def _gpu_rows(name: str, family: str, a: str, b: str) -> Iterator[Curated]:
    types = a if a == b else f"{a}_{b}"
    for group in document(_HERE / "curated_gpu.json")["groups"]:
        if name not in group["archs"] or types not in group["dtypes"]:
            continue
        for row in _merged(group):
            if family not in row.get("families", [family]):
                continue
            vector = row.get("vector")
            yield Curated(
                triple(row["tile"]),
                triple(row["wave"]),
                triple(row["warp"]),
                row.get("pipeline", "compv3"),
                row.get("scheduler", "intrawave"),
                row.get("epilogue", "cshuffle"),
                row.get("specialization", _GENERAL),
                triple(vector) if vector else _vectors(name, family, a, b, row),
                row.get("two_stage", False),
                row.get("split_k", False),
                row.get("num_wave_groups", 1),
                row.get("groups_to_merge", 1),
                tuple(row["roles"]),
                row.get("spills", {}).get(name, ""),
            )


@functools.cache
def curated(name: str, family: str, a: str, b: str) -> tuple[Curated, ...]:
    """The algorithms for a direction and the types of A and B on an arch."""
    rows = _gpu_rows if arch(name).is_gpu else _cpu_rows
    return tuple(rows(name, family, a, b))
