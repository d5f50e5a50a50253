"""The rule of LDS: what a block keeps there fits the budget of its pipeline on the arch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arch import arch
from ..columns import Array, Columns
from ..rules import Rule
from . import facts
from .kinds import kind_rule


def inputs(c: Columns, a: Array, b: Array) -> Array:
    """Bytes of one tile of A and one of B, of the types ``a`` and ``b``."""
    k = c["tile_k"].astype(np.int64)
    tile_a = c["tile_m"] * k * facts.element_bytes(a)
    return np.asarray(tile_a + c["tile_n"] * k * facts.element_bytes(b))


def inputs_of(k: Any) -> tuple[int, str]:
    """The same of one key, and what they are in words."""
    m, n, depth = k.tile
    size_a, size_b = (facts.ELEMENT_BYTES[dtype] for dtype in k.multiplied)
    total = m * depth * size_a + n * depth * size_b
    return total, (
        f"tiles of A and B take {m}x{depth}x{size_a} + {n}x{depth}x{size_b} = {total} bytes of LDS"
    )


def lds_rule(columns: str, use: Callable[[Columns], Array], use_of: Callable[[Any], str]) -> Rule:
    """The rule, given the bytes of ``use``, found in ``columns``, and their words of one key."""
    return kind_rule(
        "hip",
        "lds",
        "one tile of A and one of B fit the LDS budget of the pipeline on the arch",
        f"arch pipeline {columns} tile_m tile_n tile_k",
        lambda c: use(c) <= facts.lds_budgets()[c["arch"], c["pipeline"]],
        lambda k: (
            f"{use_of(k)}; {k.pipeline} on {k.arch} may use {arch(k.arch).lds_budget(k.pipeline)}"
        ),
    )
