"""The rules of convolution keys: what may be computed, and what GPUs and CPUs share."""

from __future__ import annotations

import numpy as np

from ...columns import Array, Columns
from ...enums import DTYPE, FAMILY
from ...rules import Rule
from .. import facts, tiles
from ..types import OUTPUTS, type_rules
from . import ck_rules, cpu_rules, gpu_rules
from .columns import operand
from .key import ConvKey
from .operands import DTYPES

_FORWARD = FAMILY.code("conv.fwd")
_WEIGHTS = FAMILY.code("conv.bwd_weight")
# What gradients are computed in.
_GRADIENT = ("fp32", "fp16", "bf16")


def _result_reason(k: ConvKey) -> str:
    a, _, c = k.operands
    return f"{k.family} cannot make {c} out of {a}; use {', '.join(facts.outputs(a))}"


def _gradient(c: Columns) -> Array:
    same = [facts.one_of(DTYPE, _GRADIENT, c[name]) for name in DTYPES]
    return np.asarray((c["family"] == _FORWARD) | np.logical_and.reduce(same))


_COMMON: tuple[Rule, ...] = (
    tiles.PROVIDER,
    *type_rules(("family", *DTYPES), lambda c: (operand(c, 0), operand(c, 1))),
    Rule(
        "result_dtype",
        "the result has a type that the accumulator converts to",
        ("family", *DTYPES),
        lambda c: np.asarray(OUTPUTS[operand(c, 0), operand(c, 2)]),
        _result_reason,
    ),
    Rule(
        "gradient_dtype",
        "gradients are computed in fp32, fp16 and bf16",
        ("family", *DTYPES),
        _gradient,
        lambda k: (
            f"{k.family} of {k.dtype_in} input, {k.dtype_wei} weights and {k.dtype_out} output: "
            f"gradients are {', '.join(_GRADIENT)}; only conv.fwd takes others"
        ),
    ),
    tiles.DIVISIBLE,
    tiles.COVERS,
    Rule(
        "split_k_direction",
        "only conv.bwd_weight, whose sums run over all pixels, splits them",
        ("family", "split_k"),
        lambda c: (c["family"] == _WEIGHTS) | ~c["split_k"].astype(np.bool_),
        lambda k: (
            f"{k.family} cannot have split_k: CK Tile splits only the sums of conv.bwd_weight"
        ),
    ),
    Rule(
        "two_stage_direction",
        "only conv.bwd_weight has a second stage",
        ("family", "two_stage"),
        lambda c: (c["family"] == _WEIGHTS) | ~c["two_stage"].astype(np.bool_),
        lambda k: f"{k.family} cannot be two_stage: only conv.bwd_weight has a second stage",
    ),
    Rule(
        "split_image_direction",
        "only conv.fwd splits images",
        ("family", "split_image"),
        lambda c: (c["family"] == _FORWARD) | ~c["split_image"].astype(np.bool_),
        lambda k: f"{k.family} cannot have split_image: only conv.fwd splits images",
    ),
)

RULES: tuple[Rule, ...] = _COMMON + gpu_rules.RULES + ck_rules.RULES + cpu_rules.RULES
