"""GEMM rules of GPU kernels: tiles, waves, LDS, pipelines. They pass every CPU key."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import DTYPE, ELEMENTWISE, EPILOGUE, FAMILY, LAYOUT, SCHEDULER
from ...rules import Rule
from .. import facts, lds, tiles
from ..kinds import kind_rule
from ..types import instruction_rules
from . import tables
from .key import GemmKey

_PRESHUFFLE = FAMILY.code("gemm.preshuffle")
_TILE = ("tile_m", "tile_n", "tile_k")
_WARP = ("warp_m", "warp_n", "warp_k")


_gpu_rule = functools.partial(kind_rule, "hip")


def _three(test: Callable[[Array, int], Array], c: Columns) -> Array:
    first, second, third = (test(c[name].astype(np.int64), i) for i, name in enumerate(_TILE))
    return first & second & third


def _minimum(c: Columns) -> Array:
    limits = tables.tile_limits(0)[c["family"]]
    return _three(lambda tile, i: tile >= limits[..., i], c)


def _alignment(c: Columns) -> Array:
    limits = tables.tile_limits(1)[c["family"]]
    low = tables.tile_limits(0)[c["family"]]
    return _three(lambda tile, i: (tile < low[..., i]) | (tile % limits[..., i] == 0), c)


def _lds_use(c: Columns) -> Array:
    inputs = lds.inputs(c, c["dtype_a"], c["dtype_b"])
    # The second wave group hands its accumulators to the first through LDS.
    sums = c["tile_m"].astype(np.int64) * c["tile_n"] * 4
    return np.asarray(np.where(facts.has_pipeline(c, "compv5"), np.maximum(inputs, sums), inputs))


def _lds_use_of(k: GemmKey) -> str:
    m, n, _ = k.tile
    use, text = lds.inputs_of(k)
    if k.pipeline == "compv5" and m * n * 4 > use:
        return f"the sums of a wave group take {m}x{n}x4 = {m * n * 4} bytes of LDS"
    return text


def _preshuffle_load(c: Columns) -> Array:
    repeat = c["tile_m"] // np.maximum(c["wave_m"] * c["warp_m"], 1)
    values = c["warp_m"].astype(np.int64) * c["warp_k"] * repeat
    loaded = values * facts.element_bytes(c["dtype_a"])
    whole = (loaded > 0) & (loaded % (facts.lanes(c) * 16) == 0)
    return np.asarray((c["family"] != _PRESHUFFLE) | whole)


def _preshuffle_rows(c: Columns) -> Array:
    per_vector = 16 // facts.element_bytes(c["dtype_a"])
    vectors = np.maximum(c["tile_k"] // per_vector, 1)
    rows = (facts.lanes(c) // vectors) * c["wave_m"] * c["wave_n"] * c["wave_k"]
    fits = (facts.lanes(c) % vectors == 0) & (rows > 0) & (c["tile_m"] % np.maximum(rows, 1) == 0)
    return np.asarray((c["family"] != _PRESHUFFLE) | fits)


def _preshuffle_rows_reason(k: GemmKey) -> str:
    vectors = max(k.tile[2] * facts.ELEMENT_BYTES[k.dtype_a] // 16, 1)
    waves = k.wave[0] * k.wave[1] * k.wave[2]
    lanes = arch(k.arch).wave_size
    return (
        f"loading A, {waves} waves of {lanes} lanes hold {lanes / vectors:g} rows each of "
        f"{vectors} 16-byte vectors; that must be whole rows that divide tile M {k.tile[0]}"
    )


def _split_k_output(c: Columns) -> Array:
    wide = facts.one_of(DTYPE, ("fp32", "int32"), c["dtype_c"])
    half = facts.one_of(DTYPE, ("fp16", "bf16"), c["dtype_c"])
    packed = half & (c["epilogue"] == EPILOGUE.code("cshuffle"))
    packed &= ~facts.in_family(c, ("rdna3",))
    return np.asarray(~c["split_k"].astype(np.bool_) | wide | packed)


def _scheduler_default(c: Columns) -> Array:
    default = c["scheduler"] == SCHEDULER.code("default")
    return np.asarray(default == facts.has_pipeline(c, "preshufflev2"))


RULES: tuple[Rule, ...] = (
    *tiles.GPU,
    _gpu_rule(
        "gpu_pipeline",
        "AMD GPUs have the pipelines of CK Tile",
        "pipeline",
        lambda c: facts.has_pipeline(c, *facts.HIP_PIPELINES),
        lambda k: f"pipeline {k.pipeline} is none of CK Tile's, which {k.arch} has",
    ),
    tiles.HIP_EPILOGUE,
    _gpu_rule(
        "preshuffle_pipeline",
        "gemm.preshuffle uses preshufflev2, and only it does",
        "family pipeline",
        lambda c: (c["family"] == _PRESHUFFLE) == facts.has_pipeline(c, "preshufflev2"),
        lambda k: (
            f"{k.family} cannot use pipeline {k.pipeline}: "
            "preshufflev2 belongs to gemm.preshuffle and is its only pipeline"
        ),
    ),
    _gpu_rule(
        "preshuffle_layout",
        "gemm.preshuffle reads row-major A and shuffled column-major B",
        "family layout",
        lambda c: (c["family"] != _PRESHUFFLE) | (c["layout"] == LAYOUT.code("rcr")),
        lambda k: f"gemm.preshuffle has only layout rcr, not {k.layout}",
    ),
    _gpu_rule(
        "preshuffle_epilogue",
        "gemm.preshuffle stores C through the cshuffle epilogue",
        "family epilogue",
        lambda c: (c["family"] != _PRESHUFFLE) | (c["epilogue"] == EPILOGUE.code("cshuffle")),
        lambda k: f"gemm.preshuffle has only epilogue cshuffle, not {k.epilogue}",
    ),
    _gpu_rule(
        "preshuffle_split_k",
        "gemm.preshuffle does not split K: CK Tile would read parts of the shuffled B wrongly",
        "family split_k",
        lambda c: (c["family"] != _PRESHUFFLE) | ~c["split_k"].astype(np.bool_),
        lambda k: f"{k.family} cannot have split_k: the shuffled B has no parts of K in one piece",
    ),
    _gpu_rule(
        "scheduler_default",
        "preshufflev2 has the default scheduler, and only it does",
        "pipeline scheduler",
        _scheduler_default,
        lambda k: (
            f"pipeline {k.pipeline} cannot use scheduler {k.scheduler}: default is for "
            "preshufflev2, intrawave and interwave are for the others"
        ),
    ),
    *instruction_rules("dtype_a", lambda c: c["dtype_a"]),
    _gpu_rule(
        "tile_minimum",
        "the block tile is not smaller than the operator's minimum",
        "family tile_m tile_n tile_k",
        _minimum,
        lambda k: (
            f"tile {tiles.join((k.tile,))} is below the minimum "
            f"{tiles.join((tables.limits_of(k.family)[0],))} of {k.family}"
        ),
    ),
    _gpu_rule(
        "tile_alignment",
        "the block tile is a multiple of the operator's alignment",
        "family tile_m tile_n tile_k",
        _alignment,
        lambda k: (
            f"tile {tiles.join((k.tile,))} is not a multiple of "
            f"{tiles.join((tables.limits_of(k.family)[1],))}, which {k.family} needs"
        ),
    ),
    lds.lds_rule("dtype_a dtype_b", _lds_use, _lds_use_of),
    _gpu_rule(
        "preshuffle_load",
        "each lane loads whole 16-byte vectors of A",
        "arch family dtype_a tile_m wave_m warp_m warp_k",
        _preshuffle_load,
        lambda k: (
            f"a lane would load {k.warp[0]}x{k.warp[2]} values x {k.dtype_a} x "
            f"{k.tile[0] // max(k.wave[0] * k.warp[0], 1)} repeats / "
            f"{arch(k.arch).wave_size} lanes, "
            "which is not a multiple of 16 bytes"
        ),
    ),
    _gpu_rule(
        "preshuffle_rows",
        "the waves that load A cover tile M in whole rows",
        "arch family dtype_a tile_m tile_k wave_m wave_n wave_k",
        _preshuffle_rows,
        _preshuffle_rows_reason,
    ),
    _gpu_rule(
        "split_k_output",
        "split-K adds its parts with atomics, which exist for few output types",
        "arch split_k dtype_c epilogue",
        _split_k_output,
        lambda k: (
            f"split_k cannot add {k.dtype_c} atomically on {k.arch} with epilogue "
            f"{k.epilogue}: use fp32 or int32, or fp16 or bf16 with cshuffle (not on RDNA 3)"
        ),
    ),
    _gpu_rule(
        "split_k_linear",
        "split-K sums parts after the epilogue, so the epilogue must be linear",
        "split_k elementwise",
        lambda c: (
            ~c["split_k"].astype(np.bool_) | (c["elementwise"] == ELEMENTWISE.code("passthrough"))
        ),
        lambda k: (
            f"split_k adds partial results after the element-wise operation, "
            f"so {k.elementwise} would be applied to parts; use passthrough"
        ),
    ),
    _gpu_rule(
        "d_layout",
        "CK Tile reads D in the order of C, which is row-major",
        "layout_d num_d",
        lambda c: (c["layout_d"] == 0) | (c["num_d"] == 0),
        lambda k: f"layout_d {k.layout_d}: CK Tile reads D in the order of C, use r",
    ),
)
