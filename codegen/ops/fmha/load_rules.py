"""Rules of how the lanes of a block share what the forward families load, and of qr_async's LDS."""

from __future__ import annotations

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import ORDER
from ...rules import Rule
from .. import facts
from ..spread import is_power_of_two
from .columns import (
    arch_fact,
    divides,
    element_bytes,
    family_rule,
    forward_rule,
    pipeline_is,
    wave_columns,
    waves,
    wide,
)

# How often the buffers of K and V are held by the pipelines with asynchronous loads.
_ASYNC_BUFFERS = 3
_BLOCK = wave_columns(2)


def _is_async(c: Columns) -> Array:
    return pipeline_is(c, "qr_async")


def _plain(c: Columns) -> Array:
    """Pipelines whose loads all follow one policy."""
    return pipeline_is(c, "qr", "qs", "qr_pagedkv", "qr_nwarp_sshuffle", "qr_async")


def _async_load(c: Columns) -> Array:
    vector = arch_fact("async_bytes")[c["arch"]] // element_bytes(c)
    step = wide(c["tile_4"])
    width = facts.lanes(c) * vector
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
    step, lanes, count = wide(c["tile_4"]), facts.lanes(c), waves(c)
    rows = np.maximum(lanes * vector // np.maximum(step, 1), 1)
    issues = wide(c["tile_1"]) // np.maximum(rows * count, 1)
    keys = issues * count * (lanes * vector + pack)
    per_row = np.maximum(_row(c) // pack, 1)
    values = (step // pack) * (wide(c["tile_3"]) // per_row) * (_row(c) + pack)
    size = _ASYNC_BUFFERS * np.maximum(keys, values) * element_bytes(c)
    return np.asarray(~_is_async(c) | (size <= facts.arch_array("lds_bytes")[c["arch"]]))


def _key_load(c: Columns) -> Array:
    lanes, count = facts.lanes(c), np.maximum(waves(c), 1)
    rows, step = wide(c["tile_1"]), wide(c["tile_2"])
    each = np.minimum(16 // element_bytes(c), rows * step // (lanes * count))
    across = step // np.maximum(each, 1)
    down = lanes // np.maximum(across, 1)
    repeat = rows // np.maximum(down * count, 1)
    ok = is_power_of_two(each) & (repeat * down * count * across * each == rows * step)
    return np.asarray(~(_plain(c) & ~_is_async(c)) | ok)


def _query_load(c: Columns) -> Array:
    """qr_nwarp_sshuffle brings Q into the LDS, in rows of a length that CK Tile knows."""
    length, lanes, count = wide(c["tile_5"]), facts.lanes(c), np.maximum(waves(c), 1)
    length = np.where(length == 96, 128, np.where(length == 160, 256, length))
    rows = wide(c["tile_0"])
    each = np.minimum(16 // element_bytes(c), rows * length // (lanes * count))
    across = np.maximum(length // np.maximum(each, 1), 1)
    down = np.maximum(lanes // across, 1)
    ok = is_power_of_two(each) & divides(across, lanes) & divides(down * count, rows)
    return np.asarray(~pipeline_is(c, "qr_nwarp_sshuffle") | ok)


def _value_load(c: Columns) -> Array:
    rows = c["vlayout"] == ORDER.code("r")
    return np.asarray(~_plain(c) | np.where(rows, _rows_of_v(c), _columns_of_v(c)))


def _each_of_v(c: Columns) -> tuple[Array, Array]:
    """The numbers of V that a lane loads in all, and at most at once."""
    total = wide(c["tile_3"]) * wide(c["tile_4"]) // np.maximum(waves(c) * facts.lanes(c), 1)
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
    lanes, count = facts.lanes(c), waves(c)
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
    return np.asarray(is_power_of_two(vector) & spread_ok & stored)


def _prefill_values(c: Columns) -> Array:
    return ~_spread_of_v(c)[3]


def _columns_of_v(c: Columns) -> Array:
    lanes, count = facts.lanes(c), np.maximum(waves(c), 1)
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
    return np.asarray(is_power_of_two(pack) & (repeat > 0) & (even | odd))


RULES: tuple[Rule, ...] = (
    forward_rule(
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
    forward_rule(
        "async_step",
        "qr_async loads as many numbers of K in a step as it takes of V",
        "pipeline tile_2 tile_4",
        _async_step,
        lambda k: (
            f"qr_async loads {k.tile[4]} numbers of K, the step along V, but multiplies "
            f"{k.tile[2]}: the rest would be what the LDS held before"
        ),
    ),
    forward_rule(
        "async_lds",
        "three tiles of K or V fit the LDS",
        f"dtype pipeline tile_1 tile_3 tile_4 {_BLOCK}",
        _async_lds,
        lambda k: (
            f"three tiles of qr_async with {k.tile[1]} keys and {k.tile[3]} numbers of V do not "
            f"fit the {arch(k.arch).lds_bytes} bytes of LDS of {k.arch}"
        ),
    ),
    forward_rule(
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
    forward_rule(
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
            "the rows that a lane of batch prefill loads do not divide a vector of 16 bytes; use "
            "another step along V or other waves"
        ),
    ),
)
