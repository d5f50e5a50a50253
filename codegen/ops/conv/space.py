"""The spaces of convolution keys, and the defaults of single keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...arch import arch
from ...enums import CONV_LAYOUT, EPILOGUE, SCHEDULER, SPECIALIZATION
from ...errors import InvalidKey
from ...factor import Axis
from ...space import Space, axis
from .. import facts
from ..definition import SpaceRequest
from . import cpu_rules, gpu_rules
from .curated import Curated, curated
from .key import ConvKey
from .operands import OPERANDS, tensors, types
from .rules import RULES

ALIASES = {"dtype": ("dtype_in", "dtype_wei")}

_ALGORITHM = (
    "tile wave warp pipeline scheduler specialization vector double_buffer two_stage "
    "groups_to_merge num_wave_groups"
)
_FREE = frozenset(
    (
        *(f"{field}_{side}" for field in ("tile", "wave", "warp") for side in "mnk"),
        *(f"vector_{side}" for side in "abc"),
        *("groups_to_merge", "num_wave_groups", "block_per_cu"),
    )
)
# Values of the axes of tiles="all". Others may be asked for: the rules decide.
_GPU_SIDES = {"m": (16, 32, 64, 128, 256), "n": (16, 32, 64, 128, 256), "k": (32, 64, 128)}
# Elements per access of A, B and C: what channels divide into, from any number to many.
_VECTORS = (
    *((1, 1, 1), (1, 1, 2), (2, 2, 2), (1, 8, 8), (4, 4, 4)),
    *((4, 8, 8), (8, 8, 4), (8, 8, 8), (16, 16, 8), (16, 16, 16)),
)
_CPU_ROW_TILES = (1, 8, 16)
_CPU_COLUMNS = (256, 512, 1024)
_CPU_DEPTHS = (128, 256, 512)


def build(request: SpaceRequest) -> Space:
    """The curated or the full space of a direction on an arch."""
    if request.tiles == "all":
        return _all(request)
    return curated_space(request)


def curated_space(request: SpaceRequest, essential: bool = False) -> Space:
    """The curated algorithms, or only the essential ones, of every type and rank."""
    named = request.named
    rows = [
        (*tensors(request.family, a, b, c), facts.accumulator(a, b), *_algorithm(row))
        for a, b in facts.pairs()
        for c in _results(a, f"dtype_{OPERANDS[request.family][2]}" in named)
        for row in curated(request.arch, request.family, a, b)
        if row.essential or not essential
    ]
    facts_ = arch(request.arch)
    flags = [False, True]
    axes = [
        axis(ConvKey, f"dtype_in dtype_wei dtype_out dtype_acc {_ALGORITHM}", rows),
        axis(ConvKey, "epilogue", _epilogues(facts_.is_gpu, "epilogue" in named)),
        axis(ConvKey, "split_k", flags if "split_k" in named else [False]),
        axis(ConvKey, "split_image", flags if "split_image" in named else [False]),
        axis(ConvKey, "explicit_gemm", flags if "explicit_gemm" in named else [False]),
        axis(ConvKey, "block_per_cu", [1]),
    ]
    return Space(ConvKey, [*_identity(request), *axes], RULES, _FREE & {"block_per_cu"})


def _all(request: SpaceRequest) -> Space:
    facts_ = arch(request.arch)
    gpu = facts_.is_gpu
    types_ = [
        (*tensors(request.family, a, b, c), facts.accumulator(a, b))
        for a, b in facts.pairs()
        for c in _usual_results(a)
    ]
    warps = list(
        dict.fromkeys(
            tile
            for a, b in facts.pairs()
            for tile in facts.warp_tiles(facts_, request.family, a, b)
        )
    )
    flags = [False, True] if gpu else [False]
    two_stage = [False, True] if gpu and request.family == "conv.bwd_weight" else [False]
    axes = [
        axis(ConvKey, "dtype_in dtype_wei dtype_out dtype_acc", types_),
        *(_gpu_tiles() if gpu else _cpu_tiles(warps)),
        axis(ConvKey, "wave", facts_.waves),
        axis(ConvKey, "warp", warps),
        axis(ConvKey, "pipeline", gpu_rules.PIPELINES if gpu else cpu_rules.PIPELINES),
        axis(ConvKey, "scheduler", SCHEDULER.values if gpu else ["default"]),
        axis(ConvKey, "epilogue", _epilogues(gpu, True)),
        axis(ConvKey, "specialization", SPECIALIZATION.values),
        axis(ConvKey, "vector", _VECTORS if gpu else [(1, 1, 1)]),
        axis(ConvKey, "double_buffer", flags),
        axis(ConvKey, "split_k", flags),
        axis(ConvKey, "two_stage", two_stage),
        axis(ConvKey, "split_image", flags),
        axis(ConvKey, "explicit_gemm", flags),
        axis(ConvKey, "groups_to_merge", [1, 2, 4, 8] if gpu else [1]),
        axis(ConvKey, "num_wave_groups", [1, 2] if gpu else [1]),
        axis(ConvKey, "block_per_cu", [1, 2] if gpu else [1]),
    ]
    return Space(ConvKey, [*_identity(request), *axes], RULES, _FREE)


def _identity(request: SpaceRequest) -> list[Axis]:
    """The axes that both kinds of space share."""
    return [
        axis(ConvKey, "family", [request.family]),
        axis(ConvKey, "provider", [request.provider]),
        axis(ConvKey, "arch", [request.arch]),
        axis(ConvKey, "layout", CONV_LAYOUT.values),
    ]


def _results(a: str, every: bool) -> tuple[str, ...]:
    return facts.outputs(a) if every else (facts.default_output(a),)


def _usual_results(a: str) -> tuple[str, ...]:
    """The type that a result has by default, and the wider ones."""
    wider = {"fp8": ("bf16", "fp32"), "bf8": ("bf16", "fp32"), "int8": ("int8",)}
    return tuple(dict.fromkeys((facts.default_output(a), *wider.get(a, ("fp32",)))))


def _epilogues(gpu: bool, every: bool) -> tuple[str, ...]:
    if not gpu:
        return ("default",)
    return EPILOGUE.values if every else ("cshuffle",)


def _algorithm(row: Curated) -> tuple[Any, ...]:
    return tuple(getattr(row, field) for field in _ALGORITHM.split())


def _gpu_tiles() -> list[Axis]:
    return [axis(ConvKey, f"tile_{side}", values) for side, values in _GPU_SIDES.items()]


def _cpu_tiles(registers: list[tuple[int, ...]]) -> list[Axis]:
    rows = sorted({m * q for m, _, _ in registers for q in _CPU_ROW_TILES})
    columns = sorted({-(-size // n) * n for _, n, _ in registers for size in _CPU_COLUMNS})
    sides = {"m": rows, "n": columns, "k": _CPU_DEPTHS}
    return [axis(ConvKey, f"tile_{side}", values) for side, values in sides.items()]


def complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of a key: those ``given``, the rest from the first curated algorithm that fits.

    ``given`` holds at least family, arch and provider.
    """
    values = dict(given)
    family = values["family"]
    known = values.get("dtype_in") or values.get("dtype_wei") or values.get("dtype_out") or "fp16"
    values.setdefault("dtype_in", known)
    values.setdefault("dtype_wei", known)
    values.setdefault("dtype_out", facts.default_output(values["dtype_in"]))
    a, b, _ = types(family, (values["dtype_in"], values["dtype_wei"], values["dtype_out"]))
    facts_ = arch(values["arch"])
    row = _first(values, a, b)
    defaults = {
        "dtype_acc": facts.accumulator(a, b),
        "layout": "nhwgc",
        **dict(zip(_ALGORITHM.split(), _algorithm(row), strict=True)),
        "epilogue": _epilogues(facts_.is_gpu, False)[0],
        **dict.fromkeys(("split_k", "split_image", "explicit_gemm"), False),
        "block_per_cu": 1,
    }
    return defaults | values


def _first(values: Mapping[str, Any], a: str, b: str) -> Curated:
    rows = curated(values["arch"], values["family"], a, b)
    wanted = _ALGORITHM.split()
    if rows:
        # The best match keeps make_key(pipeline="direct") consistent with its tile.
        return max(rows, key=lambda r: sum(getattr(r, f) == values.get(f) for f in wanted))
    needed = [f for f in ("tile", "wave", "warp", "pipeline", "scheduler") if f not in values]
    if needed:
        raise InvalidKey(
            f"{values['family']} on {values['arch']} has no default algorithm for {a} x {b}; "
            f"give {', '.join(needed)}"
        )
    found = {f: values[f] for f in ("tile", "wave", "warp", "pipeline", "scheduler")}
    return Curated(**found)
