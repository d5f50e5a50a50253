"""The rules of GEMM keys: what may be computed, and the tiles that GPUs and CPUs share."""

from __future__ import annotations

import numpy as np

from ...columns import Array, Columns
from ...enums import ELEMENTWISE, FAMILY
from ...rules import Rule
from .. import facts, tiles
from ..types import OUTPUTS, type_rules
from . import ck_rules, cpu_rules, cutlass_rules, gpu_rules, tables
from .key import GemmKey

_MULTI_D = FAMILY.code("gemm.multi_d")
_D_COUNTS = np.array([tables.d_count(e) for e in ELEMENTWISE.values])


def _output(column: str, c: Columns) -> Array:
    return np.asarray(OUTPUTS[c["dtype_a"], c[column]])


def _family_elementwise(c: Columns) -> Array:
    plain = (c["elementwise"] == ELEMENTWISE.code("passthrough")) & (c["num_d"] == 0)
    return np.asarray((c["family"] == _MULTI_D) | plain)


def _d_count(c: Columns) -> Array:
    low, high = _D_COUNTS[c["elementwise"]].T
    return np.asarray((c["num_d"] >= low) & (c["num_d"] <= high))


def _d_count_reason(k: GemmKey) -> str:
    low, high = tables.d_count(k.elementwise)
    count = f"{low}" if low == high else f"{low} to {high}"
    return f"{k.elementwise} takes {count} D tensor(s), not {k.num_d}"


def _unused_d(c: Columns) -> Array:
    canonical = (c["dtype_d"] == c["dtype_c"]) & (c["layout_d"] == 0)
    return np.asarray((c["num_d"] > 0) | canonical)


_COMMON: tuple[Rule, ...] = (
    tiles.PROVIDER,
    *type_rules(("dtype_a", "dtype_b"), lambda c: (c["dtype_a"], c["dtype_b"])),
    Rule(
        "output_dtype",
        "C has a type that the accumulator converts to",
        ("dtype_a", "dtype_c"),
        lambda c: _output("dtype_c", c),
        lambda k: (
            f"C cannot be {k.dtype_c} when A is {k.dtype_a}; "
            f"use {', '.join(facts.outputs(k.dtype_a))}"
        ),
    ),
    Rule(
        "d_dtype",
        "D has a type that C may have",
        ("num_d", "dtype_a", "dtype_d"),
        lambda c: (c["num_d"] == 0) | _output("dtype_d", c),
        lambda k: (
            f"D cannot be {k.dtype_d} when A is {k.dtype_a}; "
            f"use {', '.join(facts.outputs(k.dtype_a))}"
        ),
    ),
    Rule(
        "family_elementwise",
        "only gemm.multi_d fuses an element-wise operation or D tensors",
        ("family", "elementwise", "num_d"),
        _family_elementwise,
        lambda k: (
            f"{k.family} has no element-wise operation or D tensors, not "
            f"{k.elementwise} with {k.num_d}; use gemm.multi_d"
        ),
    ),
    Rule(
        "d_count",
        "the element-wise operation takes this number of D tensors",
        ("elementwise", "num_d"),
        _d_count,
        _d_count_reason,
    ),
    Rule(
        "unused_d",
        "without D tensors, dtype_d equals dtype_c and layout_d is r",
        ("num_d", "dtype_c", "dtype_d", "layout_d"),
        _unused_d,
        lambda k: (
            f"without D tensors dtype_d must be {k.dtype_c} and layout_d r, "
            f"not {k.dtype_d} and {k.layout_d}"
        ),
    ),
    tiles.DIVISIBLE,
    tiles.COVERS,
)

RULES: tuple[Rule, ...] = (
    *_COMMON,
    *gpu_rules.RULES,
    *ck_rules.RULES,
    *cpu_rules.RULES,
    *cutlass_rules.RULES,
)
