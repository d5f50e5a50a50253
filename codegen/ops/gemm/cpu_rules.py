"""GEMM rules of CPU kernels. Fields that mean nothing on a CPU have exactly one value."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...columns import Array, Columns, encode
from ...enums import FAMILY, PIPELINE
from ...rules import Rule
from ...schema import fields_by_name
from .key import GemmKey
from .kinds import kind_rule

# Packed panels of A (mc x kc) stay in L2 and of B (nc x kc) in L3; these are upper bounds.
MAX_A_PANEL = 1 << 19
MAX_B_PANEL = 1 << 23
MAX_BLOCK = 1 << 16
MAX_SKINNY_ROWS = 64


_cpu_rule = functools.partial(kind_rule, False)


def _fixed(field: str, value: Any, why: str) -> Rule:
    spec = fields_by_name(GemmKey)[field]
    codes = dict(zip(spec.columns(), encode(spec, value), strict=True))

    def valid(c: Columns) -> Array:
        return np.asarray(np.logical_and.reduce([c[name] == code for name, code in codes.items()]))

    shown = str(list(value) if isinstance(value, tuple) else value).lower()
    return _cpu_rule(
        f"cpu_{field}",
        f"{why}: {field} is {shown} on CPU levels",
        " ".join(codes),
        valid,
        lambda k: f"{field} must be {shown} on {k.arch}, not {getattr(k, field)}: {why}",
    )


def _is(pipeline: str, c: Columns) -> Array:
    return np.asarray(c["pipeline"] == PIPELINE.code(pipeline))


def _block(c: Columns) -> Array:
    m, n, k = (c[name].astype(np.int64) for name in ("tile_m", "tile_n", "tile_k"))
    size = (m <= MAX_BLOCK) & (n <= MAX_BLOCK) & (k <= MAX_BLOCK)
    panels = (m * k <= MAX_A_PANEL) & (n * k <= MAX_B_PANEL)
    return size & (panels | _is("skinny", c))


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
    _cpu_rule(
        "cpu_block",
        "the cache block is not larger than any cache",
        "pipeline tile_m tile_n tile_k",
        _block,
        lambda k: (
            f"cache block {k.tile[0]}x{k.tile[1]}x{k.tile[2]}: each side is at most "
            f"{MAX_BLOCK}, and for packed M x K at most {MAX_A_PANEL} and N x K at most "
            f"{MAX_B_PANEL} values"
        ),
    ),
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
)
