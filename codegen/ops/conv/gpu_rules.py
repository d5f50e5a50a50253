"""Rules of GPU convolution kernels: tiles, LDS, pipelines. They pass every CPU key."""

from __future__ import annotations

import functools

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import SCHEDULER
from ...rules import Rule
from .. import facts, tiles
from ..kinds import kind_rule
from .columns import operand
from .key import ConvKey
from .operands import DTYPES

PIPELINES = ("mem", "compv3", "compv4", "compv5")

_gpu_rule = functools.partial(kind_rule, True)


def _lds_use(c: Columns) -> Array:
    k = c["tile_k"].astype(np.int64)
    a = c["tile_m"] * k * facts.element_bytes(operand(c, 0))
    return np.asarray(a + c["tile_n"] * k * facts.element_bytes(operand(c, 1)))


def _lds_reason(k: ConvKey) -> str:
    m, n, depth = k.tile
    a, b = k.multiplied
    size_a, size_b = facts.ELEMENT_BYTES[a], facts.ELEMENT_BYTES[b]
    return (
        f"tiles of A and B take {m}x{depth}x{size_a} + {n}x{depth}x{size_b} = "
        f"{m * depth * size_a + n * depth * size_b} bytes of LDS; {k.pipeline} on {k.arch} may use "
        f"{arch(k.arch).lds_budget(k.pipeline)}"
    )


RULES: tuple[Rule, ...] = (
    *tiles.GPU,
    _gpu_rule(
        "gpu_pipeline",
        "the pipelines that convolutions of CK Tile are made with",
        "pipeline",
        lambda c: facts.has_pipeline(c, *PIPELINES),
        lambda k: (
            f"no convolution on {k.arch} has pipeline {k.pipeline}; use {', '.join(PIPELINES)}"
        ),
    ),
    _gpu_rule(
        "scheduler_default",
        "CK Tile's pipelines are scheduled intrawave or interwave",
        "scheduler",
        lambda c: c["scheduler"] != SCHEDULER.code("default"),
        lambda k: f"pipeline {k.pipeline} has no scheduler default; use intrawave",
    ),
    _gpu_rule(
        "double_buffer",
        "compv4 has two tiles in LDS in turn, and only it does",
        "pipeline double_buffer",
        lambda c: c["double_buffer"].astype(np.bool_) == facts.has_pipeline(c, "compv4"),
        lambda k: (
            f"pipeline {k.pipeline} cannot have double_buffer "
            f"{str(k.double_buffer).lower()}: compv4 has two buffers, the others one"
        ),
    ),
    _gpu_rule(
        "lds",
        "one tile of A and one of B fit the LDS budget of the pipeline on the arch",
        f"arch family pipeline {' '.join(DTYPES)} tile_m tile_n tile_k",
        lambda c: _lds_use(c) <= facts.lds_budgets()[c["arch"], c["pipeline"]],
        _lds_reason,
    ),
)
