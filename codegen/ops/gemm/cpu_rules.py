"""GEMM rules of CPU kernels. Fields that mean nothing on a CPU have exactly one value."""

from __future__ import annotations

import functools

import numpy as np

from ...columns import Array, Columns
from ...enums import FAMILY, PIPELINE
from ...rules import Rule
from .. import tiles
from ..kinds import fixed_on_cpu, kind_rule
from .key import GemmKey

MAX_SKINNY_ROWS = 64


_cpu_rule = functools.partial(kind_rule, "cpu")
_fixed = functools.partial(fixed_on_cpu, GemmKey)


def _is(pipeline: str, c: Columns) -> Array:
    return np.asarray(c["pipeline"] == PIPELINE.code(pipeline))


RULES: tuple[Rule, ...] = (
    _cpu_rule(
        "cpu_family",
        "gemm.preshuffle has no CPU kernel: the CPU packs B itself",
        "family",
        lambda c: c["family"] != FAMILY.code("gemm.preshuffle"),
        lambda k: f"{k.family} has no kernel for {k.arch}; use gemm.standard, which packs B itself",
    ),
    _cpu_rule(
        "cpu_pipeline",
        "CPU levels have the pipelines packed and skinny",
        "pipeline",
        lambda c: _is("packed", c) | _is("skinny", c),
        lambda k: f"{k.arch} has no pipeline {k.pipeline}; use packed or skinny",
    ),
    _fixed("wave", (1, 1, 1), "a CPU has no waves"),
    _fixed("scheduler", "default", "the compiler schedules CPU code"),
    _fixed("epilogue", "default", "C leaves registers directly"),
    _fixed("pad_m", True, "CPU kernels take any M"),
    _fixed("pad_n", True, "CPU kernels take any N"),
    _fixed("pad_k", True, "CPU kernels take any K"),
    _fixed("persistent", False, "a CPU has no blocks"),
    _fixed("split_k", False, "CPU kernels keep the order of additions"),
    _fixed("num_wave_groups", 1, "a CPU has no waves"),
    _fixed("block_per_cu", 1, "a CPU has no blocks"),
    tiles.CPU_BLOCK,
    _cpu_rule(
        "skinny_rows",
        "skinny is for few rows",
        "pipeline tile_m",
        lambda c: ~_is("skinny", c) | (c["tile_m"] <= MAX_SKINNY_ROWS),
        lambda k: (
            f"pipeline skinny takes at most {MAX_SKINNY_ROWS} rows at a time, "
            f"not tile M {k.tile[0]}; use packed"
        ),
    ),
    _cpu_rule(
        "skinny_tile",
        "skinny does not use AMX, whose operands are packed",
        "pipeline warp_m",
        lambda c: ~_is("skinny", c) | (c["warp_m"] != tiles.AMX_ROWS),
        lambda k: (
            f"register tile {tiles.join((k.warp,))} is one of AMX, which multiplies packed "
            "operands; use packed, or another tile"
        ),
    ),
)
