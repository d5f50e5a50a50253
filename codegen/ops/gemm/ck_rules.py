"""GEMM rules that CK Tile's templates imply: how tiles are spread over lanes, and what fits what.

CK asserts some of them when a kernel is compiled; what breaks the others compiles to a kernel with
wrong results. Each is as wide as CK's own conditions.
"""

from __future__ import annotations

import functools

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import ELEMENTWISE, EPILOGUE, FAMILY, LAYOUT
from ...rules import Rule
from .. import facts, spread
from ..kinds import kind_rule
from .key import GemmKey

_PERSISTENT = ("mem", "compv3", "compv4", "preshufflev2")
# Pipelines that pick the matrix instruction by the types of both A and B.
_MIXED = ("compv4", "compv5", "compv6", "compasync")

_PRESHUFFLE = FAMILY.code("gemm.preshuffle")
_CSHUFFLE = EPILOGUE.code("cshuffle")

_gpu_rule = functools.partial(kind_rule, "hip")


def _row_major(c: Columns, side: str) -> Array:
    layouts = ("rcr", "rrr") if side == "a" else ("rrr", "crr")
    return facts.one_of(LAYOUT, layouts, c["layout"])


def _along_k(c: Columns, side: str) -> Array:
    """Whether the values of one column (B) or row (A) of K lie side by side in memory."""
    row = _row_major(c, side)
    return row if side == "a" else ~row


def _extent(c: Columns, side: str) -> Array:
    return spread.int64(c, "tile_m" if side == "a" else "tile_n")


