"""Rules that CK Tile's headers assert, or silently rely on, in the forward families."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import FMHA_MASK, ORDER
from ...rules import Rule
from .. import facts
from .columns import (
    all_of,
    any_of,
    arch_fact,
    divides,
    dtype_is,
    element_bytes,
    family_rule,
    pipeline_is,
    wave_columns,
    waves,
    wide,
)
from .families import FORWARD, GRADIENT

_FWD = ("fmha.fwd",)
# How often the buffers of K and V are held by the pipelines with asynchronous loads.
_ASYNC_BUFFERS = 3
_BLOCK = wave_columns(2)
_LOADS = f"dtype pipeline tile_1 tile_2 tile_3 tile_4 {_BLOCK}"
_REGISTERS_OF_Q = ("qr", "qs", "qr_pagedkv", "qr_nwarp_sshuffle")


def _lanes(c: Columns) -> Array:
    return facts.lanes(c)


def _is_async(c: Columns) -> Array:
    return pipeline_is(c, "qr_async")


def _plain(c: Columns) -> Array:
    """Pipelines whose loads all follow one policy."""
    return pipeline_is(c, "qr", "qs", "qr_pagedkv", "qr_nwarp_sshuffle", "qr_async")


def _loops(c: Columns) -> Array:
    steps = wide(c["tile_5"]) // np.maximum(wide(c["tile_2"]), 1)
    ok = np.where(pipeline_is(c, *_REGISTERS_OF_Q), steps >= 2, steps >= 1)
    return np.asarray(np.where(pipeline_is(c, "v3"), steps == 1, ok))


def _value_loops(c: Columns) -> Array:
    whole = divides(wide(c["tile_4"]), wide(c["tile_1"]))
    return np.asarray(np.where(pipeline_is(c, "v3"), c["tile_4"] == c["tile_1"], whole))


def _stage_waves(c: Columns) -> Array:
    first, second = waves(c, 0), waves(c, 1)
    return divides(first, second) & divides(second, first)


def _wave_shape(c: Columns) -> Array:
    along = [c[f"wave_{side}{stage}"] == 1 for stage in (0, 1) for side in "nk"]
    rows = all_of(along)
    spread = (c["wave_m0"] == 1) & (c["wave_m1"] == 1) & (c["wave_k0"] == 1) & (c["wave_k1"] == 1)
    return np.asarray(np.where(pipeline_is(c, "qr_nwarp_sshuffle"), spread, rows))


def _instruction_depth(c: Columns) -> Array:
    """K of the matrix instruction that a warp tile of Q K^T is made of, on CDNA."""
    wide_tile = c["warp_m0"] == 32
    halves = np.where(wide_tile, 8, 16) * (1 + arch_fact("supports_trload")[c["arch"]])
    size = element_bytes(c)
    depth = np.where(size == 2, halves, np.where(size == 1, np.where(wide_tile, 16, 32), 4))
    return np.asarray(np.maximum(np.minimum(depth, c["warp_k0"]), 1))


def _groups_of_eight(c: Columns) -> Array:
    parts = [
        wide(c["tile_0"]) // np.maximum(wide(c["warp_m0"]), 1),
        wide(c["tile_1"]) // np.maximum(wide(c["warp_n0"]), 1),
        wide(c["tile_2"]) // _instruction_depth(c),
    ]
    count = parts[0] * parts[1] * parts[2] // np.maximum(waves(c, 0), 1)
    other = (facts.arch_array("wave_size")[c["arch"]] != 64) | (c["tile_5"] != 256)
    return np.asarray(~pipeline_is(c, "qr") | other | ((count % 8 == 0) & (count > 0)))


def _async_load(c: Columns) -> Array:
    vector = arch_fact("async_bytes")[c["arch"]] // element_bytes(c)
    step = wide(c["tile_4"])
    width = _lanes(c) * vector
    rows = width // np.maximum(step, 1) * waves(c)
    ok = divides(step, width) & divides(rows, wide(c["tile_1"])) & (step >= vector)
    return np.asarray(~_is_async(c) | ok | (vector == 0))


def _async_step(c: Columns) -> Array:
    return np.asarray(~_is_async(c) | (c["tile_2"] <= c["tile_4"]))


def _row(c: Columns) -> Array:
    """Numbers of V in a row of the LDS."""
    return np.asarray(arch_fact("lds_banks")[c["arch"]] * 4 // element_bytes(c))


def _async_lds(c: Columns) -> Array:
    pack = 16 // element_bytes(c)
    vector = arch_fact("async_bytes")[c["arch"]] // element_bytes(c)
    step, lanes, count = wide(c["tile_4"]), _lanes(c), waves(c)
    rows = np.maximum(lanes * vector // np.maximum(step, 1), 1)
    issues = wide(c["tile_1"]) // np.maximum(rows * count, 1)
    keys = issues * count * (lanes * vector + pack)
    per_row = np.maximum(_row(c) // pack, 1)
    values = (step // pack) * (wide(c["tile_3"]) // per_row) * (_row(c) + pack)
    size = _ASYNC_BUFFERS * np.maximum(keys, values) * element_bytes(c)
    return np.asarray(~_is_async(c) | (size <= facts.arch_array("lds_bytes")[c["arch"]]))


def _is_vector(count: Array) -> Array:
    """Whether there is an instruction that loads so many numbers."""
    return np.asarray((count > 0) & (count & (count - 1) == 0))


def _key_load(c: Columns) -> Array:
    lanes, count = _lanes(c), np.maximum(waves(c), 1)
    rows, step = wide(c["tile_1"]), wide(c["tile_2"])
    each = np.minimum(16 // element_bytes(c), rows * step // (lanes * count))
    across = step // np.maximum(each, 1)
    down = lanes // np.maximum(across, 1)
    repeat = rows // np.maximum(down * count, 1)
    ok = _is_vector(each) & (repeat * down * count * across * each == rows * step)
    return np.asarray(~(_plain(c) & ~_is_async(c)) | ok)


def _query_load(c: Columns) -> Array:
    """qr_nwarp_sshuffle brings Q into the LDS, in rows of a length that CK Tile knows."""
    length, lanes, count = wide(c["tile_5"]), _lanes(c), np.maximum(waves(c), 1)
    length = np.where(length == 96, 128, np.where(length == 160, 256, length))
    rows = wide(c["tile_0"])
    each = np.minimum(16 // element_bytes(c), rows * length // (lanes * count))
    across = np.maximum(length // np.maximum(each, 1), 1)
    down = np.maximum(lanes // across, 1)
    ok = _is_vector(each) & divides(across, lanes) & divides(down * count, rows)
    return np.asarray(~pipeline_is(c, "qr_nwarp_sshuffle") | ok)


def _value_load(c: Columns) -> Array:
    rows = c["vlayout"] == ORDER.code("r")
    return np.asarray(~_plain(c) | np.where(rows, _rows_of_v(c), _columns_of_v(c)))


def _each_of_v(c: Columns) -> tuple[Array, Array]:
    """The numbers of V that a lane loads in all, and at most at once."""
    total = wide(c["tile_3"]) * wide(c["tile_4"]) // np.maximum(waves(c) * _lanes(c), 1)
    return total, np.minimum(total, 16 // element_bytes(c))


def _spread_of_v(c: Columns) -> tuple[Array, Array, Array, Array]:
    """Of V row by row: numbers at once, rows of a lane, of those side by side; if they are odd."""
    total, pack = _each_of_v(c)
    few = np.maximum(4 // element_bytes(c), 1)
    some = np.maximum(pack, 1)
    vector = np.where(total // some >= few, pack, total // few)
    one = np.maximum(vector, 1)
    rows = np.maximum(total // one, 1)
    odd = (total % one != 0) | (some % rows != 0)
    return vector, rows, some // rows, odd


def _rows_of_v(c: Columns) -> Array:
    lanes, count = _lanes(c), waves(c)
    width, depth = wide(c["tile_3"]), wide(c["tile_4"])
    some = np.maximum(_each_of_v(c)[1], 1)
    vector, k3, k2, odd = _spread_of_v(c)
    across = width // np.maximum(vector, 1)
    # Three ways to spread the rows; which one follows from what divides what.
    half = np.where(width % 32 == 0, 16, 8)
    k1_odd = lanes // half
    way_odd = (width % 16 == 0) & (
        count * k1_odd * (depth // np.maximum(k1_odd * count, 1)) == depth
    )
    spread = np.maximum(k2 * across, 1)
    way_even = count * (lanes // spread) * k2 * k3 == depth
    k1_wide = np.maximum(spread // lanes, 1)
    way_wide = (count // k1_wide) * k1_wide * (k2 // k1_wide) * k3 == depth
    spread_ok = np.where(odd, way_odd, np.where(lanes % spread == 0, way_even, way_wide))
    per_row = np.maximum(_row(c) // some, 1)
    stored = (_row(c) % some == 0) & (width % per_row == 0) & (depth % some == 0)
    return np.asarray(_is_vector(vector) & spread_ok & stored)


def _prefill_values(c: Columns) -> Array:
    return ~_spread_of_v(c)[3]


def _columns_of_v(c: Columns) -> Array:
    lanes, count = _lanes(c), np.maximum(waves(c), 1)
    width, depth = wide(c["tile_3"]), wide(c["tile_4"])
    _, pack = _each_of_v(c)
    some = np.maximum(pack, 1)
    across = depth // some
    down = lanes // np.maximum(across, 1)
    repeat = width // np.maximum(down * count, 1)
    even = repeat * down * count * across * some == width * depth
    part = np.where(depth % 32 == 0, 32, 16)
    down = lanes // (part // 2)
    repeat_odd = width // np.maximum(down * count, 1)
    odd = (depth % 16 == 0) & (repeat_odd * count * down * depth == width * depth)
    return np.asarray(_is_vector(pack) & (repeat > 0) & (even | odd))


def _async_padding(c: Columns) -> Array:
    padded = (c["padding_sq"] == 1) & (c["padding_d"] == 1) & (c["padding_dv"] == 1)
    return np.asarray(~_is_async(c) | padded)


def _trload_padding(c: Columns) -> Array:
    open_ends = (c["padding_sq"] == 1) | (c["padding_sk"] == 1)
    heads = c["padding_d"] == c["padding_dv"]
    return np.asarray(~pipeline_is(c, "qr_async_trload") | (~open_ends & heads))


def _trload_waits(c: Columns) -> Array:
    """Long sequences: waiting counts reads of the LDS up to 15, loads of memory up to 63."""
    each = 16 // element_bytes(c)
    keys, lanes = wide(c["tile_1"]), _lanes(c)
    reads = (
        keys * c["tile_2"] // (each * lanes),
        2 * wide(c["tile_4"]) * c["tile_3"] // (each * lanes),
    )
    loads = keys * (c["tile_5"] + c["tile_3"]) // np.maximum(each * lanes * waves(c), 1)
    ok = (reads[0] <= 15) & (reads[1] <= 15) & (loads <= 63)
    return np.asarray(~pipeline_is(c, "qr_async_trload") | (c["tile_0"] < 64) | ok)


_UNUSED = ("logits", "dropout", "skip_min_seqlen_q")


def _trload_features(c: Columns) -> Array:
    used = any_of([c[name].astype(np.bool_) for name in _UNUSED])
    return np.asarray(~pipeline_is(c, "qr_async_trload") | (~used & (c["bias"] == 0)))


def _v3_features(c: Columns) -> Array:
    names = ("dropout", "skip_min_seqlen_q", "sink")
    used = any_of([c[name].astype(np.bool_) for name in names]) | (c["bias"] != 0)
    masks = facts.one_of(FMHA_MASK, ("no", "top_left", "bottom_right"), c["mask"])
    plain = ~used & masks & ~c["simplified_mask"].astype(np.bool_)
    return np.asarray(~pipeline_is(c, "v3") | plain)


def _v3_block(c: Columns) -> Array:
    block = (c["tile_0"] == 256) & (waves(c) * _lanes(c) == 512)
    return np.asarray(~pipeline_is(c, "v3") | block)


def _v3_padding(c: Columns) -> Array:
    padding = (c["padding_sq"] == 1) & (c["padding_sk"] == 1)
    padding &= (c["padding_d"] == 0) & (c["padding_dv"] == 0)
    return np.asarray(~pipeline_is(c, "v3") | padding)


def _trload_lds(c: Columns) -> Array:
    queries, keys = wide(c["tile_0"]), wide(c["tile_1"])
    head = np.where(queries >= 64, wide(c["tile_5"]), wide(c["tile_2"]))
    loops = 2 * keys * (head + wide(c["tile_3"]))  # of K and V there are two in turn
    size = np.maximum(queries * wide(c["tile_5"]), loops) * element_bytes(c)
    fits = size <= facts.arch_array("lds_bytes")[c["arch"]]
    return np.asarray(~pipeline_is(c, "qr_async_trload") | fits)


def _rule(*args: Any) -> Rule:
    return family_rule(FORWARD, *args)


def _fwd(*args: Any) -> Rule:
    return family_rule(_FWD, *args)


RULES: tuple[Rule, ...] = (
    family_rule(
        (*FORWARD, GRADIENT),
        "matrix_arch",
        "CK's attention multiplies matrices on gfx9 and gfx12",
        "",
        lambda c: ~facts.in_family(c, ("rdna3",)),
        lambda k: (
            f"CK's attention has no matrix products for {k.arch}: its headers do not compile "
            f"{k.family} there; use gfx90a, gfx942, gfx950, gfx1200 or gfx1201"
        ),
    ),
    _rule(
        "head_loops",
        "the pipeline has the steps along the head dimension that it needs",
        "pipeline tile_2 tile_5",
        _loops,
        lambda k: (
            f"{k.tile[5]} numbers of Q in steps of {k.tile[2]}: pipeline {k.pipeline} takes "
            f"{'exactly one step' if k.pipeline == 'v3' else 'at least two steps'}"
        ),
    ),
    _rule(
        "value_loops",
        "steps along the keys of V divide those of a tile",
        "pipeline tile_1 tile_4",
        _value_loops,
        lambda k: (
            f"{k.tile[1]} keys of a tile in steps of {k.tile[4]} along V: pipeline {k.pipeline} "
            f"takes {'exactly one step' if k.pipeline == 'v3' else 'whole steps, at least one'}"
        ),
    ),
    _rule(
        "stage_waves",
        "both stages have the same waves",
        _BLOCK,
        _stage_waves,
        lambda k: (
            f"{int(np.prod(k.wave[:3]))} waves multiply Q K^T and {int(np.prod(k.wave[3:6]))} "
            "P V; both are one block"
        ),
    ),
    _rule(
        "wave_shape",
        "waves share the queries; in qr_nwarp_sshuffle they share the keys",
        f"pipeline {_BLOCK}",
        _wave_shape,
        lambda k: (
            f"waves {list(k.wave[:6])}: pipeline {k.pipeline} lays them "
            f"{'along N' if k.pipeline == 'qr_nwarp_sshuffle' else 'along M'} only"
        ),
    ),
    _fwd(
        "matrix_groups",
        "qr schedules matrix instructions in groups of 8 where a tile has 256 numbers of Q",
        f"dtype pipeline tile_0 tile_1 tile_2 tile_5 warp_m0 warp_n0 warp_k0 {_BLOCK}",
        _groups_of_eight,
        lambda k: (
            f"a step of tile {k.tile[0]}x{k.tile[1]}x{k.tile[2]} is not a multiple of 8 matrix "
            "instructions of a wave, which qr groups at head dimension 256"
        ),
    ),
    family_rule(
        ("fmha.splitkv",),
        "split_mask",
        "splitkv asks masks for the range of a split, which only the simplified form knows",
        "simplified_mask",
        lambda c: c["simplified_mask"].astype(np.bool_),
        lambda k: (
            f"splitkv has no kernels for the full form of masks, here of mask {k.mask}; use "
            "simplified_mask true with mask no, or with generic, which serves every kind"
        ),
    ),
    _rule(
        "async_load",
        "loads past the registers spread the keys of a tile evenly over the waves",
        f"dtype pipeline tile_1 tile_4 {_BLOCK}",
        _async_load,
        lambda k: (
            f"qr_async on {k.arch} loads {arch(k.arch).fmha['async_bytes']} bytes a lane: "
            f"{k.tile[1]} keys by {k.tile[4]} numbers do not spread evenly over "
            f"{int(np.prod(k.wave[:3]))} waves"
        ),
    ),
    _rule(
        "async_step",
        "qr_async loads as many numbers of K in a step as it takes of V",
        "pipeline tile_2 tile_4",
        _async_step,
        lambda k: (
            f"qr_async loads {k.tile[4]} numbers of K, the step along V, but multiplies "
            f"{k.tile[2]}: the rest would be what the LDS held before"
        ),
    ),
    _rule(
        "async_lds",
        "three tiles of K or V fit the LDS",
        f"dtype pipeline tile_1 tile_3 tile_4 {_BLOCK}",
        _async_lds,
        lambda k: (
            f"three tiles of qr_async with {k.tile[1]} keys and {k.tile[3]} numbers of V do not "
            f"fit the {arch(k.arch).lds_bytes} bytes of LDS of {k.arch}"
        ),
    ),
    _rule(
        "key_load",
        "the lanes of a block share a step of K evenly, in loads of a power of two",
        f"dtype pipeline tile_1 tile_2 {_BLOCK}",
        _key_load,
        lambda k: (
            f"{k.tile[1]} keys by {k.tile[2]} numbers of {k.dtype} do not spread evenly over "
            f"{int(np.prod(k.wave[:3]))} waves"
        ),
    ),
    family_rule(
        ("fmha.splitkv",),
        "query_load",
        "the lanes of a block of qr_nwarp_sshuffle share Q evenly, in loads of a power of two",
        f"dtype pipeline tile_0 tile_5 {_BLOCK}",
        _query_load,
        lambda k: (
            f"{k.tile[0]} queries by {k.tile[5]} numbers of {k.dtype} do not spread evenly over "
            f"{int(np.prod(k.wave[:3]))} waves of qr_nwarp_sshuffle"
        ),
    ),
    _rule(
        "value_load",
        "the lanes of a block share a step of V evenly, in loads of a power of two",
        f"dtype pipeline vlayout tile_3 tile_4 {_BLOCK}",
        _value_load,
        lambda k: (
            f"{k.tile[4]} keys by {k.tile[3]} numbers of V (vlayout {k.vlayout}, {k.dtype}) do "
            f"not spread evenly over {int(np.prod(k.wave[:3]))} waves"
        ),
    ),
    family_rule(
        ("fmha.batch_prefill",),
        "prefill_values",
        "the rows of V that a lane loads in batch prefill divide a vector of 16 bytes",
        f"dtype tile_3 tile_4 {_BLOCK}",
        _prefill_values,
        lambda k: (
            f"{k.tile[4]} keys by {k.tile[3]} numbers of V over {int(np.prod(k.wave[:3]))} waves: "
            "a lane of batch prefill would load more rows than a vector has numbers; use a smaller "
            "step along V or more waves"
        ),
    ),
    _rule(
        "async_padding",
        "qr_async pads queries and both head dimensions",
        "pipeline padding_sq padding_d padding_dv",
        _async_padding,
        lambda k: f"qr_async pads sq, d and dv always, not {k.padding}",
    ),
    _fwd(
        "trload_flag",
        "use_trload says what the pipeline does",
        "pipeline use_trload",
        lambda c: pipeline_is(c, "qr_async_trload") == c["use_trload"].astype(np.bool_),
        lambda k: f"use_trload must be {str(not k.use_trload).lower()} with pipeline {k.pipeline}",
    ),
    _fwd(
        "trload_features",
        "qr_async_trload has no bias, soft cap, dropout and skipping",
        "pipeline bias logits dropout skip_min_seqlen_q",
        _trload_features,
        lambda k: (
            "qr_async_trload has no "
            + ", ".join([f for f in _UNUSED if getattr(k, f)] + ["bias"] * (k.bias != "no"))
        ),
    ),
    _fwd(
        "trload_padding",
        "qr_async_trload pads d and dv alike, and no sequences",
        "pipeline padding_sq padding_sk padding_d padding_dv",
        _trload_padding,
        lambda k: f"qr_async_trload pads both head dimensions or nothing, not {k.padding}",
    ),
    _fwd(
        "trload_lds",
        "the tiles of qr_async_trload fit the LDS",
        "dtype pipeline tile_0 tile_1 tile_2 tile_3 tile_5",
        _trload_lds,
        lambda k: (
            f"tiles of {k.tile[0]} queries and {k.tile[1]} keys do not fit the "
            f"{arch(k.arch).lds_bytes} bytes of LDS of {k.arch}"
        ),
    ),
    _fwd(
        "trload_waits",
        "qr_async_trload counts the loads that it waits for",
        f"dtype pipeline tile_0 tile_1 tile_2 tile_3 tile_4 tile_5 {_BLOCK}",
        _trload_waits,
        lambda k: (
            f"qr_async_trload reads {k.tile[1]} keys by {k.tile[2]} numbers and {k.tile[4]} by "
            f"{k.tile[3]} of V in a step: more loads of a lane than it can count; use smaller steps"
        ),
    ),
    _fwd(
        "row_major_v",
        "transposed loads read V row by row",
        "pipeline vlayout",
        lambda c: ~pipeline_is(c, "qr_async_trload", "v3") | (c["vlayout"] == ORDER.code("r")),
        lambda k: f"pipeline {k.pipeline} reads V row by row: vlayout is r",
    ),
    _fwd(
        "v3_features",
        "v3 has triangular masks and LSE; no bias, dropout, sink and skipping",
        "pipeline mask simplified_mask bias dropout skip_min_seqlen_q sink",
        _v3_features,
        lambda k: (
            f"v3 has masks no, top_left and bottom_right, not simplified, and no bias, dropout, "
            f"sink and skip_min_seqlen_q; this is mask {k.mask}, bias {k.bias}, "
            f"simplified_mask {k.simplified_mask}, dropout {k.dropout}, sink {k.sink}, "
            f"skip_min_seqlen_q {k.skip_min_seqlen_q}"
        ),
    ),
    _fwd(
        "v3_dtype",
        "v3 lays out K in the LDS for types of 16 bits",
        "dtype pipeline",
        lambda c: ~pipeline_is(c, "v3") | dtype_is(c, "fp16", "bf16"),
        lambda k: f"v3 takes fp16 and bf16, not {k.dtype}; use another pipeline",
    ),
    _fwd(
        "v3_block",
        "two groups of four waves of v3 take 256 queries",
        f"pipeline tile_0 {_BLOCK}",
        _v3_block,
        lambda k: f"v3 takes 256 queries in 8 waves, not {k.tile[0]} in {int(np.prod(k.wave[:3]))}",
    ),
    _fwd(
        "v3_padding",
        "v3 pads sequences only",
        "pipeline padding_sq padding_sk padding_d padding_dv",
        _v3_padding,
        lambda k: f"v3 pads sq and sk, and no head dimension, not {k.padding}",
    ),
    _fwd(
        "wave_groups",
        "two groups of waves alternate in v3; other pipelines have one group",
        "pipeline num_wave_groups",
        lambda c: c["num_wave_groups"] == np.where(pipeline_is(c, "v3"), 2, 1),
        lambda k: (
            f"pipeline {k.pipeline} has {2 if k.pipeline == 'v3' else 1} group(s) of waves, "
            f"not {k.num_wave_groups}"
        ),
    ),
)
