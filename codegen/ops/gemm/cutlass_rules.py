"""GEMM rules of NVIDIA GPUs: what CUTLASS's builders for Hopper make, and what fits a block."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import DTYPE, EPILOGUE, LAYOUT, PIPELINE
from ...rules import Rule
from .. import facts
from ..kinds import fixed_on, kind_rule
from .key import GemmKey, Triple

UNALIGNED_TILE: Triple = (64, 64, 32)
_UNALIGNED = PIPELINE.code("unaligned")
_TRANSPOSED = EPILOGUE.code("tma_transposed")
_DIRECT = EPILOGUE.code("default")
_COOPERATIVE = ("cooperative", "cooperative_fast")
# A row of a tile in shared memory along K, in the widest of the patterns that wgmma reads.
_ROW_BYTES = 128
# What the epilogue and the barriers take at most beside two stages of tiles.
_EPILOGUE_BYTES = 40 << 10
# Sums that the registers of 128 threads hold.
_MOST_SUMS = 128 * 128
_OUTPUTS = ("fp32", "fp16", "bf16")

_rule = functools.partial(kind_rule, "cuda")
_fixed = functools.partial(fixed_on, "cuda", GemmKey)


def _by_tma(c: Columns) -> Array:
    return np.asarray(c["pipeline"] != _UNALIGNED)


def _sides(c: Columns) -> tuple[Array, Array, Array]:
    """M and N of the instruction, and K: C's transpose exchanges the first two."""
    m, n, k = (c[f"tile_{side}"].astype(np.int64) for side in "mnk")
    exchanged = c["epilogue"] == _TRANSPOSED
    return np.where(exchanged, n, m), np.where(exchanged, m, n), k


def _epilogue(c: Columns) -> Array:
    known = facts.one_of(EPILOGUE, facts.EPILOGUES["cuda"], c["epilogue"])
    return np.asarray(known & (_by_tma(c) == (c["epilogue"] != _DIRECT)))


def _fast(c: Columns) -> Array:
    narrow = facts.one_of(DTYPE, facts.NARROW_FLOATS, c["dtype_a"])
    return np.asarray(narrow | ~facts.has_pipeline(c, *facts.FAST_PIPELINES))


def _layout(c: Columns) -> Array:
    narrow = facts.one_of(DTYPE, facts.NARROW_FLOATS, c["dtype_a"])
    return np.asarray(~_by_tma(c) | ~narrow | (c["layout"] == LAYOUT.code("rcr")))


def _unaligned_tile(c: Columns) -> Array:
    same = [c[f"tile_{s}"] == v for s, v in zip("mnk", UNALIGNED_TILE, strict=True)]
    same += [c[f"warp_{s}"] == 16 for s in "mnk"] + [c[f"wave_{s}"] == 1 for s in "mnk"]
    return np.asarray(_by_tma(c) | functools.reduce(operator.and_, same))


def _instruction(c: Columns) -> Array:
    exchanged = c["epilogue"] == _TRANSPOSED
    rows = np.where(exchanged, c["warp_n"], c["warp_m"])
    return np.asarray(~_by_tma(c) | (rows == 64))


def _tile_sides(c: Columns) -> Array:
    m, n, k = _sides(c)
    least = np.where(facts.has_pipeline(c, *_COOPERATIVE), 128, 64)
    ok = (m >= least) & (m <= 256) & (n >= 16) & (n <= 256) & (n % 16 == 0) & (m % 64 == 0)
    row = k * facts.element_bytes(c["dtype_a"])
    return np.asarray(~_by_tma(c) | (ok & (row > 0) & (row % _ROW_BYTES == 0)))


def _sums(c: Columns) -> Array:
    m, n, _ = _sides(c)
    groups = np.where(facts.has_pipeline(c, *_COOPERATIVE), 2, 1)
    return np.asarray(~_by_tma(c) | (m * n <= groups * _MOST_SUMS))


def _shared(c: Columns) -> Array:
    m, n, k = _sides(c)
    size = facts.element_bytes(c["dtype_a"])
    room = facts.arch_array("lds_bytes")[c["arch"]] - _EPILOGUE_BYTES
    return np.asarray(~_by_tma(c) | (2 * (m + n) * k * size <= room))


def _shape(k: Any) -> str:
    return "x".join(map(str, k.tile))


