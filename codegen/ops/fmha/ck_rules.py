"""Rules that CK Tile asserts, or silently relies on, in the forward families; loads are apart."""

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
    forward_rule,
    pipeline_is,
    wave_columns,
    waves,
    wide,
)
from .families import FORWARD, GRADIENT

_FWD = ("fmha.fwd",)
_BLOCK = wave_columns(2)
_REGISTERS_OF_Q = ("qr", "qs", "qr_pagedkv", "qr_nwarp_sshuffle")


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


def _async_padding(c: Columns) -> Array:
    padded = (c["padding_sq"] == 1) & (c["padding_d"] == 1) & (c["padding_dv"] == 1)
    return np.asarray(~pipeline_is(c, "qr_async") | padded)


def _trload_padding(c: Columns) -> Array:
    open_ends = (c["padding_sq"] == 1) | (c["padding_sk"] == 1)
    heads = c["padding_d"] == c["padding_dv"]
    return np.asarray(~pipeline_is(c, "qr_async_trload") | (~open_ends & heads))


def _trload_waits(c: Columns) -> Array:
    """Long sequences: waiting counts reads of the LDS up to 15, loads of memory up to 63."""
    each = 16 // element_bytes(c)
    keys, lanes = wide(c["tile_1"]), facts.lanes(c)
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
    block = (c["tile_0"] == 256) & (waves(c) * facts.lanes(c) == 512)
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
    forward_rule(
        "head_loops",
        "the pipeline has the steps along the head dimension that it needs",
        "pipeline tile_2 tile_5",
        _loops,
        lambda k: (
            f"{k.tile[5]} numbers of Q in steps of {k.tile[2]}: pipeline {k.pipeline} takes "
            f"{'exactly one step' if k.pipeline == 'v3' else 'at least two steps'}"
        ),
    ),
    forward_rule(
        "value_loops",
        "steps along the keys of V divide those of a tile",
        "pipeline tile_1 tile_4",
        _value_loops,
        lambda k: (
            f"{k.tile[1]} keys of a tile in steps of {k.tile[4]} along V: pipeline {k.pipeline} "
            f"takes {'exactly one step' if k.pipeline == 'v3' else 'whole steps, at least one'}"
        ),
    ),
    forward_rule(
        "stage_waves",
        "both stages have the same waves",
        _BLOCK,
        _stage_waves,
        lambda k: (
            f"{int(np.prod(k.wave[:3]))} waves multiply Q K^T and {int(np.prod(k.wave[3:6]))} "
            "P V; both are one block"
        ),
    ),
    forward_rule(
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
    forward_rule(
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
