"""Convolution rules that CK Tile's templates imply.

CK asserts some of them when a kernel is compiled; what breaks the others compiles to a kernel with
wrong results. As GEMMs the directions have the layouts rcr (forward), rrr (data) and crr (weight).
"""

from __future__ import annotations

import functools

import numpy as np

from ...columns import Array, Columns
from ...enums import EPILOGUE, FAMILY, SPECIALIZATION
from ...rules import Rule
from .. import facts, spread
from ..kinds import kind_rule
from ..types import instruction_rules
from .columns import operand
from .key import ConvKey
from .operands import DTYPES

_WIDTHS = (1, 2, 4, 8, 16)
_MOST_MERGED = 64
_FORWARD = FAMILY.code("conv.fwd")
_DATA = FAMILY.code("conv.bwd_data")
_WEIGHT = FAMILY.code("conv.bwd_weight")
_CSHUFFLE = EPILOGUE.code("cshuffle")
_TILES = "tile_m tile_n tile_k wave_m wave_n wave_k"

_gpu_rule = functools.partial(kind_rule, "hip")
_dtypes = " ".join(DTYPES)


def _vectors(c: Columns) -> Array:
    widths = [c[f"vector_{side}"] for side in "abc"]
    valid = [spread.is_power_of_two(width) & (width <= max(_WIDTHS)) for width in widths]
    return np.asarray(np.logical_and.reduce(valid))


def _transposed(c: Columns, side: str) -> Array:
    """Whether the values of A or B that lie side by side are of different K."""
    family = c["family"]
    return np.asarray(family == _WEIGHT if side == "a" else family != _FORWARD)


