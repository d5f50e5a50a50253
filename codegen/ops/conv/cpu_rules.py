"""Rules of CPU convolution kernels. Fields that mean nothing on a CPU have exactly one value."""

from __future__ import annotations

import functools

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import DTYPE, SPECIALIZATION
from ...rules import Rule
from .. import facts, tiles
from ..kinds import fixed_on_cpu, kind_rule
from .key import ConvKey
from .operands import DTYPES

PIPELINES = ("packed", "direct")
DIRECT_TYPES = ("fp32", "fp16", "bf16")
_SPECIAL = ("default", "filter1x1_stride1_pad0")

_cpu_rule = functools.partial(kind_rule, "cpu")
_fixed = functools.partial(fixed_on_cpu, ConvKey)


def _direct_tile(c: Columns) -> Array:
    lanes = np.maximum(facts.arch_array("vector_bytes")[c["arch"]] // 4, 1)
    registers = facts.arch_array("vector_registers")[c["arch"]]
    vectors = c["warp_n"].astype(np.int64) // lanes
    used = c["warp_m"].astype(np.int64) * vectors + vectors + 1
    fits = (c["warp_n"] % lanes == 0) & (used <= registers) & (c["warp_m"] > 0) & (vectors > 0)
    return np.asarray(~facts.has_pipeline(c, "direct") | (fits & (c["warp_k"] == 1)))


def _direct_tile_reason(k: ConvKey) -> str:
    found = arch(k.arch)
    return (
        f"register tile {tiles.join((k.warp,))} of direct: pixels x channels x 1, with channels a "
        f"multiple of {found.vector_bytes // 4} and all in {found.vector_registers} vector "
        "registers with one row of weights"
    )


def _direct_types(c: Columns) -> Array:
    same = [facts.one_of(DTYPE, DIRECT_TYPES, c[name]) for name in DTYPES]
    return np.asarray(~facts.has_pipeline(c, "direct") | np.logical_and.reduce(same))


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
    _cpu_rule(
        "direct_tile",
        "the register tile of direct is made of whole vectors that fit the registers",
        "arch pipeline warp_m warp_n warp_k",
        _direct_tile,
        _direct_tile_reason,
    ),
    _cpu_rule(
        "direct_dtype",
        "direct computes fp32, fp16 and bf16",
        f"pipeline {' '.join(DTYPES)}",
        _direct_types,
        lambda k: (
            f"pipeline direct has no kernel for {k.dtype_in}, {k.dtype_wei} and {k.dtype_out}; "
            f"use {', '.join(DIRECT_TYPES)}, or packed"
        ),
    ),
    _cpu_rule(
        "conv_tile",
        "convolutions do not use AMX",
        "warp_m",
        lambda c: c["warp_m"] != tiles.AMX_ROWS,
        lambda k: (
            f"register tile {tiles.join((k.warp,))} is one of AMX, which only GEMM and attention "
            "use; use another tile"
        ),
    ),
)
