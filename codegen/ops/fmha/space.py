"""The spaces of attention keys, and the defaults of single keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arch import arch, arches
from ...enums import FMHA_KV_LAYOUT, FMHA_KV_LOOKUP, FMHA_QSCALE, FMHA_ROPE
from ...factor import Axis
from ...space import Space, axis
from ..axes import identity_axes
from ..definition import SpaceRequest
from . import curated, families, receipts
from .columns import table, warp_tiles
from .families import FIELDS, FORWARD, NEUTRAL, cpu_value
from .key import FmhaKey
from .rules import RULES, gpu_rules
from .signature_rules import FAMILY_DTYPES, head_dims

ALIASES = {"hdim": ("hdim_q", "hdim_v")}

_CPU_QUERIES = (32, 64, 96, 192, 512, 1024)
_CPU_KEYS = (64, 96, 128, 192, 256, 512)

# Values of the axes of tiles="all". Others of free columns may be asked for: the rules decide.
_TILE_SIDES: dict[str, Sequence[int]] = {
    "tile_1": (16, 32, 64, 96, 128, 192, 256, 384),
    "tile_2": (16, 32, 64, 96, 128, 256),
    "tile_4": (16, 32, 64),
}
_QUERIES = (16, 32, 64, 128, 192, 256)
_SIMPLE_MASKS = (("no", True), ("generic", True))
_MASKS = tuple((mask, False) for mask in ("no", "top_left", "bottom_right", "generic"))
_TILE_COLUMNS = frozenset(
    (
        *(f"tile_{i}" for i in range(9)),
        *(f"{kind}_{side}{i}" for kind in ("wave", "warp") for side in "mnk" for i in range(3)),
    )
)
_FLAGS = [False, True]
_SIDES = ("sq", "sk", "d", "dv")
# Fields of the axes that every space has beside those of algorithms.
_FEATURES = (
    *("mode", "vlayout", "bias", "qscale", "rope", "kv_memory_layout", "kv_lookup_table"),
    *("page_size", "lse", "dropout", "store_randval", "logits", "sink", "skip_min_seqlen_q"),
    *("paged_kv", "dbias", "deterministic"),
)


def build(request: SpaceRequest) -> Space:
    """The curated or the full space of a family on an arch."""
    if request.receipt is not None:
        receipts.alternatives(request.receipt, request.family)
    if not arch(request.arch).is_gpu:
        return _cpu(request)
    return _all(request) if request.tiles == "all" else _curated(request)


def cpu_tiles(family: str) -> tuple[tuple[int, int], ...]:
    """The tiles that are built by default on CPU levels.

    Backward, blocks of weights of sq x sk stay in the second-level cache; forward, where rows need
    no blocks of weights, many of them share the packing of K and V.
    """
    return ((96, 192),) if family in families.BACKWARD else ((1024, 256),)


def _cpu(request: SpaceRequest) -> Space:
    backward = request.family in families.BACKWARD
    types = families.BACKWARD_DTYPES if backward else families.DTYPES
    every = [(q, k) for q in _CPU_QUERIES for k in _CPU_KEYS]
    fixed = {field: cpu_value(request.family, field) for field in NEUTRAL}
    fixed |= {"mode": "any", "hdim_q": 0, "hdim_v": 0, "wave": (), "warp": ()}
    fixed |= {"pipeline": "online", "padding": (1, 1, 1, 1), "block_per_cu": 0}
    axes = [
        axis(FmhaKey, "dtype", types),
        axis(FmhaKey, "tile", every if request.tiles == "all" else cpu_tiles(request.family)),
        *(axis(FmhaKey, field, [value]) for field, value in fixed.items()),
    ]
    return Space(FmhaKey, [*identity_axes(FmhaKey, request), *axes], _rules(request), _TILE_COLUMNS)


def _rules(request: SpaceRequest) -> tuple[Any, ...]:
    if not arch(request.arch).is_gpu:
        return RULES
    rules = gpu_rules(request.family)
    return rules + (receipts.rules(request.receipt, request.family) if request.receipt else ())


def _curated(request: SpaceRequest) -> Space:
    receipt = request.receipt or receipts.DEFAULT
    rows = curated.built(request.arch, request.family, receipt)
    fields = list(curated.FIELDS)
    axes = []
    free: frozenset[str] = frozenset()
    if "block_per_cu" in request.named:
        fields.remove("block_per_cu")
        axes.append(axis(FmhaKey, "block_per_cu", [0, 1, 2]))
        free = frozenset(("block_per_cu",))
    values = [
        tuple(numbers(getattr(row, f)) if f in _TEXTS else getattr(row, f) for f in fields)
        for row in rows
    ]
    axes += [axis(FmhaKey, " ".join(fields), values), *_features(request, False)]
    warps = [0, 16] if request.family == families.GRADIENT else [0]
    axes.append(axis(FmhaKey, "dropout_warp", warps))
    extra = (curated.rule(request.arch, request.family, receipt, request.named),) if rows else ()
    rules = (*gpu_rules(request.family), *extra, *receipts.rules(receipt, request.family))
    return Space(FmhaKey, [*identity_axes(FmhaKey, request), *axes], rules, free)


_TEXTS = ("tile", "wave", "warp")


def numbers(text: str) -> tuple[int, ...]:
    """The numbers of a tile as data files have it; none of an empty text."""
    return tuple(int(part) for part in text.split("x") if part)


def _features(request: SpaceRequest, every: bool) -> list[Axis]:
    """The axes of what a family computes; all values, or those that are built by default."""
    family, named = request.family, request.named
    axes = []
    for field in _FEATURES:
        values = _values(family, field)
        if not every and field not in named and field in ("vlayout", "sink"):
            values = values[:1]
        axes.append(axis(FmhaKey, field, values))
    if "mask" not in FIELDS[family]:
        masks: tuple[tuple[str, bool], ...] = (("no", False),)
    elif every or "simplified_mask" in named:
        masks = _SIMPLE_MASKS + _MASKS
    elif "mask" in named:
        # Beside what is built by default only what that does not have.
        masks = _SIMPLE_MASKS + _MASKS[1:3]
    else:
        masks = _SIMPLE_MASKS
    return [*axes, axis(FmhaKey, "mask simplified_mask", masks)]


def _values(family: str, field: str) -> Sequence[Any]:
    """Every value of a feature that a family may have on a GPU."""
    if field == "mode":
        return ["batch"] if family == "fmha.appendkv" else ["batch", "group"]
    neutral = NEUTRAL[field]
    if field not in FIELDS[family]:
        return [neutral]
    if isinstance(neutral, bool):
        forward = field == "store_randval" and family != families.GRADIENT
        return [False] if forward else _FLAGS
    known: dict[str, Sequence[Any]] = {
        "vlayout": ["r", "c"],
        "bias": ["no", "bias", "alibi"],
        "qscale": FMHA_QSCALE.values,
        "rope": [v for v in FMHA_ROPE.values if v != "any"],
        "kv_memory_layout": FMHA_KV_LAYOUT.values[1:],
        "kv_lookup_table": FMHA_KV_LOOKUP.values[1:],
        "page_size": table("prefill_page_sizes"),
    }
    return known[field]


def _all(request: SpaceRequest) -> Space:
    family = request.family
    axes = _features(request, True)
    axes += _forward(request) if family in FORWARD else _others(family)
    axes.append(axis(FmhaKey, "block_per_cu", [0, 1] if family in FORWARD else [0, 1, 2]))
    free = _TILE_COLUMNS | {"block_per_cu", "page_size"}
    return Space(FmhaKey, [*identity_axes(FmhaKey, request), *axes], _rules(request), free)


def _forward(request: SpaceRequest) -> list[Axis]:
    """Axes of the algorithms of the families that multiply Q K^T and P V."""
    family = request.family
    dims = [
        (d, q, v, v, n)
        for d in FAMILY_DTYPES[family]
        for q, v in head_dims(family, d)
        for n in table("head_lengths")
        if q <= n < 2 * q
    ]
    warps = sorted({w for d in families.DTYPES for w in warp_tiles(request.arch, d)})
    rows = [
        (queries, along * 2, warp * 2)
        for queries in _QUERIES
        for warp in warps
        for along in _waves(family, queries, warp[0])
    ]
    pipelines = [
        (p, p == "qr_async_trload", 2 if p == "v3" else 1) for p in families.PIPELINES[family]
    ]
    return [
        axis(FmhaKey, "dtype hdim_q hdim_v tile_3 tile_5", dims),
        *(axis(FmhaKey, name, values) for name, values in _TILE_SIDES.items()),
        *(axis(FmhaKey, f"tile_{i}", [0]) for i in (6, 7, 8)),
        axis(FmhaKey, "tile_0 wave warp", rows),
        axis(FmhaKey, "pipeline use_trload num_wave_groups", pipelines),
        axis(FmhaKey, "padding", [(q, k, d, d) for q in (0, 1) for k in (0, 1) for d in (0, 1)]),
        axis(FmhaKey, "dropout_warp", [0]),
        axis(FmhaKey, "max_seq_len_q", [0]),
    ]


def _waves(family: str, queries: int, rows: int) -> list[tuple[int, int, int]]:
    """Ways to lay waves over the queries of a tile: one warp tile for each; of 128 also two."""
    counts = (1, 2) if queries == 128 else (1,)
    found = [(queries // rows // n, 1, 1) for n in counts if queries % (rows * n) == 0]
    if "qr_nwarp_sshuffle" in families.PIPELINES[family]:
        found += [(1, n, 1) for n in (2, 4, 8)]
    return found


def _others(family: str) -> list[Axis]:
    """Axes of the algorithms of the other families, whose tiles are few."""
    gradient = family == families.GRADIENT
    used = families.PADDINGS[family]
    pads = [[0, 1, 8] if gradient and i >= 2 else [0, 1] if u else [0] for i, u in enumerate(used)]
    return [
        axis(FmhaKey, "dtype hdim_q hdim_v tile wave warp", _tiles(family)),
        axis(FmhaKey, "pipeline", families.PIPELINES[family]),
        axis(FmhaKey, "use_trload", _FLAGS if gradient else [False]),
        axis(FmhaKey, "num_wave_groups", [1]),
        axis(FmhaKey, "max_seq_len_q", [0, 16, 32] if gradient else [0]),
        axis(FmhaKey, "dropout_warp", [0, 16] if gradient else [0]),
        *(
            axis(FmhaKey, f"padding_{s}", p)
            for s, p in zip(("sq", "sk", "d", "dv"), pads, strict=True)
        ),
    ]


def _tiles(family: str) -> list[tuple[Any, ...]]:
    """Types, head dimensions, tiles, waves and warp tiles of a family, on any arch."""
    rows = []
    if family == families.GRADIENT:
        for name in arches_with_kernels():
            rows += [
                (r.dtype, r.hdim_q, r.hdim_v, *(numbers(t) for t in (r.tile, r.wave, r.warp)))
                for r in curated.curated(name, family)
            ]
        return list(dict.fromkeys(rows))
    sizes: dict[str, Any] = {
        "fmha.splitkv_combine": lambda q, v: [(32,)],
        "fmha.appendkv": lambda q, v: [(64, 64, q, v)],
        "fmha.bwd_dot_do_o": lambda q, v: [(64,), (128,), (256,)],
        "fmha.bwd_convert_dq": lambda q, v: [(64, n) for n in (0, 16, 64, 128, 192)],
    }
    return [
        (d, q, v, tile, (), ())
        for d in FAMILY_DTYPES[family]
        for q, v in head_dims(family, d)
        for tile in sizes[family](q, v)
    ]


def arches_with_kernels() -> list[str]:
    """The archs that have attention kernels."""
    return [name for name, facts in arches().items() if facts.fmha]