def _load(side: str, c: Columns) -> Array:
    outer = spread.int64(c, "tile_m" if side == "a" else "tile_n")
    k, width = spread.int64(c, "tile_k"), spread.int64(c, f"vector_{side}")
    transposed = _transposed(c, side)
    contiguous, rows = np.where(transposed, outer, k), np.where(transposed, k, outer)
    waves, lanes = spread.waves(c), facts.lanes(c)
    per_lane = spread.ratio(outer * k, waves * lanes)
    held = np.minimum(width, per_lane)
    # Each of two wave groups loads tiles of its own.
    loading = np.where(facts.has_pipeline(c, "compv5"), waves // 2, waves)
    covers = spread.covers(contiguous, rows, held, loading, lanes)
    # What is transposed in registers is so in vectors of CK's own choice.
    size = facts.element_bytes(operand(c, "ab".index(side)))
    own = spread.load_vector(contiguous, per_lane, size)
    return np.asarray(covers & spread.divides(width, contiguous) & (~transposed | (held == own)))


def _load_reason(side: str, k: ConvKey) -> str:
    index = "ab".index(side)
    outer, letter = k.tile[index], "MN"[index]
    transposed = k.family == "conv.bwd_weight" or (side == "b" and k.family != "conv.fwd")
    text = (
        f"{k.wave[0] * k.wave[1] * k.wave[2]} waves cannot load a {letter} {outer} x K "
        f"{k.tile[2]} tile of {side.upper()} in whole rows of vectors of {k.vector[index]}"
    )
    if not transposed:
        return f"{text}; use powers of two, another vector, larger tiles or fewer waves"
    return (
        f"{text}, which {k.family} transposes: the vector must have 16 bytes, or 8 or one value "
        "where a lane gets no more"
    )


def _store(c: Columns) -> Array:
    """C through LDS: the lanes store what several warp tiles left there."""
    width = spread.int64(c, "vector_c")
    together = np.maximum(spread.ratio(width, spread.held_by_warp(c)), 1)
    repeats = spread.repeats_m(c)
    together = np.minimum(together, np.maximum(repeats, 1))
    columns = spread.int64(c, "warp_n") * spread.int64(c, "wave_n")
    rows = spread.int64(c, "warp_m") * spread.int64(c, "wave_m") * together
    waves = spread.int64(c, "wave_m") * spread.int64(c, "wave_n")
    covers = spread.covers(columns, rows, width, waves, facts.lanes(c))
    fits = covers & spread.divides(width, columns) & spread.divides(together, repeats)
    return np.asarray((c["epilogue"] != _CSHUFFLE) | fits)


def _additions(c: Columns) -> Array:
    """Parts are added atomically: 32 bits one by one, 16 in pairs, vectors of at most 16 bytes."""
    size = facts.element_bytes(operand(c, 2))
    single = c["two_stage"].astype(np.bool_) | (size == 4)
    width = np.where(c["epilogue"] == _CSHUFFLE, c["vector_c"], 1)
    pairs = (size == 2) & (width >= 2) & (width <= 8) & ~facts.in_family(c, ("rdna3",))
    return np.asarray(~c["split_k"].astype(np.bool_) | np.where(single, width <= 4, pairs))


def _additions_reason(k: ConvKey) -> str:
    c = k.operands[2]
    return (
        f"split_k cannot add {c}{' in two stages' if k.two_stage else ''} in vectors of "
        f"{k.vector[2]} with epilogue {k.epilogue} on {k.arch}: fp32 and two stages take 1 to 4, "
        "fp16 and bf16 take 2 to 8 with cshuffle (not on RDNA 3)"
    )


def _merged(c: Columns) -> Array:
    merged, family = c["groups_to_merge"], c["family"]
    many = merged > 1
    valid = spread.is_power_of_two(merged) & (merged <= _MOST_MERGED) & ~(many & (family == _DATA))
    # Neighbouring columns of C are then of different groups.
    return np.asarray(valid & ~(many & (family == _FORWARD) & (c["vector_c"] != 1)))


def _transposed_read(c: Columns) -> Array:
    plain = c["family"] == _FORWARD
    known = spread.reads_transposed(c, operand(c, 0))
    return np.asarray(~facts.in_family(c, ("cdna4",)) | plain | known)


def _filter3x3(c: Columns) -> Array:
    """Vectors along the input's channels, of which a group has one."""
    single = np.where(
        c["family"] == _FORWARD,
        (c["vector_a"] == 1) & (c["vector_b"] == 1),
        (c["vector_b"] == 1) & (c["vector_c"] == 1),
    )
    return np.asarray((c["specialization"] != SPECIALIZATION.code("filter3x3")) | single)


RULES: tuple[Rule, ...] = (
    _gpu_rule(
        "vector_width",
        "an access has a power of two of elements, at most 16",
        "vector_a vector_b vector_c",
        _vectors,
        lambda k: (
            f"vector sizes {'x'.join(map(str, k.vector))}: each is one of "
            f"{', '.join(map(str, _WIDTHS))}"
        ),
    ),
    *(
        _gpu_rule(
            f"load_{side}",
            f"the lanes of a block load a tile of {side.upper()} in whole rows of vectors",
            f"family pipeline {_dtypes} {_TILES} vector_{side}",
            functools.partial(_load, side),
            functools.partial(_load_reason, side),
        )
        for side in "ab"
    ),
    _gpu_rule(
        "store_c",
        "the lanes of a block store what cshuffle left in LDS in whole rows of vectors",
        "epilogue tile_m wave_m wave_n warp_m warp_n vector_c",
        _store,
        lambda k: (
            f"{k.wave[0]}x{k.wave[1]} waves with warp tiles of {k.warp[0]}x{k.warp[1]} cannot "
            f"store C in whole rows of vectors of {k.vector[2]}; use another vector or tile M, or "
            "epilogue default"
        ),
    ),
    _gpu_rule(
        "lds_swizzle",
        "tile K is a power of two: CK swizzles the rows of tiles in LDS",
        "tile_k",
        lambda c: spread.is_power_of_two(c["tile_k"]),
        lambda k: f"tile K is {k.tile[2]}; CK's layout in LDS needs a power of two",
    ),
    _gpu_rule(
        "transposed_read",
        "gfx950 reads what gradients transpose with transposing instructions",
        f"family {_dtypes} warp_n warp_k",
        _transposed_read,
        lambda k: (
            f"{k.family} on {k.arch} reads LDS with transposing instructions, which CK has not "
            f"for {k.multiplied[0]} and warp tile {'x'.join(map(str, k.warp))}"
        ),
    ),
    *instruction_rules(f"family {_dtypes}", lambda c: operand(c, 0)),
    _gpu_rule(
        "mixed_types",
        "fp8 x bf8 needs a pipeline that picks the instruction by both types",
        f"family pipeline {_dtypes}",
        lambda c: (operand(c, 0) == operand(c, 1)) | facts.has_pipeline(c, "compv4", "compv5"),
        lambda k: (
            f"pipeline {k.pipeline} multiplies {' x '.join(k.multiplied)} as if both were "
            f"{k.multiplied[0]}; use compv4 or compv5"
        ),
    ),
    _gpu_rule(
        "compv5_direction",
        "the wave groups of compv5 find their parts of K in forward tiles only",
        "family pipeline",
        lambda c: (c["family"] == _FORWARD) | ~facts.has_pipeline(c, "compv5"),
        lambda k: f"pipeline compv5 is for conv.fwd, not {k.family}",
    ),
    _gpu_rule(
        "data_result_dtype",
        "CK's kernel of the data gradient takes each tensor to have the type of another",
        f"family {_dtypes}",
        lambda c: (c["family"] != _DATA) | (operand(c, 0) == operand(c, 2)),
        lambda k: (
            f"conv.bwd_data cannot make {k.dtype_in} out of {k.dtype_out} on {k.arch}: CK's kernel "
            f"has one type for the three tensors; use dtype_in {k.dtype_out}"
        ),
    ),
    _gpu_rule(
        "data_double_buffer",
        "CK's kernel of the data gradient has one tile in LDS",
        "family double_buffer",
        lambda c: (c["family"] != _DATA) | ~c["double_buffer"].astype(np.bool_),
        lambda k: f"conv.bwd_data cannot have double_buffer; use compv3 or mem, not {k.pipeline}",
    ),
    _gpu_rule(
        "split_k_output",
        "split-K adds its parts with atomics, which exist for few types and widths",
        f"arch family {_dtypes} split_k two_stage epilogue vector_c",
        _additions,
        _additions_reason,
    ),
    _gpu_rule(
        "groups_to_merge",
        "a block computes one group or several, a power of two",
        "family groups_to_merge vector_c",
        _merged,
        lambda k: (
            f"{k.family} cannot merge {k.groups_to_merge} groups with vectors of {k.vector[2]} in "
            f"C: a power of two up to {_MOST_MERGED} can be merged in conv.fwd with vectors of 1 "
            "and in conv.bwd_weight"
        ),
    ),
    _gpu_rule(
        "filter3x3_channels",
        "filter3x3 is for groups with one input channel",
        "family specialization vector_a vector_b vector_c",
        _filter3x3,
        lambda k: (
            f"filter3x3 is for one input channel in a group, vectors {'x'.join(map(str, k.vector))}"
            " read or write more"
        ),
    ),
)