RULES: tuple[Rule, ...] = (
    _rule(
        "cutlass_pipeline",
        "NVIDIA GPUs have the pipelines of CUTLASS",
        "pipeline",
        lambda c: facts.has_pipeline(c, *facts.CUDA_PIPELINES),
        lambda k: f"{k.arch} has no pipeline {k.pipeline}; use {', '.join(facts.CUDA_PIPELINES)}",
    ),
    _rule(
        "cutlass_epilogue",
        "C is stored by TMA, by the unaligned pipeline directly",
        "pipeline epilogue",
        _epilogue,
        lambda k: (
            f"pipeline {k.pipeline} cannot store C by epilogue {k.epilogue}: unaligned has "
            "default, the others tma and tma_transposed"
        ),
    ),
    _rule(
        "cutlass_output",
        "C has elements of 16 or 32 bits",
        "dtype_c",
        lambda c: facts.one_of(DTYPE, _OUTPUTS, c["dtype_c"]),
        lambda k: f"C cannot be {k.dtype_c} on {k.arch}; use {', '.join(_OUTPUTS)}",
    ),
    _rule(
        "fast_sums",
        "only 8-bit floats are summed fast",
        "pipeline dtype_a",
        _fast,
        lambda k: f"pipeline {k.pipeline} is for fp8 and bf8, not {k.dtype_a}",
    ),
    _rule(
        "cutlass_layout",
        "8-bit floats are read along K",
        "pipeline dtype_a layout",
        _layout,
        lambda k: (
            f"wgmma reads {k.dtype_a} along K alone, so that layout {k.layout} needs pipeline "
            "unaligned; use rcr"
        ),
    ),
    _rule(
        "unaligned_tile",
        "the unaligned pipeline has one tile",
        "pipeline tile_m tile_n tile_k warp_m warp_n warp_k wave_m wave_n wave_k",
        _unaligned_tile,
        lambda k: (
            f"pipeline unaligned has tile {'x'.join(map(str, UNALIGNED_TILE))}, warp tile 16x16x16 "
            f"and no cluster, not {_shape(k)}"
        ),
    ),
    _rule(
        "cutlass_instruction",
        "the 64 rows of an instruction are rows of C, or columns where its transpose is computed",
        "pipeline epilogue warp_m warp_n",
        _instruction,
        lambda k: (
            f"warp tile {'x'.join(map(str, k.warp))} goes with the other of the epilogues tma and "
            "tma_transposed"
        ),
    ),
    _rule(
        "cutlass_tile",
        "the tile fits wgmma: 64 rows a warp group, 16 to 256 columns, rows of 128 bytes of K",
        "pipeline epilogue dtype_a tile_m tile_n tile_k",
        _tile_sides,
        lambda k: (
            f"tile {_shape(k)} does not fit pipeline {k.pipeline} and epilogue {k.epilogue}: the "
            "instruction's M is 64 (cooperative: 128) to 256 in steps of 64, its N 16 to 256 in "
            f"steps of 16, and K whole rows of {_ROW_BYTES} bytes"
        ),
    ),
    _rule(
        "cutlass_registers",
        "the sums of a tile fit the registers of the warp groups that share it",
        "pipeline epilogue tile_m tile_n tile_k",
        _sums,
        lambda k: (
            f"tile {_shape(k)} has {k.tile[0] * k.tile[1]} sums; a warp group holds {_MOST_SUMS}, "
            "and cooperative pipelines have two"
        ),
    ),
    _rule(
        "cutlass_stages",
        "two stages of A and B fit the shared memory of a block",
        "pipeline epilogue dtype_a tile_m tile_n tile_k",
        _shared,
        lambda k: (
            f"two stages of tile {_shape(k)} of {k.dtype_a} and the epilogue take more than the "
            f"{arch(k.arch).lds_bytes} bytes of shared memory"
        ),
    ),
    _fixed("scheduler", "default", "the producer's warps load and the others multiply"),
    _fixed("pad_m", True, "kernels take any M"),
    _fixed("pad_n", True, "kernels take any N"),
    _fixed("pad_k", True, "kernels take any K"),
    _fixed("persistent", False, "blocks that load by TMA always loop over tiles"),
    _fixed("split_k", False, "kernels keep the order of additions"),
    _fixed("num_wave_groups", 1, "the pipeline says how many warp groups there are"),
    _fixed("block_per_cu", 1, "a block takes the shared memory of a multiprocessor"),
)
