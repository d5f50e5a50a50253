"""Rules of tiles and waves, which the keys of every op with matrix instructions have alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arch import arch
from ..columns import Array, Columns
from ..enums import ARCH, EPILOGUE, FAMILY, SCHEDULER
from ..enums import PROVIDER as PROVIDERS
from ..rules import Rule
from . import facts
from .kinds import kind_rule

# Packed panels of A (mc x kc) stay in L2 and of B (nc x kc) in L3; these are upper bounds.
MAX_A_PANEL = 1 << 19
MAX_B_PANEL = 1 << 23
MAX_BLOCK = 1 << 16
# A tile of 64x64 compiles for gfx942 in a minute; 128x64 in four, to code that spills a thousand
# registers, and 192x64 not in thirty.
MAX_GROUP_SUMS = 64
# Rows of the register tile that AMX computes: two of its own tiles each way.
AMX_ROWS = 32

_WAVE = ("wave_m", "wave_n", "wave_k")
_TILES = ("arch", *(f"{field}_{side}" for field in ("tile", "wave", "warp") for side in "mnk"))
_PROVIDERS = np.array([PROVIDERS.code(arch(name).provider) for name in ARCH.values])


_SERVED = np.array(
    [[arch(name).serves(family) for family in FAMILY.values] for name in ARCH.values]
)


def _provider(c: Columns) -> Array:
    return np.asarray((_PROVIDERS[c["arch"]] == c["provider"]) & _SERVED[c["arch"], c["family"]])


def _provider_reason(k: Any) -> str:
    found = arch(k.arch)
    if k.provider != found.provider:
        return f"{k.arch} is served by provider {found.provider}, not {k.provider}"
    return f"{k.provider} has kernels for {k.arch} of {', '.join(found.served)}, not of {k.family}"


def _steps(c: Columns, side: str) -> tuple[Array, Array]:
    # The blocks of a cluster have a tile each.
    waves = np.where(facts.is_kind(c, "cuda"), 1, c[f"wave_{side}"].astype(np.int64))
    return c[f"tile_{side}"].astype(np.int64), waves * c[f"warp_{side}"]


def _divisible(c: Columns) -> Array:
    parts = [_steps(c, side) for side in "mnk"]
    # A step larger than the tile is the business of tile_covers.
    ok = [(step > tile) | (tile % np.maximum(step, 1) == 0) for tile, step in parts]
    return np.asarray(ok[0] & ok[1] & ok[2])


def _covers(c: Columns) -> Array:
    parts = [_steps(c, side) for side in "mnk"]
    ok = [(step > 0) & (step <= tile) for tile, step in parts]
    return ok[0] & ok[1] & ok[2]


def _steps_text(k: Any) -> str:
    return ", ".join(
        f"{side} {tile} by {wave}x{warp}"
        for side, tile, wave, warp in zip("MNK", k.tile, k.wave, k.warp, strict=True)
    )


def join(triples: tuple[tuple[int, ...], ...]) -> str:
    """``2x2x1, 4x1x1``: triples as names write them."""
    return ", ".join("x".join(map(str, t)) for t in triples)


def _waves(c: Columns) -> Array:
    return np.asarray(facts.wave_table()[c["arch"], *(np.minimum(c[w], 15) for w in _WAVE)])


def _wave_groups(c: Columns) -> Array:
    v5 = facts.has_pipeline(c, "compv5")
    two = (c["num_wave_groups"] == 2) & (c["wave_k"] == 2)
    two &= (c["wave_m"] == 1) & (c["wave_n"] == 1)
    one = (c["num_wave_groups"] == 1) & (c["wave_k"] == 1)
    return np.asarray(np.where(v5, two, one))


def _wave_group_tile(c: Columns) -> Array:
    sums = c["tile_m"].astype(np.int64) * c["tile_n"]
    most = MAX_GROUP_SUMS * facts.arch_array("wave_size")[c["arch"]]
    return np.asarray(~facts.has_pipeline(c, "compv5") | (sums <= most))


def _threads(c: Columns) -> Array:
    waves = c["wave_m"].astype(np.int64) * c["wave_n"] * c["wave_k"] * c["block_per_cu"]
    threads = waves * facts.arch_array("wave_size")[c["arch"]]
    return (c["block_per_cu"] >= 1) & (threads <= facts.MAX_THREADS_PER_CU)


def _block(c: Columns) -> Array:
    m, n, k = (c[name].astype(np.int64) for name in ("tile_m", "tile_n", "tile_k"))
    size = (m <= MAX_BLOCK) & (n <= MAX_BLOCK) & (k <= MAX_BLOCK)
    panels = (m * k <= MAX_A_PANEL) & (n * k <= MAX_B_PANEL)
    return size & (panels | ~facts.has_pipeline(c, "packed"))


PROVIDER = Rule(
    "provider",
    "the provider has kernels of the family for the arch",
    ("arch", "provider", "family"),
    _provider,
    _provider_reason,
)

DIVISIBLE = Rule(
    "tile_divisible",
    "the tile is a multiple of waves x warp tile in M, N and K",
    _TILES,
    _divisible,
    lambda k: f"tile is not a multiple of waves x warp tile: {_steps_text(k)}",
)

COVERS = Rule(
    "tile_covers",
    "waves x warp tile is not larger than the tile in M, N and K",
    _TILES,
    _covers,
    lambda k: f"waves x warp tile is zero or larger than the tile: {_steps_text(k)}",
)

GPU: tuple[Rule, ...] = (
    kind_rule(
        "hip",
        "compv6_arch",
        "compv6 is known to work on CDNA only",
        "arch pipeline",
        lambda c: (
            ~facts.has_pipeline(c, "compv6")
            | facts.in_family(c, ("cdna1", "cdna2", "cdna3", "cdna4"))
        ),
        lambda k: f"pipeline compv6 is made for CDNA, {k.arch} is {arch(k.arch).family}",
    ),
    kind_rule(
        "hip",
        "interwave",
        "the interwave scheduler exists only for the mem pipeline",
        "pipeline scheduler",
        lambda c: (
            (c["scheduler"] != SCHEDULER.code("interwave"))
            | facts.has_pipeline(c, "mem", *facts.CPU_PIPELINES)
        ),
        lambda k: f"scheduler interwave exists only for pipeline mem, not {k.pipeline}",
    ),
    kind_rule(
        "hip",
        "waves",
        "the waves per block are in the list of the arch",
        "arch wave_m wave_n wave_k",
        _waves,
        lambda k: (
            f"{k.arch} has no {join((k.wave,))} waves per block; "
            f"allowed: {join(arch(k.arch).waves)}"
        ),
    ),
    kind_rule(
        "hip",
        "wave_groups",
        "compv5 runs two groups of one wave that split K; other pipelines have one group",
        "pipeline num_wave_groups wave_m wave_n wave_k",
        _wave_groups,
        lambda k: (
            f"pipeline {k.pipeline} cannot run {k.num_wave_groups} wave group(s) of "
            f"{join((k.wave,))} waves: compv5 needs 2 groups and 1x1x2 waves, others 1 group and "
            "1 wave along K"
        ),
    ),
    kind_rule(
        "hip",
        "wave_group_tile",
        "one wave of compv5 sums a whole tile, which its registers must hold",
        "arch pipeline tile_m tile_n",
        _wave_group_tile,
        lambda k: (
            f"tile {k.tile[0]}x{k.tile[1]} of compv5 gives each of {arch(k.arch).wave_size} lanes "
            f"more than {MAX_GROUP_SUMS} sums: such code spills registers and takes many minutes "
            "to compile; use a smaller tile or another pipeline"
        ),
    ),
    kind_rule(
        "hip",
        "occupancy",
        "the blocks per compute unit fit its threads",
        "arch wave_m wave_n wave_k block_per_cu",
        _threads,
        lambda k: (
            f"{k.block_per_cu} block(s) of {k.wave[0] * k.wave[1] * k.wave[2]} waves of "
            f"{arch(k.arch).wave_size} threads: a compute unit holds 1 to "
            f"{facts.MAX_THREADS_PER_CU}"
        ),
    ),
)

HIP_EPILOGUE = kind_rule(
    "hip",
    "gpu_epilogue",
    "AMD GPUs have the epilogues of CK Tile",
    "epilogue",
    lambda c: facts.one_of(EPILOGUE, facts.EPILOGUES["hip"], c["epilogue"]),
    lambda k: f"epilogue {k.epilogue} exists only on NVIDIA GPUs, not on {k.arch}",
)

CPU_BLOCK = kind_rule(
    "cpu",
    "cpu_block",
    "the cache block is not larger than any cache",
    "pipeline tile_m tile_n tile_k",
    _block,
    lambda k: (
        f"cache block {k.tile[0]}x{k.tile[1]}x{k.tile[2]}: each side is at most "
        f"{MAX_BLOCK}, and for packed M x K at most {MAX_A_PANEL} and N x K at most "
        f"{MAX_B_PANEL} values"
    ),
)
