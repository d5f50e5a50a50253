"""The rules of convolution keys: what may be computed, and what GPUs and CPUs share."""

from __future__ import annotations

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import DTYPE, FAMILY
from ...rules import Rule
from .. import facts, tiles
from . import ck_rules, cpu_rules, gpu_rules
from .key import ConvKey
from .operands import DTYPES, operand, types

_OUTPUTS = np.array([[t in facts.outputs(a) for t in DTYPE.values] for a in DTYPE.values])
_FORWARD = FAMILY.code("conv.fwd")
_WEIGHTS = FAMILY.code("conv.bwd_weight")
# What gradients are computed in.
_GRADIENT = ("fp32", "fp16", "bf16")


def operand_types(k: ConvKey) -> tuple[str, str, str]:
    """The types of A, B and C."""
    return types(k.family, (k.dtype_in, k.dtype_wei, k.dtype_out))


def _multiplies(c: Columns) -> Array:
    return facts.multiplies(c, operand(c, 0), operand(c, 1))


def _dtypes_reason(k: ConvKey) -> str:
    a, b, _ = operand_types(k)
    found = arch(k.arch)
    known = [p for p in facts.pairs() if facts.warp_tiles(found, k.family, *p)]
    listed = ", ".join(x if x == y else f"{x} x {y}" for x, y in known) or "nothing"
    what = "matrix instruction" if found.is_gpu else "kernel"
    return f"{k.arch} has no {what} for {a} x {b} in {k.family}; it has {listed}"


def _accumulator(c: Columns) -> Array:
    int8 = DTYPE.code("int8")
    both = (operand(c, 0) == int8) & (operand(c, 1) == int8)
    expected = np.where(both, DTYPE.code("int32"), DTYPE.code("fp32"))
    return np.asarray(c["dtype_acc"] == expected)


def _accumulator_reason(k: ConvKey) -> str:
    a, b, _ = operand_types(k)
    return f"{a} x {b} accumulates in {facts.accumulator(a, b)}, not {k.dtype_acc}"


def _result_reason(k: ConvKey) -> str:
    a, _, c = operand_types(k)
    return f"{k.family} cannot make {c} out of {a}; use {', '.join(facts.outputs(a))}"


def _gradient(c: Columns) -> Array:
    same = [facts.one_of(DTYPE, _GRADIENT, c[name]) for name in DTYPES]
    return np.asarray((c["family"] == _FORWARD) | np.logical_and.reduce(same))


def _warp_reason(k: ConvKey) -> str:
    a, b, _ = operand_types(k)
    found = arch(k.arch)
    known = tiles.join(facts.warp_tiles(found, k.family, a, b)) or "none"
    what = "warp" if found.is_gpu else "register"
    return f"{k.arch} has no {what} tile {tiles.join((k.warp,))} for {a} x {b}; allowed: {known}"


_COMMON: tuple[Rule, ...] = (
    tiles.PROVIDER,
    Rule(
        "dtypes",
        "the arch multiplies the types of A and B",
        ("arch", "family", *DTYPES),
        _multiplies,
        _dtypes_reason,
    ),
    Rule(
        "accumulator",
        "int8 accumulates in int32, everything else in fp32",
        ("family", *DTYPES, "dtype_acc"),
        _accumulator,
        _accumulator_reason,
    ),
    Rule(
        "result_dtype",
        "the result has a type that the accumulator converts to",
        ("family", *DTYPES),
        lambda c: np.asarray(_OUTPUTS[operand(c, 0), operand(c, 2)]),
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
    Rule(
        "warp_tile",
        "the warp tile (CPU: register tile) is in the list of the arch for the types",
        ("arch", "family", *DTYPES, "pipeline", "warp_m", "warp_n", "warp_k"),
        # dtypes speaks for unknown pairs, and direct has no such tile.
        lambda c: (
            ~_multiplies(c)
            | facts.has_pipeline(c, "direct")
            | facts.has_warp_tile(c, operand(c, 0), operand(c, 1))
        ),
        _warp_reason,
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
