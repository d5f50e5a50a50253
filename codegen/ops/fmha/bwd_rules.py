"""Rules of the backward kernels on GPUs, and of append-KV."""

from __future__ import annotations

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import FMHA_MASK, FMHA_MODE
from ...rules import Rule
from .. import facts
from .columns import (
    all_of,
    arch_fact,
    bytes_of,
    divides,
    element_bytes,
    family_rule,
    wave_columns,
    waves,
    wide,
)
from .families import GRADIENT

_MAIN = (GRADIENT,)
_APPEND = ("fmha.appendkv",)


def _trload(c: Columns) -> Array:
    return c["use_trload"].astype(np.bool_)


def _steps(c: Columns) -> Array:
    heads = (c["tile_2"] <= c["tile_7"]) & (c["tile_4"] <= c["tile_8"])
    queries = (c["tile_3"] == c["tile_0"]) & (c["tile_5"] == c["tile_0"])
    return np.asarray(heads & queries & divides(wide(c["tile_6"]), wide(c["tile_1"])))


def _short_queries(c: Columns) -> Array:
    short = c["max_seq_len_q"] != 0
    batch = c["mode"] == FMHA_MODE.code("batch")
    no_mask = c["mask"] == FMHA_MASK.code("no")
    ok = (c["max_seq_len_q"] == c["tile_0"]) & batch & no_mask & _trload(c)
    return np.asarray(~short | ok)


def _dropout_warp(c: Columns) -> Array:
    return np.asarray(c["dropout_warp"] == np.where(c["dropout"], c["warp_m0"], 0))


def _trload_padding(c: Columns) -> Array:
    alike = (c["padding_d"] == c["padding_dv"]) & (c["padding_d"] != 1)
    return np.asarray(~_trload(c) | alike)


def _keys_lds(c: Columns) -> Array:
    size = 2 * wide(c["tile_1"]) * wide(c["tile_7"]) * element_bytes(c)
    return np.asarray(_trload(c) | (size <= facts.arch_array("lds_bytes")[c["arch"]]))


