"""Rules of what is multiplied, which ops with matrix instructions share: types and warp tiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arch import arch
from ..columns import Array, Columns
from ..enums import DTYPE
from ..rules import Rule
from . import facts
from .kinds import kind_rule
from .tiles import join

_OLD = ("cdna1", "cdna2")
# For gfx90a, compv6: 128x32x64 per wave compile in two minutes, 256x32x64 in four; 256x64x64 not in
# half an hour, and with compv3 not in seven minutes.
MAX_EMULATED = 1 << 19

# By codes: whether A of a type may give C of a type.
OUTPUTS = np.array([[t in facts.outputs(a) for t in DTYPE.values] for a in DTYPE.values])


def type_rules(
    columns: tuple[str, ...], pair: Callable[[Columns], tuple[Array, Array]]
) -> tuple[Rule, ...]:
    """The rules of the types of A and B, which ``pair`` finds in ``columns``.

    Keys say them as ``multiplied``.
    """
    read = tuple(dict.fromkeys(("arch", "family", *columns)))

    def known(c: Columns) -> Array:
        return facts.multiplies(c, *pair(c))

    def known_reason(k: Any) -> str:
        found = arch(k.arch)
        pairs = [p for p in facts.pairs() if facts.warp_tiles(found, k.family, *p)]
        listed = ", ".join(a if a == b else f"{a} x {b}" for a, b in pairs) or "nothing"
        what = "matrix instruction" if found.is_gpu else "kernel"
        types = " x ".join(k.multiplied)
        return f"{k.arch} has no {what} for {types} in {k.family}; it has {listed}"

    def accumulator(c: Columns) -> Array:
        a, b = pair(c)
        both = (a == DTYPE.code("int8")) & (b == DTYPE.code("int8"))
        expected = np.where(both, DTYPE.code("int32"), DTYPE.code("fp32"))
        return np.asarray(c["dtype_acc"] == expected)

    def warp_tile(c: Columns) -> Array:
        # dtypes speaks for unknown pairs, and direct has no such tile.
        return ~known(c) | facts.has_pipeline(c, "direct") | facts.has_warp_tile(c, *pair(c))

    def warp_reason(k: Any) -> str:
        found = arch(k.arch)
        tiles = join(facts.warp_tiles(found, k.family, *k.multiplied)) or "none"
        what = "warp" if found.is_gpu else "register"
        types = " x ".join(k.multiplied)
        return (
            f"{k.arch} has no {what} tile {join((k.warp,))} for {types} in {k.family}; "
            f"allowed: {tiles}"
        )

    return (
        Rule(
            "dtypes",
            "the arch multiplies the types of A and B",
            read,
            known,
            known_reason,
        ),
        Rule(
            "accumulator",
            "int8 accumulates in int32, everything else in fp32",
            (*columns, "dtype_acc"),
            accumulator,
            lambda k: (
                f"{' x '.join(k.multiplied)} accumulates in "
                f"{facts.accumulator(*k.multiplied)}, not {k.dtype_acc}"
            ),
        ),
        Rule(
            "warp_tile",
            "the warp tile (CPU: register tile) is in the list of the arch for the types",
            (*read, "pipeline", "warp_m", "warp_n", "warp_k"),
            warp_tile,
            warp_reason,
        ),
    )


def instruction_rules(columns: str, first: Callable[[Columns], Array]) -> tuple[Rule, ...]:
    """The rules of GPUs without instructions of a type, which ``first`` finds in ``columns``."""

    def emulated(c: Columns) -> Array:
        widened = facts.one_of(DTYPE, facts.NARROW_FLOATS, first(c)) & facts.in_family(c, _OLD)
        products = math.prod(c[f"tile_{side}"].astype(np.int64) for side in "mnk")
        waves = math.prod(c[f"wave_{side}"].astype(np.int64) for side in "mnk")
        return np.asarray(~widened | (products <= MAX_EMULATED * waves))

    return (
        kind_rule(
            "hip",
            "native_int8",
            "int8 needs integer matrix instructions that CK Tile uses",
            columns,
            lambda c: (first(c) != DTYPE.code("int8")) | ~facts.in_family(c, _OLD),
            lambda k: (
                f"CK Tile compiles int8 on {k.arch} to fp32 matrix instructions, "
                "whose results are not known to be right; use gfx942 or later"
            ),
        ),
        kind_rule(
            "hip",
            "emulated_tile",
            "fp8 and bf8 on gfx90a are unrolled conversions and fp32 instructions, not too many",
            f"{columns} tile_m tile_n tile_k wave_m wave_n wave_k",
            emulated,
            lambda k: (
                f"{k.arch} emulates {k.multiplied[0]}: {MAX_EMULATED} products for a wave and step "
                f"are the most that compile in minutes, and a tile of {join((k.tile,))} for "
                f"{join((k.wave,))} waves has {math.prod(k.tile) // max(math.prod(k.wave), 1)}; "
                "use a smaller tile, or gfx942 or later"
            ),
        ),
    )
