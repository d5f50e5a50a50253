"""Rules of CPU convolution kernels. Fields that mean nothing on a CPU have exactly one value."""

from __future__ import annotations

import functools

from ...enums import SPECIALIZATION
from ...rules import Rule
from .. import facts, tiles
from ..kinds import fixed_on_cpu, kind_rule
from .key import ConvKey

PIPELINES = ("packed", "direct")
_SPECIAL = ("default", "filter1x1_stride1_pad0")

_cpu_rule = functools.partial(kind_rule, False)
_fixed = functools.partial(fixed_on_cpu, ConvKey)


RULES: tuple[Rule, ...] = (
    _cpu_rule(
        "cpu_pipeline",
        "CPU levels convolve with the pipelines packed and direct",
        "pipeline",
        lambda c: facts.has_pipeline(c, *PIPELINES),
        lambda k: f"{k.arch} has no pipeline {k.pipeline} for convolutions; use packed or direct",
    ),
    _cpu_rule(
        "cpu_specialization",
        "packed may be restricted to filters of one pixel, direct is not",
        "pipeline specialization",
        lambda c: (
            (c["specialization"] == SPECIALIZATION.code("default"))
            | facts.has_pipeline(c, "packed")
            & facts.one_of(SPECIALIZATION, _SPECIAL, c["specialization"])
        ),
        lambda k: (
            f"pipeline {k.pipeline} on {k.arch} has no specialization {k.specialization}; use "
            f"{'default' if k.pipeline == 'direct' else ' or '.join(_SPECIAL)}"
        ),
    ),
    _fixed("wave", (1, 1, 1), "a CPU has no waves"),
    _fixed("scheduler", "default", "the compiler schedules CPU code"),
    _fixed("epilogue", "default", "C leaves registers directly"),
    _fixed("vector", (1, 1, 1), "CPU kernels take any number of channels"),
    _fixed("double_buffer", False, "a CPU has no LDS"),
    _fixed("split_k", False, "CPU kernels keep the order of additions"),
    _fixed("two_stage", False, "CPU kernels always sum in the accumulator's type"),
    _fixed("split_image", False, "CPU kernels count in 64 bits"),
    _fixed("explicit_gemm", False, "filter1x1_stride1_pad0 says that on a CPU"),
    _fixed("groups_to_merge", 1, "direct computes groups side by side by itself"),
    _fixed("num_wave_groups", 1, "a CPU has no waves"),
    _fixed("block_per_cu", 1, "a CPU has no blocks"),
    tiles.CPU_BLOCK,
)
