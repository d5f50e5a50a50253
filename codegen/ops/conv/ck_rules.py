"""Convolution rules that CK Tile's templates imply."""

from __future__ import annotations

import functools

from ...columns import Array, Columns
from ...rules import Rule
from ..kinds import kind_rule

_gpu_rule = functools.partial(kind_rule, True)
_WIDTHS = (1, 2, 4, 8, 16)


def _vector(c: Columns) -> Array:
    valid = (c["vector_a"] > 0) & (c["vector_b"] > 0) & (c["vector_c"] > 0)
    for name in ("vector_a", "vector_b", "vector_c"):
        width = c[name]
        valid &= (width <= max(_WIDTHS)) & ((width & (width - 1)) == 0)
    return valid


RULES: tuple[Rule, ...] = (
    _gpu_rule(
        "vector_width",
        "an access has a power of two of elements, at most 16",
        "vector_a vector_b vector_c",
        _vector,
        lambda k: (
            f"vector sizes {'x'.join(map(str, k.vector))}: each is one of "
            f"{', '.join(map(str, _WIDTHS))}"
        ),
    ),
    _gpu_rule(
        "groups_to_merge",
        "a block computes one group or several",
        "groups_to_merge",
        lambda c: c["groups_to_merge"] >= 1,
        lambda k: "groups_to_merge is 0; pass 1 or more",
    ),
)