def _load(side: str, c: Columns) -> Array:
    outer, k = _extent(c, side), spread.int64(c, "tile_k")
    along_k = _along_k(c, side)
    contiguous, rows = np.where(along_k, k, outer), np.where(along_k, outer, k)
    size = facts.element_bytes(c[f"dtype_{side}"])
    waves, lanes = spread.waves(c), facts.lanes(c)
    vector = spread.load_vector(contiguous, spread.ratio(outer * k, waves * lanes), size)
    # Each of two wave groups loads tiles of its own.
    loading = np.where(facts.has_pipeline(c, "compv5"), waves // 2, waves)
    covers = spread.covers(contiguous, rows, vector, loading, lanes)
    # Loads that go to LDS directly are as wide as one register or four.
    width = vector * size
    direct = ~facts.has_pipeline(c, "compasync") | (width == spread.VECTOR_BYTES) | (width == 4)
    return np.asarray((c["family"] == _PRESHUFFLE) | (covers & direct))


def _load_reason(side: str, k: GemmKey) -> str:
    facts_ = arch(k.arch)
    outer = k.tile[0] if side == "a" else k.tile[1]
    letter = "M" if side == "a" else "N"
    order = k.layout[0 if side == "a" else 1]
    along_k = order == ("r" if side == "a" else "c")
    major = f"K {k.tile[2]}" if along_k else f"{letter} {outer}"
    dtype = k.dtype_a if side == "a" else k.dtype_b
    waves = k.wave[0] * k.wave[1] * k.wave[2]
    return (
        f"{waves} waves of {facts_.wave_size} lanes cannot load a {letter} {outer} x K "
        f"{k.tile[2]} tile of {dtype} {side.upper()}, contiguous along {major}, in whole rows of "
        f"vectors{' of 16 bytes' if k.pipeline == 'compasync' else ''}; use powers of two, "
        "larger tiles or fewer waves"
    )


def _swizzle(c: Columns) -> Array:
    return np.asarray((c["family"] == _PRESHUFFLE) | spread.is_power_of_two(c["tile_k"]))


def _transposed(c: Columns) -> Array:
    """LDS reads of gfx950 that transpose: A stored by columns, B stored by rows."""
    plain = c["layout"] == LAYOUT.code("rcr")
    known = spread.reads_transposed(c, c["dtype_a"])
    return np.asarray(~facts.in_family(c, ("cdna4",)) | plain | known)


def _cshuffle_rows(c: Columns) -> Array:
    repeats = spread.repeats_m(c)
    power_of_two = repeats & (repeats - 1) == 0
    # A lane stores at most 16 values at once, which such a warp tile has by itself.
    wide = spread.held_by_warp(c) >= 16
    return np.asarray((c["epilogue"] != _CSHUFFLE) | wide | power_of_two)


def _cshuffle_rows_reason(k: GemmKey) -> str:
    repeats = k.tile[0] // max(k.warp[0] * k.wave[0], 1)
    return (
        f"each wave has {repeats} warp tiles of {k.warp[0]}x{k.warp[1]} along M; cshuffle stores "
        "several together and needs a power of two; use another tile M or epilogue default"
    )


def _fused_byte(c: Columns) -> Array:
    byte = facts.element_bytes(c["dtype_c"]) == 1
    plain = c["elementwise"] == ELEMENTWISE.code("passthrough")
    return np.asarray((c["epilogue"] != _CSHUFFLE) | ~byte | plain)


RULES: tuple[Rule, ...] = (
    *(
        _gpu_rule(
            f"load_{side}",
            f"the lanes of a block load a tile of {side.upper()} in whole rows of vectors",
            f"family pipeline layout dtype_{side} tile_{outer} tile_k wave_m wave_n wave_k",
            functools.partial(_load, side),
            functools.partial(_load_reason, side),
        )
        for side, outer in (("a", "m"), ("b", "n"))
    ),
    _gpu_rule(
        "lds_swizzle",
        "tile K is a power of two: CK swizzles the rows of tiles in LDS",
        "family tile_k",
        _swizzle,
        lambda k: f"tile K is {k.tile[2]}; CK's layout in LDS needs a power of two",
    ),
    _gpu_rule(
        "transposed_read",
        "gfx950 reads tiles of A in columns and B in rows with transposing instructions",
        "layout dtype_a warp_n warp_k",
        _transposed,
        lambda k: (
            f"layout {k.layout} on {k.arch} reads LDS with transposing instructions, which CK has "
            f"not for {k.dtype_a} and warp tile {'x'.join(map(str, k.warp))}; use layout rcr or "
            "another warp tile"
        ),
    ),
    _gpu_rule(
        "mixed_types",
        "fp8 x bf8 needs a pipeline that picks the instruction by both types",
        "dtype_a dtype_b pipeline",
        lambda c: (c["dtype_a"] == c["dtype_b"]) | facts.has_pipeline(c, *_MIXED),
        lambda k: (
            f"pipeline {k.pipeline} multiplies {k.dtype_a} x {k.dtype_b} as if both were "
            f"{k.dtype_a}; use {', '.join(_MIXED)}"
        ),
    ),
    _gpu_rule(
        "persistent_pipeline",
        "only some pipelines have a persistent kernel",
        "persistent pipeline",
        lambda c: ~c["persistent"].astype(np.bool_) | facts.has_pipeline(c, *_PERSISTENT),
        lambda k: f"pipeline {k.pipeline} has no persistent kernel; use {', '.join(_PERSISTENT)}",
    ),
    _gpu_rule(
        "compv5_layout",
        "the wave groups of compv5 find their parts of K in layout rcr only",
        "pipeline layout",
        lambda c: ~facts.has_pipeline(c, "compv5") | (c["layout"] == LAYOUT.code("rcr")),
        lambda k: f"pipeline compv5 has only layout rcr, not {k.layout}",
    ),
    _gpu_rule(
        "compasync_arch",
        "compasync loads to LDS in 16 bytes, as only gfx950 can",
        "arch pipeline",
        lambda c: ~facts.has_pipeline(c, "compasync") | facts.in_family(c, ("cdna4",)),
        lambda k: f"pipeline compasync is for gfx950, {k.arch} has no such loads",
    ),
    _gpu_rule(
        "cshuffle_rows",
        "cshuffle stores the rows of several small warp tiles together",
        "arch epilogue tile_m wave_m warp_m warp_n",
        _cshuffle_rows,
        _cshuffle_rows_reason,
    ),
    _gpu_rule(
        "cshuffle_fused",
        "cshuffle rounds to the type of C before the fused operation, too coarsely for one byte",
        "epilogue elementwise dtype_c",
        _fused_byte,
        lambda k: (
            f"epilogue cshuffle rounds to {k.dtype_c} before {k.elementwise}; "
            "use epilogue default or a wider C"
        ),
    ),
)