def _trload_load(c: Columns) -> Array:
    """Waves share lines of 128 bytes, 8 lanes a line, and then the rows."""
    count = waves(c)
    ok = []
    for head in ("tile_7", "tile_8"):
        size = wide(c[head]) * element_bytes(c)
        lines = np.maximum(size // 128, 1)
        along = np.maximum(np.minimum(count, lines), 1)
        across = np.maximum(count // along, 1)
        ok += [size % 128 == 0, lines % along == 0, along * across == count]
        rows = across * facts.lanes(c) // 8
        ok += [divides(rows, wide(c[name])) for name in ("tile_0", "tile_1")]
    return np.asarray(~_trload(c) | all_of(ok))


def _append_load(c: Columns) -> Array:
    each = 16 // element_bytes(c)
    lanes = facts.lanes(c)
    ok = [
        divides(each, wide(c[name])) & divides(wide(c[name]) // each, lanes)
        for name in ("tile_2", "tile_3")
    ]
    return np.asarray(ok[0] & ok[1])


RULES: tuple[Rule, ...] = (
    family_rule(
        _MAIN,
        "bwd_heads",
        "a tile spans both head dimensions",
        "tile_7 tile_8 hdim_q hdim_v",
        lambda c: (c["tile_7"] == c["hdim_q"]) & (c["tile_8"] == c["hdim_v"]),
        lambda k: (
            f"the tile has {k.tile[7]} numbers of Q and {k.tile[8]} of V, "
            f"the head dimensions are {k.hdim_q} and {k.hdim_v}"
        ),
    ),
    family_rule(
        _MAIN,
        "bwd_steps",
        "P^T dO and dS^T Q take all queries of a tile in one step, the others divide it",
        " ".join(f"tile_{i}" for i in range(9)),
        _steps,
        lambda k: (
            f"steps {list(k.tile[2:7])} of tile {k.tile[0]}x{k.tile[1]}: the second and fourth are "
            f"its {k.tile[0]} queries, the first and third at most {k.tile[7]} and {k.tile[8]}, "
            f"and the fifth divides {k.tile[1]} keys"
        ),
    ),
    family_rule(
        _MAIN,
        "bwd_waves",
        "all stages have the same waves",
        wave_columns(3),
        lambda c: (waves(c, 0) == waves(c, 1)) & (waves(c, 0) == waves(c, 2)),
        lambda k: (
            "the stages have "
            + ", ".join(str(int(np.prod(k.wave[i : i + 3]))) for i in (0, 3, 6))
            + " waves; all are one block"
        ),
    ),
    family_rule(
        _MAIN,
        "bwd_lds",
        "K of a tile and its transpose fit the LDS, unless that is read transposed",
        "dtype use_trload tile_1 tile_7",
        _keys_lds,
        lambda k: (
            f"{k.tile[1]} keys of {k.tile[7]} numbers of {k.dtype} and their transpose do not fit "
            f"the {arch(k.arch).lds_bytes} bytes of LDS of {k.arch}"
        ),
    ),
    family_rule(
        _MAIN,
        "bwd_trload_arch",
        "the arch reads LDS transposed",
        "use_trload",
        lambda c: ~_trload(c) | (arch_fact("supports_trload")[c["arch"]] > 0),
        lambda k: f"{k.arch} cannot read LDS transposed; use_trload is for gfx950",
    ),
    family_rule(
        _MAIN,
        "bwd_trload_padding",
        "kernels that read LDS transposed pad both head dimensions to 8, or nothing",
        "use_trload padding_d padding_dv",
        _trload_padding,
        lambda k: f"use_trload takes padding of d and dv 0, 0 or 8, 8, not {k.padding[2:]}",
    ),
    family_rule(
        _MAIN,
        "bwd_trload_load",
        "the waves share lines of 128 bytes of the heads and rows evenly, to read them transposed",
        f"dtype use_trload tile_0 tile_1 tile_7 tile_8 {wave_columns(3)}",
        _trload_load,
        lambda k: (
            f"use_trload loads lines of 128 bytes: {int(np.prod(k.wave[:3]))} waves cannot share "
            f"{k.tile[0]} queries and {k.tile[1]} keys of {k.tile[7]} and {k.tile[8]} numbers of "
            f"{k.dtype} evenly"
        ),
    ),
    family_rule(
        _MAIN,
        "short_queries",
        "kernels of a short Q hold it all: one tile, mode batch, no mask, transposed reads",
        "max_seq_len_q tile_0 mode mask use_trload",
        _short_queries,
        lambda k: (
            f"max_seq_len_q {k.max_seq_len_q}: 0, or the {k.tile[0]} queries of a tile with mode "
            f"batch, mask no and use_trload; this has mode {k.mode}, mask {k.mask} and use_trload "
            f"{str(k.use_trload).lower()}"
        ),
    ),
    family_rule(
        _MAIN,
        "dropout_warp",
        "random numbers are drawn for the warp tiles of Q K^T",
        "dropout dropout_warp warp_m0",
        _dropout_warp,
        lambda k: (
            f"dropout_warp {k.dropout_warp}: "
            + (f"{k.warp[0]}, the side of a warp tile" if k.dropout else "0 without dropout")
        ),
    ),
    family_rule(
        ("fmha.bwd_dot_do_o", "fmha.bwd_convert_dq"),
        "one_head_dim",
        "the kernel sees one head dimension",
        "hdim_q hdim_v",
        lambda c: c["hdim_q"] == c["hdim_v"],
        lambda k: f"{k.family} has one head dimension, not {k.hdim_q} and {k.hdim_v}",
    ),
    family_rule(
        _APPEND,
        "append_tile",
        "a tile spans both head dimensions, which are equal",
        "tile_2 tile_3 hdim_q hdim_v",
        lambda c: (
            (c["tile_2"] == c["hdim_q"])
            & (c["tile_3"] == c["hdim_v"])
            & (c["hdim_q"] == c["hdim_v"])
        ),
        lambda k: (
            f"a tile of fmha.appendkv spans the head dimensions, which are equal; it is "
            f"{k.tile[2]} and {k.tile[3]} for {k.hdim_q} and {k.hdim_v}"
        ),
    ),
    family_rule(
        _APPEND,
        "append_rows",
        "64 rows of Q and K at a time",
        "tile_0 tile_1",
        lambda c: (c["tile_0"] == 64) & (c["tile_1"] == 64),
        lambda k: f"fmha.appendkv takes 64 rows of Q and K, not {k.tile[0]} and {k.tile[1]}",
    ),
    family_rule(
        _APPEND,
        "append_load",
        "the lanes of a wave share rows evenly",
        "dtype tile_2 tile_3",
        _append_load,
        lambda k: (
            f"rows of {k.tile[2]} and {k.tile[3]} numbers of {k.dtype}, {16 // bytes_of(k.dtype)} "
            "for a lane, do not divide the lanes of a wave"
        ),
    ),
)
