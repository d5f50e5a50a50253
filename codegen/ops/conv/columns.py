"""The types that a direction multiplies, in columns of keys."""

from __future__ import annotations

import numpy as np

from ...columns import Array, Columns
from ...enums import FAMILY
from .operands import OPERANDS


def operand(c: Columns, index: int) -> Array:
    """The dtype column of A (0), B (1) or C (2) of each row's direction."""
    family = c["family"]
    chosen = c[f"dtype_{OPERANDS['conv.fwd'][index]}"]
    for name in ("conv.bwd_data", "conv.bwd_weight"):
        there = family == FAMILY.code(name)
        chosen = np.where(there, c[f"dtype_{OPERANDS[name][index]}"], chosen)
    return np.asarray(chosen)
