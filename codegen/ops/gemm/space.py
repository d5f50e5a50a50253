"""The spaces of GEMM keys, and the defaults of single keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...arch import Arch, arch
from ...enums import ELEMENTWISE, LAYOUT, SCHEDULER
from ...factor import Axis
from ...space import Space, axis
from .. import facts
from ..axes import cpu_tiles, epilogues, identity_axes, tile_axes
from ..curated import ALGORITHM, closest
from ..definition import SpaceRequest
from . import tables
from .curated import Curated, curated
from .key import GemmKey
from .rules import RULES

ALIASES = {"dtype": ("dtype_a", "dtype_b")}

_PADS = ("pad_m", "pad_n", "pad_k")
_FREE = frozenset(
    (
        *(f"{field}_{side}" for field in ("tile", "wave", "warp") for side in "mnk"),
        *(*_PADS, "num_wave_groups", "block_per_cu", "num_d"),
    )
)

# Values of the axes of tiles="all". Others may be asked for: the rules decide.
_GPU_SIDES = {
    **dict.fromkeys("mn", (16, 32, 64, 128, 192, 256)),
    "k": (32, 64, 128, 192, 256),
}


def build(request: SpaceRequest) -> Space:
    """The curated or the full space of a family on an arch."""
    if request.tiles == "all":
        return _all(request)
    return curated_space(request)


def curated_space(request: SpaceRequest, roles: Sequence[str] = ()) -> Space:
    """The curated tiles (of ``roles``, if given) with every layout and common option."""
    facts_ = arch(request.arch)
    named = request.named
    rows = [
        (
            *(a, b, facts.accumulator(a, b), c, d),
            *(t.tile, t.wave, t.warp, t.pipeline, t.scheduler, t.num_wave_groups),
            *((t.epilogue,) if t.epilogue else ()),
        )
        for a, b in facts.pairs()
        for c, d in _outputs(a, "dtype_c" in named, "dtype_d" in named)
        for t in curated(request.arch, request.family, a, b)
        if not roles or set(roles) & set(t.roles)
    ]
    names = "dtype_a dtype_b dtype_acc dtype_c dtype_d tile wave warp"
    names += " pipeline scheduler num_wave_groups"
    own = facts_.device_kind == "cuda"  # its tiles say their epilogues
    axes = [
        axis(GemmKey, f"{names} epilogue" if own else names, rows),
        axis(GemmKey, "pad_m pad_n pad_k", _pads(facts_, bool(named & set(_PADS)))),
        *([] if own else [axis(GemmKey, "epilogue", epilogues(facts_, "epilogue" in named))]),
        axis(GemmKey, "persistent", [False, True] if "persistent" in named else [False]),
        axis(GemmKey, "split_k", [False, True] if "split_k" in named else [False]),
        axis(GemmKey, "block_per_cu", [1]),
    ]
    # Not tiles: what a deployment builds is the point of a curated space.
    free = _FREE & {"num_d", "block_per_cu", *_PADS}
    return Space(GemmKey, [*_signature(request, "num_d" in named), *axes], RULES, free)


def _all(request: SpaceRequest) -> Space:
    facts_ = arch(request.arch)
    gpu = facts_.is_gpu
    dtypes = [(a, b, facts.accumulator(a, b)) for a, b in facts.pairs()]
    outputs = list(dict.fromkeys(c for a, _ in facts.pairs() for c in facts.outputs(a)))
    warps = dict.fromkeys(
        tile for a, b in facts.pairs() for tile in facts.warp_tiles(facts_, request.family, a, b)
    )
    pipelines = {
        "": facts.CPU_PIPELINES,
        "hip": facts.HIP_PIPELINES,
        "cuda": facts.CUDA_PIPELINES,
    }[facts_.device_kind]
    flags = [False, True] if gpu else [False]
    axes = [
        axis(GemmKey, "dtype_a dtype_b dtype_acc", dtypes),
        axis(GemmKey, "dtype_c", outputs),
        axis(GemmKey, "dtype_d", outputs),
        *(tile_axes(GemmKey, _GPU_SIDES) if gpu else cpu_tiles(GemmKey, list(warps))),
        axis(GemmKey, "wave", facts_.waves),
        axis(GemmKey, "warp", list(warps)),
        axis(GemmKey, "pipeline", pipelines),
        axis(GemmKey, "scheduler", SCHEDULER.values if gpu else ["default"]),
        axis(GemmKey, "epilogue", epilogues(facts_, True)),
        axis(GemmKey, "pad_m pad_n pad_k", _pads(facts_, True)),
        axis(GemmKey, "persistent", flags),
        axis(GemmKey, "split_k", flags),
        axis(GemmKey, "num_wave_groups", [1, 2] if gpu else [1]),
        axis(GemmKey, "block_per_cu", [1, 2] if gpu else [1]),
    ]
    return Space(GemmKey, [*_signature(request, True), *axes], RULES, _FREE)


def _signature(request: SpaceRequest, every_count: bool) -> list[Axis]:
    """The axes that both kinds of space share."""
    many = request.family == "gemm.multi_d"
    fused = [("passthrough", 0)]
    if many:
        fused = [(e, d) for e in ELEMENTWISE.values for d in _counts(e, every_count)]
    orders = ["r", "c"] if many and "layout_d" in request.named else ["r"]
    if many and request.tiles == "all":
        orders = ["r", "c"]
    return [
        *identity_axes(GemmKey, request),
        axis(GemmKey, "layout", LAYOUT.values),
        axis(GemmKey, "elementwise num_d", fused),
        axis(GemmKey, "layout_d", orders),
    ]


def _counts(elementwise: str, every: bool) -> range:
    low, high = tables.d_count(elementwise)
    return range(low, high + 1 if every else min(high, max(low, 1)) + 1)


def _outputs(dtype_a: str, every_c: bool, every_d: bool) -> list[tuple[str, str]]:
    allowed = facts.outputs(dtype_a)
    types_c = allowed if every_c else (facts.default_output(dtype_a),)
    return [(c, d) for c in types_c for d in (allowed if every_d else (c,))]


def _pads(facts_: Arch, every: bool) -> list[tuple[bool, bool, bool]]:
    padded, plain = (True, True, True), (False, False, False)
    return [padded, plain] if every and facts_.is_gpu else [padded]


def complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of a key: those ``given``, the rest from the first curated tile that fits.

    ``given`` holds at least family, arch and provider.
    """
    values = dict(given)
    a = values.setdefault("dtype_a", values.get("dtype_b", "fp16"))
    b = values.setdefault("dtype_b", a)
    values.setdefault("dtype_c", facts.default_output(a))
    many = values["family"] == "gemm.multi_d"
    fused = values.setdefault("elementwise", "multi_d_add" if many else "passthrough")
    low, _ = tables.d_count(fused)
    facts_ = arch(values["arch"])
    tile = _first(values, a, b)
    defaults = {
        "dtype_acc": facts.accumulator(a, b),
        "layout": "rcr",
        "num_d": low,
        "dtype_d": values["dtype_c"],
        "layout_d": "r",
        "tile": tile.tile,
        "wave": tile.wave,
        "warp": tile.warp,
        "pipeline": tile.pipeline,
        "scheduler": tile.scheduler,
        "epilogue": tile.epilogue or epilogues(facts_, False)[0],
        **dict.fromkeys(_PADS, True),
        "persistent": False,
        "split_k": False,
        "num_wave_groups": tile.num_wave_groups,
        "block_per_cu": 1,
    }
    return defaults | values


def _first(values: Mapping[str, Any], a: str, b: str) -> Curated:
    rows = curated(values["arch"], values["family"], a, b)
    found = closest(rows, ALGORITHM, values, (a, b))
    if found is not None:
        return found
    return Curated(roles=(), num_wave_groups=1, **{f: values[f] for f in ALGORITHM})
