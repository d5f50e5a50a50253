"""Rules of the tiles and waves of attention kernels on GPUs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import ARCH, FMHA_DTYPE
from ...rules import Rule
from .. import facts
from ..tiles import join
from .columns import (
    all_of,
    by_family,
    divides,
    dtype_is,
    element_bytes,
    family_rule,
    forward_rule,
    pipeline_is,
    product,
    table,
    warp_tiles,
    wave_columns,
    waves,
    wide,
)
from .families import BACKWARD, FIELDS, FORWARD, GRADIENT, PADDINGS, STAGES, TILE_NUMBERS

_ALL = tuple(FIELDS)
_CDNA = ("cdna1", "cdna2", "cdna3", "cdna4")
_TILE = " ".join(f"tile_{i}" for i in range(9))
_WARP = wave_columns(3).replace("wave", "warp")
MAX_TILE = 1024


def _numbers(c: Columns, counts: Array, names: list[str]) -> Array:
    ok = [np.where(i < counts, c[name] > 0, c[name] == 0) for i, name in enumerate(names)]
    return np.asarray(all_of(ok))


def _tile_numbers(c: Columns) -> Array:
    counts = by_family(TILE_NUMBERS, 0)[c["family"]]
    # How many keys convert_dq sums is 0 where nothing is to be summed.
    shorter = by_family({"fmha.bwd_convert_dq": 1}, 0)[c["family"]]
    names = [f"tile_{i}" for i in range(9)]
    return _numbers(c, counts, names) | _numbers(c, counts - shorter, names)


def _stage_numbers(c: Columns) -> Array:
    counts = by_family(STAGES, 0)[c["family"]] * 3
    names = [f"{side}{stage}" for stage in range(3) for side in "mnk"]
    ok = [_numbers(c, counts, [f"{kind}_{n}" for n in names]) for kind in ("wave", "warp")]
    return ok[0] & ok[1]


def _ranges(c: Columns) -> Array:
    return np.asarray(all_of([c[name] <= MAX_TILE for name in _TILE.split()]))


def _padding(c: Columns) -> Array:
    used = np.array([PADDINGS.get(f, (False,) * 4) for f in by_family({f: f for f in _ALL}, "")])
    gradient = by_family({GRADIENT: True}, False).astype(np.bool_)[c["family"]]
    ok = []
    for i, name in enumerate(("sq", "sk", "d", "dv")):
        value = c[f"padding_{name}"]
        eights = (value == 8) & gradient & (i >= 2)
        ok.append(np.where(used[c["family"], i], (value <= 1) | eights, value == 0))
    return np.asarray(all_of(ok))


def _padding_text(k: Any) -> str:
    named = [n for n, used in zip(("sq", "sk", "d", "dv"), PADDINGS[k.family], strict=True) if used]
    values = "0, 1 or 8" if k.family == GRADIENT else "0 or 1"
    return f"padding {k.padding}: {k.family} pads {' and '.join(named)}, by {values}; others are 0"


@functools.cache
def _warp_codes() -> Array:
    rows = [
        _warp_code(ARCH.code(a), FMHA_DTYPE.code(d), *tile)
        for a in ARCH.values
        for d in FMHA_DTYPE.values
        for tile in warp_tiles(a, d)
    ]
    return np.array(sorted(rows), np.int64)


def _warp_code(a: Any, d: Any, m: Any, n: Any, k: Any) -> Any:
    return (((a * 64 + d) * 1024 + m) * 1024 + n) * 1024 + k


def _warp_tile(c: Columns) -> Array:
    stages = by_family(STAGES, 0)[c["family"]]
    ok = []
    for stage in range(3):
        parts = [np.minimum(c[f"warp_{side}{stage}"], 1023).astype(np.int64) for side in "mnk"]
        code = _warp_code(c["arch"].astype(np.int64), c["dtype"].astype(np.int64), *parts)
        ok.append((stage >= stages) | np.isin(code, _warp_codes()))
    known = np.isin(
        c["arch"].astype(np.int64) * 64 + c["dtype"], np.unique(_warp_codes() // 1024**3)
    )
    return np.asarray(all_of(ok) | ~known)


def _warp_reason(k: Any) -> str:
    given = [k.warp[3 * s : 3 * s + 3] for s in range(STAGES[k.family])]
    known = warp_tiles(k.arch, k.dtype)
    bad = tuple(w for w in dict.fromkeys(given) if w not in known)
    return f"{k.arch} has no warp tile {join(bad)} for {k.dtype}; it has {join(known)}"


def _fits(c: Columns, tile: str, side: str, stage: int) -> Array:
    """Whether a number of the tile is whole waves of whole warp tiles."""
    step = (
        product(c, f"warp_{side}{stage}")
        if side == "k"
        else product(c, f"wave_{side}{stage}", f"warp_{side}{stage}")
    )
    return divides(step, wide(c[tile]))


# Which number of a tile is cut into waves along which side of which stage.
_CUTS = (("0", "m", 0), ("1", "n", 0), ("2", "k", 0), ("0", "m", 1), ("3", "n", 1), ("4", "k", 1))
_GRADIENT_CUTS = (
    *(("0", "m", 0), ("1", "n", 0), ("2", "k", 0), ("4", "k", 0)),
    *(("1", "m", 1), ("7", "n", 1), ("8", "n", 1), ("3", "k", 1), ("5", "k", 1)),
    *(("0", "m", 2), ("7", "n", 2), ("6", "k", 2)),
)


def _all_fit(cuts: tuple[tuple[str, str, int], ...]) -> Any:
    return lambda c: all_of([_fits(c, f"tile_{t}", s, i) for t, s, i in cuts])


def _cuts_reason(cuts: tuple[tuple[str, str, int], ...]) -> Any:
    def reason(k: Any) -> str:
        bad = []
        for tile, side, stage in cuts:
            number, i = k.tile[int(tile)], 3 * stage + "mnk".index(side)
            count = 1 if side == "k" else k.wave[i]
            if not count * k.warp[i] or number % (count * k.warp[i]):
                bad.append(f"{number} by {count}x{k.warp[i]}")
        return f"numbers of the tile are not whole waves of warp tiles: {', '.join(bad)}"

    return reason


def _block_threads(c: Columns) -> Array:
    lanes = facts.arch_array("wave_size")[c["arch"]]
    return np.asarray(np.maximum(waves(c, 0), waves(c, 1)) * lanes)


def _occupancy(c: Columns) -> Array:
    threads = _block_threads(c)
    return (threads <= 1024) & (threads * wide(c["block_per_cu"]) <= facts.MAX_THREADS_PER_CU)


def _head_tile(c: Columns) -> Array:
    length, hdim = wide(c["tile_5"]), wide(c["hdim_q"])
    most = 1 << np.ceil(np.log2(np.maximum(hdim, 1))).astype(np.int64)
    return np.asarray(np.isin(length, table("head_lengths")) & (length >= hdim) & (length <= most))


def _plain_lds(c: Columns) -> Array:
    size = (wide(c["tile_0"]) + wide(c["tile_1"])) * wide(c["tile_2"]) * element_bytes(c)
    plain = pipeline_is(c, "qr", "qs", "qr_pagedkv", "qr_nwarp_sshuffle")
    return np.asarray(~plain | (size <= facts.arch_array("lds_bytes")[c["arch"]]))


def _square(c: Columns, *sizes: int) -> Array:
    return np.asarray(np.isin(c["hdim_q"], sizes) & (c["hdim_q"] == c["hdim_v"]))


def _cdna_tile(c: Columns) -> Array:
    exempt = ~facts.in_family(c, _CDNA) | dtype_is(c, "fp32")
    exempt = exempt | pipeline_is(c, "qr_async_trload", "v3")
    queries, keys = c["tile_0"], c["tile_1"]
    at_128 = (keys == 128) & np.where(pipeline_is(c, "qr_async"), queries == 128, c["tile_2"] != 64)
    other = np.isin(queries, (64, 128, 192, 256))
    return np.asarray(exempt | np.where(_square(c, 128), at_128, other))


def _cdna_reason(k: Any) -> str:
    if (k.hdim_q, k.hdim_v) != (128, 128):
        return f"on CDNA a tile has 64, 128, 192 or 256 queries, not {k.tile[0]}"
    if k.pipeline == "qr_async":
        return (
            "on CDNA a tile of qr_async at head dimension 128 has 128 queries and keys, "
            f"not {k.tile[0]} and {k.tile[1]}"
        )
    return (
        "on CDNA a tile at head dimension 128 has 128 keys and does not step by 64, "
        f"not {k.tile[1]} keys by {k.tile[2]}"
    )


RULES: tuple[Rule, ...] = (
    family_rule(
        _ALL,
        "tile_numbers",
        "a tile has the numbers of its family",
        _TILE,
        _tile_numbers,
        lambda k: (
            f"a tile of {k.family} has {TILE_NUMBERS[k.family]} numbers, all positive, "
            f"not {list(k.tile)}"
        ),
    ),
    family_rule(
        _ALL,
        "tile_range",
        "no number of a tile is absurd",
        _TILE,
        _ranges,
        lambda k: f"numbers of a tile are at most {MAX_TILE}: {list(k.tile)}",
    ),
    family_rule(
        _ALL,
        "stage_numbers",
        "waves and warp tiles have M, N and K of each stage of the family",
        f"{wave_columns(3)} {_WARP}",
        _stage_numbers,
        lambda k: (
            f"{k.family} has {STAGES[k.family]} stage(s) of matrix instructions: wave and warp "
            f"have {3 * STAGES[k.family]} positive numbers, not {list(k.wave)} and {list(k.warp)}"
        ),
    ),
    family_rule(
        _ALL,
        "padding",
        "only what the family can pad is padded",
        "padding_sq padding_sk padding_d padding_dv",
        _padding,
        _padding_text,
    ),
    family_rule(
        (*FORWARD, GRADIENT),
        "warp_tile",
        "the arch has the warp tiles for the type",
        f"dtype {_WARP}",
        _warp_tile,
        _warp_reason,
    ),
    forward_rule(
        "tile_waves",
        "a tile is whole waves of whole warp tiles",
        f"tile_0 tile_1 tile_2 tile_3 tile_4 {wave_columns(2)} "
        f"{wave_columns(2).replace('wave', 'warp')}",
        _all_fit(_CUTS),
        _cuts_reason(_CUTS),
    ),
    family_rule(
        (GRADIENT,),
        "bwd_tile_waves",
        "a tile of the main backward kernel is whole waves of whole warp tiles",
        f"{_TILE} {wave_columns(3)} {_WARP}",
        _all_fit(_GRADIENT_CUTS),
        _cuts_reason(_GRADIENT_CUTS),
    ),
    forward_rule(
        "value_tile",
        "a tile spans the head dimension of V",
        "tile_3 hdim_v",
        lambda c: c["tile_3"] == c["hdim_v"],
        lambda k: f"the tile has {k.tile[3]} numbers of V, hdim_v is {k.hdim_v}",
    ),
    forward_rule(
        "head_tile",
        "a tile spans the head dimension of Q, rounded up to a length that CK Tile knows",
        "tile_5 hdim_q",
        _head_tile,
        lambda k: (
            f"the tile has {k.tile[5]} numbers of Q, hdim_q is {k.hdim_q}; lengths are "
            f"{', '.join(map(str, table('head_lengths')))}, up to the next power of two"
        ),
    ),
    forward_rule(
        "head_step",
        "steps along the head dimension divide it",
        "tile_2 tile_5",
        lambda c: divides(wide(c["tile_2"]), wide(c["tile_5"])),
        lambda k: f"steps of {k.tile[2]} do not divide the {k.tile[5]} numbers of Q in a tile",
    ),
    family_rule(
        (*FORWARD, GRADIENT),
        "occupancy",
        "the blocks per compute unit fit its threads",
        f"{wave_columns(2)} block_per_cu",
        _occupancy,
        lambda k: (
            f"{max(k.block_per_cu, 1)} block(s) of {int(np.prod(k.wave[:3]))} waves of "
            f"{arch(k.arch).wave_size} threads: a block has at most 1024, and a compute unit "
            f"{facts.MAX_THREADS_PER_CU}"
        ),
    ),
    family_rule(
        ("fmha.splitkv_combine", "fmha.appendkv", *BACKWARD),
        "block_count",
        "a compute unit holds at most 8 blocks of the small kernels",
        "block_per_cu",
        lambda c: c["block_per_cu"] <= 8,
        lambda k: f"block_per_cu {k.block_per_cu}: at most 8 blocks of {k.family} fit",
    ),
    forward_rule(
        "tile_lds",
        "a step of the tiles of Q and K fits the LDS",
        "dtype pipeline tile_0 tile_1 tile_2",
        _plain_lds,
        lambda k: (
            f"({k.tile[0]} + {k.tile[1]}) x {k.tile[2]} numbers of {k.dtype} do not fit the "
            f"{arch(k.arch).lds_bytes} bytes of LDS of {k.arch}"
        ),
    ),
    family_rule(
        ("fmha.fwd",),
        "cdna_tile",
        "the tiles that CDNA's pipelines are made for",
        "dtype hdim_q hdim_v pipeline tile_0 tile_1 tile_2",
        _cdna_tile,
        _cdna_reason,
    ),
    family_rule(
        ("fmha.fwd",),
        "trload_heads",
        "transposed loads are made for head dimensions 64 and 128, v3 for 128",
        "pipeline hdim_q hdim_v",
        lambda c: (
            np.where(pipeline_is(c, "qr_async_trload"), _square(c, 64, 128), True)
            & np.where(pipeline_is(c, "v3"), _square(c, 128), True)
        ),
        lambda k: (
            f"pipeline {k.pipeline} has no kernels of head dimensions {k.hdim_q} and {k.hdim_v}; "
            f"it has {'128' if k.pipeline == 'v3' else '64 and 128'}"
        ),
    ),
    family_rule(
        ("fmha.fwd",),
        "trload_tile",
        "a tile of qr_async_trload at head dimension 128 has fewer than 128 keys",
        "pipeline hdim_q tile_1",
        lambda c: ~pipeline_is(c, "qr_async_trload") | (c["hdim_q"] != 128) | (c["tile_1"] < 128),
        lambda k: f"a tile of qr_async_trload with {k.tile[1]} keys at head dimension 128; use 64",
    ),
    family_rule(
        ("fmha.splitkv_combine",),
        "combine_tile",
        "32 numbers of V at a time, which divide them",
        "tile_0 hdim_v",
        lambda c: (c["tile_0"] == 32) & (c["hdim_v"] % 32 == 0),
        lambda k: f"fmha.splitkv_combine takes 32 of the {k.hdim_v} numbers of V at a time",
    ),
    family_rule(
        ("fmha.bwd_dot_do_o",),
        "dot_tile",
        "one query for each thread of whole waves",
        "tile_0",
        lambda c: divides(
            facts.arch_array("wave_size")[c["arch"]].astype(np.int64), wide(c["tile_0"])
        ),
        lambda k: f"a tile of {k.tile[0]} queries is not whole waves of threads",
    ),
    family_rule(
        ("fmha.bwd_convert_dq",),
        "convert_tile",
        "a deterministic sum has the keys of the tile of its parts, any other has 0",
        "tile_1 deterministic",
        lambda c: (c["tile_1"] > 0) == c["deterministic"].astype(np.bool_),
        lambda k: (
            "the second number of a tile of fmha.bwd_convert_dq is "
            + ("that of fmha.bwd_dq_dk_dv" if k.deterministic else "0 if not deterministic")
            + f", not {k.tile[1]}"
        ),
    ),
)
