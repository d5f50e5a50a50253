"""The spaces of convolution keys, and the defaults of single keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...arch import Arch, arch
from ...enums import CONV_LAYOUT, SCHEDULER, SPECIALIZATION
from ...factor import Axis
from ...space import Space, axis
from .. import facts
from ..axes import cpu_tiles, epilogues, identity_axes, tile_axes
from ..curated import ALGORITHM, closest
from ..definition import SpaceRequest
from . import cpu_rules, gpu_rules
from .curated import Curated, curated
from .key import ConvKey
from .operands import OPERANDS, tensors, types
from .rules import RULES

ALIASES = {"dtype": ("dtype_in", "dtype_wei")}

_ALGORITHM = (
    "tile wave warp pipeline scheduler epilogue specialization vector double_buffer two_stage "
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
_GPU_SIDES = {
    **dict.fromkeys("mn", (16, 32, 64, 128, 256)),
    "k": (16, 32, 64, 128, 256),
}
# Elements per access of A, B and C: what channels divide into, from any number to many.
_VECTORS = (
    *((1, 1, 1), (1, 1, 2), (2, 2, 2), (1, 8, 8), (4, 4, 4)),
    *((4, 8, 8), (8, 8, 4), (8, 8, 8), (16, 16, 8), (16, 16, 16)),
)


def build(request: SpaceRequest) -> Space:
    """The curated or the full space of a direction on an arch."""
    if request.tiles == "all":
        return _all(request)
    return curated_space(request)


def curated_space(request: SpaceRequest, roles: Sequence[str] = ()) -> Space:
    """The curated algorithms (of ``roles``, if given) of every type and rank."""
    named = request.named
    facts_ = arch(request.arch)
    flags = [False, True]
    rows = [
        (*tensors(request.family, a, b, c), facts.accumulator(a, b), *_algorithm(chosen), split)
        for a, b in facts.pairs()
        for c in _results(request, a, (facts.default_output(a),))
        for row in curated(request.arch, request.family, a, b)
        for chosen in _with_epilogues(row, facts_, "epilogue" in named)
        for split in (flags if "split_k" in named else [chosen.split_k])
        if not roles or set(roles) & set(row.roles)
    ]
    axes = [
        axis(ConvKey, f"dtype_in dtype_wei dtype_out dtype_acc {_ALGORITHM} split_k", rows),
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
        for c in _results(request, a, _usual_results(a))
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
        *(tile_axes(ConvKey, _GPU_SIDES) if gpu else cpu_tiles(ConvKey, warps)),
        axis(ConvKey, "wave", facts_.waves),
        axis(ConvKey, "warp", warps),
        axis(ConvKey, "pipeline", gpu_rules.PIPELINES if gpu else cpu_rules.PIPELINES),
        axis(ConvKey, "scheduler", SCHEDULER.values if gpu else ["default"]),
        axis(ConvKey, "epilogue", epilogues(facts_, True)),
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
    return [*identity_axes(ConvKey, request), axis(ConvKey, "layout", CONV_LAYOUT.values)]


def _results(request: SpaceRequest, a: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    """The types of the result: the usual ones, or all for a caller who will choose."""
    named = f"dtype_{OPERANDS[request.family][2]}" in request.named
    return facts.outputs(a) if named else usual


def _usual_results(a: str) -> tuple[str, ...]:
    """The type that a result has by default, and the wider ones."""
    wider = {"fp8": ("bf16", "fp32"), "bf8": ("bf16", "fp32"), "int8": ("int8",)}
    return tuple(dict.fromkeys((facts.default_output(a), *wider.get(a, ("fp32",)))))


def _with_epilogues(row: Curated, facts_: Arch, every: bool) -> list[Curated]:
    if not every:
        return [row]
    return [replace(row, epilogue=epilogue) for epilogue in epilogues(facts_, True)]


def _algorithm(row: Curated) -> tuple[Any, ...]:
    return tuple(getattr(row, field) for field in _ALGORITHM.split())


def complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of a key: those ``given``, the rest from the first curated algorithm that fits.

    ``given`` holds at least family, arch and provider.
    """
    values = dict(given)
    family = values["family"]
    known = values.get("dtype_in") or values.get("dtype_wei") or values.get("dtype_out") or "fp16"
    values.setdefault("dtype_in", known)
    values.setdefault("dtype_wei", known)
    # The output is a gradient's A, which has the type of B.
    second = f"dtype_{OPERANDS[family][1]}"
    result = facts.default_output(values["dtype_in"]) if family == "conv.fwd" else values[second]
    values.setdefault("dtype_out", result)
    a, b, _ = types(family, (values["dtype_in"], values["dtype_wei"], values["dtype_out"]))
    row = _first(values, a, b)
    # What follows from the pipeline follows from the given one.
    row = replace(row, pipeline=values.get("pipeline", row.pipeline))
    defaults = {
        "dtype_acc": facts.accumulator(a, b),
        "layout": "nhwgc",
        **dict(zip(_ALGORITHM.split(), _algorithm(row), strict=True)),
        **dict.fromkeys(("split_k", "split_image", "explicit_gemm"), False),
        "block_per_cu": 1,
    }
    return defaults | values


def _first(values: Mapping[str, Any], a: str, b: str) -> Curated:
    rows = curated(values["arch"], values["family"], a, b)
    found = closest(rows, _ALGORITHM.split(), values, (a, b))
    return found or Curated(**{f: values[f] for f in ALGORITHM})
