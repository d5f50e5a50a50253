"""The attention kernels that a deployment builds: what CK Tile's generator would."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...columns import Array, Columns
from ...rules import Rule
from ..curated import document
from . import receipts
from .columns import any_of
from .receipts import Alternative

# The fields of a way that a tile is listed with; its other fields are features.
ALGORITHM = ("pipeline", "padding", "use_trload", "num_wave_groups")
# Features of newer headers than the lists are of: who names them gets every value.
_NEWER = frozenset(("page_size", "kv_memory_layout", "kv_lookup_table"))


@dataclass(frozen=True)
class Curated:
    """One algorithm, and the values of features that it is built with: of others, all."""

    dtype: str
    hdim_q: int
    hdim_v: int
    tile: str
    wave: str
    warp: str
    block_per_cu: int
    max_seq_len_q: int
    pipeline: str
    padding: tuple[int, ...]
    use_trload: bool
    num_wave_groups: int
    features: Alternative
    receipts: tuple[str, ...] | None


FIELDS = tuple(Curated.__annotations__)[:-2]


@functools.cache
def curated(arch: str, family: str) -> tuple[Curated, ...]:
    """The algorithms of a family on an arch, in the order of the data file."""
    groups = document(Path(__file__).with_name("curated_gpu.json"))["groups"]
    return tuple(
        row
        for group in groups
        if group["family"] == family and arch in group["archs"]
        for row in _rows(group)
    )


def _rows(group: Mapping[str, Any]) -> Iterator[Curated]:
    for dtype in group["dtypes"]:
        for (q, v), tile, wave, warp, *rest in group["tiles"]:
            blocks, longest = (*rest, 0, 0)[:2]
            for way in group["ways"]:
                named = way.get("receipts")
                features = {f: w for f, w in way.items() if f not in (*ALGORITHM, "receipts")}
                for padding in way["padding"]:
                    yield Curated(
                        *(dtype, q, v, tile, wave, warp, blocks, longest),
                        way["pipeline"][0],
                        tuple(padding),
                        way.get("use_trload", [False])[0],
                        way.get("num_wave_groups", [1])[0],
                        features,
                        None if named is None else tuple(named),
                    )


def built(arch: str, family: str, receipt: str) -> tuple[Curated, ...]:
    """The algorithms that are built for a receipt."""
    return tuple(r for r in curated(arch, family) if r.receipts is None or receipt in r.receipts)


@functools.cache
def rule(arch: str, family: str, receipt: str, named: frozenset[str]) -> Rule:
    """The rule that an algorithm is built with its features only; ``named`` lifts newer ones."""
    free = _NEWER & named
    ways: dict[str, Alternative] = {}
    for row in built(arch, family, receipt):
        features = {f: v for f, v in row.features.items() if f not in free}
        way: dict[str, Any] = {
            **{f: [getattr(row, f)] for f in ("dtype", "hdim_q", "hdim_v")},
            **{f: [getattr(row, f)] for f in ("pipeline", "padding")},
            **features,
        }
        ways[repr(way)] = way
    found = tuple(ways.values())

    def valid(c: Columns) -> Array:
        return np.asarray(any_of([receipts.matches(w, c) for w in found]))

    return Rule(
        "curated",
        "CK Tile's generator builds the algorithm with the features",
        receipts.columns_of(found),
        valid,
        lambda k: (
            f"no kernel of {k.family} with pipeline {k.pipeline}, padding {k.padding} and these "
            "features is in the curated set"
        ),
    )
