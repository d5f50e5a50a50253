"""GEMM rules that CK Tile's templates imply: how tiles are spread over lanes, and what fits what.

CK asserts some of them when a kernel is compiled; what breaks the others compiles to a kernel with
wrong results. Each is as wide as CK's own conditions.
"""

from __future__ import annotations

import functools

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import DTYPE, ELEMENTWISE, EPILOGUE, FAMILY, LAYOUT
from ...rules import Rule
from .. import facts
from ..kinds import kind_rule
from .key import GemmKey

_VECTOR_BYTES = 16
# Bytes that a lane gets when it reads LDS with a transposing instruction.
_TRANSPOSED_BYTES = 8
_PERSISTENT = ("mem", "compv3", "compv4", "preshufflev2")
# Pipelines that pick the matrix instruction by the types of both A and B.
_MIXED = ("compv4", "compv5", "compv6", "compasync")

_PRESHUFFLE = FAMILY.code("gemm.preshuffle")
_CSHUFFLE = EPILOGUE.code("cshuffle")

_gpu_rule = functools.partial(kind_rule, True)


def _int(c: Columns, name: str) -> Array:
    return c[name].astype(np.int64)


def _ratio(a: Array, b: Array) -> Array:
    """``a // b`` for positive numbers; 0 where ``b`` is 0."""
    return np.asarray(np.where(b > 0, a // np.maximum(b, 1), 0))


def _divides(a: Array, b: Array) -> Array:
    """Whether ``b`` is a positive multiple of ``a``."""
    return np.asarray((a > 0) & (b > 0) & (b % np.maximum(a, 1) == 0))


def _load_vector(contiguous: Array, per_lane: Array, size: Array) -> Array:
    """How many values CK loads at once: 16 bytes, else 8, else one value."""
    found = np.ones(np.broadcast(contiguous, per_lane, size).shape, np.int64)
    for width in (_VECTOR_BYTES // 2, _VECTOR_BYTES):
        values = width // size
        found = np.where(_divides(values, contiguous) & _divides(values, per_lane), values, found)
    return found


def _spread(contiguous: Array, rows: Array, vector: Array, waves: Array, lanes: Array) -> Array:
    """Whether ``waves`` of ``lanes`` cover ``rows`` of ``contiguous`` values in whole passes.

    A lane holds ``vector`` values of one row, or fewer if there are more lanes than vectors. The
    lanes of a wave take whole rows.
    """
    per_lane = _ratio(contiguous * rows, waves * lanes)
    held = np.minimum(vector, per_lane)
    in_row = _ratio(contiguous, held)
    pass_rows = _ratio(lanes, in_row) * waves
    return _divides(in_row, lanes) & _divides(held, contiguous) & _divides(pass_rows, rows)


def _waves(c: Columns) -> Array:
    return _int(c, "wave_m") * _int(c, "wave_n") * _int(c, "wave_k")


def _row_major(c: Columns, side: str) -> Array:
    layouts = ("rcr", "rrr") if side == "a" else ("rrr", "crr")
    return facts.one_of(LAYOUT, layouts, c["layout"])


def _along_k(c: Columns, side: str) -> Array:
    """Whether the values of one column (B) or row (A) of K lie side by side in memory."""
    row = _row_major(c, side)
    return row if side == "a" else ~row


def _extent(c: Columns, side: str) -> Array:
    return _int(c, "tile_m" if side == "a" else "tile_n")


def _load(side: str, c: Columns) -> Array:
    outer, k = _extent(c, side), _int(c, "tile_k")
    along_k = _along_k(c, side)
    contiguous, rows = np.where(along_k, k, outer), np.where(along_k, outer, k)
    size = facts.element_bytes(c[f"dtype_{side}"])
    waves, lanes = _waves(c), facts.lanes(c)
    vector = _load_vector(contiguous, _ratio(outer * k, waves * lanes), size)
    # Each of two wave groups loads tiles of its own.
    loading = np.where(facts.has_pipeline(c, "compv5"), waves // 2, waves)
    spread = _spread(contiguous, rows, vector, loading, lanes)
    # Loads that go to LDS directly are as wide as one register or four.
    width = vector * size
    direct = ~facts.has_pipeline(c, "compasync") | (width == _VECTOR_BYTES) | (width == 4)
    return np.asarray((c["family"] == _PRESHUFFLE) | (spread & direct))


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
    k = c["tile_k"]
    return np.asarray((c["family"] == _PRESHUFFLE) | (k > 0) & (k & (k - 1) == 0))


def _transposed(c: Columns) -> Array:
    """LDS reads of gfx950 that transpose: A stored by columns, B stored by rows."""
    values = _TRANSPOSED_BYTES // facts.element_bytes(c["dtype_a"])
    reads = _ratio(_int(c, "warp_n") * _int(c, "warp_k"), values * facts.lanes(c))
    exact = reads * values * facts.lanes(c) == _int(c, "warp_n") * _int(c, "warp_k")
    half = facts.one_of(DTYPE, ("fp16", "bf16"), c["dtype_a"])
    byte = facts.one_of(DTYPE, ("fp8", "bf8", "int8"), c["dtype_a"])
    known = (reads == 1) & (half | byte) | (reads == 2) & half | (reads == 4) & byte
    plain = c["layout"] == LAYOUT.code("rcr")
    return np.asarray(~facts.in_family(c, ("cdna4",)) | plain | (exact & known))


def _cshuffle_rows(c: Columns) -> Array:
    per_lane = _ratio(_int(c, "warp_m") * _int(c, "warp_n"), facts.lanes(c))
    repeats = _ratio(_int(c, "tile_m"), _int(c, "warp_m") * _int(c, "wave_m"))
    power_of_two = repeats & (repeats - 1) == 0
    # A lane stores at most 16 values at once, which such a warp tile has by itself.
    return np.asarray((c["epilogue"] != _CSHUFFLE) | (per_lane >= 16) | power_of_two)


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
