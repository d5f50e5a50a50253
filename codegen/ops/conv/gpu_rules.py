"""Rules of GPU convolution kernels: tiles, LDS, pipelines. They pass every CPU key."""

from __future__ import annotations

import functools

import numpy as np

from ...enums import SCHEDULER
from ...rules import Rule
from .. import facts, lds, tiles
from ..kinds import kind_rule
from .columns import operand
from .operands import DTYPES

PIPELINES = ("mem", "compv3", "compv4", "compv5")

_gpu_rule = functools.partial(kind_rule, "hip")


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
    tiles.HIP_EPILOGUE,
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
    lds.lds_rule(
        f"family {' '.join(DTYPES)}",
        lambda c: lds.inputs(c, operand(c, 0), operand(c, 1)),
        lambda k: lds.inputs_of(k)[1],
    ),
)
