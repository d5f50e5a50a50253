"""What the rules of attention keys read: facts as arrays by code, and arithmetic of columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...arch import arches
from ...columns import Array, Columns
from ...enums import ARCH, FAMILY, FMHA_DTYPE, FMHA_PIPELINE
from ...rules import Rule
from .. import facts
from ..curated import document
from ..kinds import kind_rule
from .families import FORWARD

_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}  # of Q, K and V; the others have 1
_LIMIT = 1 << 20  # larger numbers of a tile are refused by name and must not overflow here


# The families that rules of some are of, by the name of the rule.
SCOPES: dict[str, tuple[str, ...]] = {}


def table(name: str) -> Any:
    """One of the tables of the data file."""
    return document(Path(__file__).with_name("tables.json"))[name]


def family_rule(
    families: Sequence[str],
    name: str,
    doc: str,
    columns: str,
    valid: Callable[[Columns], Array],
    reason: Callable[[Any], str],
) -> Rule:
    """A rule of the GPU kernels of ``families``."""
    wanted = tuple(families)
    SCOPES[name] = wanted

    def passes(c: Columns) -> Array:
        return np.asarray(~facts.one_of(FAMILY, wanted, c["family"]) | valid(c))

    return kind_rule("hip", name, doc, f"family {columns}", passes, reason)


def forward_rule(*args: Any) -> Rule:
    """A rule of all families that multiply Q K^T and P V; the rest as for :func:`family_rule`."""
    return family_rule(FORWARD, *args)


def all_of(masks: Iterable[Array]) -> Array:
    """Where all of at least one mask hold; each has a row for each key or one for all."""
    return functools.reduce(np.logical_and, masks)


def any_of(masks: Iterable[Array]) -> Array:
    """Where one of at least one mask holds."""
    return functools.reduce(np.logical_or, masks)


def pipeline_is(c: Columns, *values: str) -> Array:
    """Whether the pipeline is one of ``values``."""
    return facts.one_of(FMHA_PIPELINE, values, c["pipeline"])


def dtype_is(c: Columns, *values: str) -> Array:
    """Whether the dtype is one of ``values``."""
    return facts.one_of(FMHA_DTYPE, values, c["dtype"])


def wide(column: Array) -> Array:
    """Numbers that can be multiplied with each other without overflow."""
    return np.asarray(np.minimum(column.astype(np.int64), _LIMIT))


def divides(divisor: Array, number: Array) -> Array:
    """Whether ``divisor`` is positive and divides ``number``."""
    return np.asarray((divisor > 0) & (number % np.maximum(divisor, 1) == 0))


def product(c: Columns, *names: str) -> Array:
    """The product of columns."""
    numbers = [wide(c[name]) for name in names]
    result = numbers[0]
    for number in numbers[1:]:
        result = np.asarray(np.minimum(result * number, 1 << 40))
    return result


def waves(c: Columns, stage: int = 0) -> Array:
    """Waves of a block, as a stage counts them."""
    return product(c, *(f"wave_{side}{stage}" for side in "mnk"))


def wave_columns(stages: int) -> str:
    """The columns that :func:`waves` reads, of the first ``stages`` stages."""
    return " ".join(f"wave_{side}{stage}" for stage in range(stages) for side in "mnk")


def bytes_of(dtype: str) -> int:
    """Bytes of one number of Q, K and V."""
    return _BYTES.get(dtype, 1)


def element_bytes(c: Columns) -> Array:
    """Bytes of one number of Q, K and V, by row."""
    return np.asarray(_element_bytes()[c["dtype"]])


@functools.cache
def _element_bytes() -> Array:
    return np.array([bytes_of(name) for name in FMHA_DTYPE.values], np.int64)


@functools.cache
def arch_fact(name: str) -> Array:
    """A number or flag of the attention part of every arch, by arch code; 0 if it has none."""
    return np.array([arches()[a].fmha.get(name, 0) for a in ARCH.values], np.int64)


def warp_tiles(arch: str, dtype: str) -> tuple[tuple[int, ...], ...]:
    """The warp tiles of a dtype on an arch; empty if it has none."""
    rows = arches()[arch].fmha.get("warp_tiles", {}).get(dtype, ())
    return tuple(tuple(row) for row in rows)


@functools.cache
def arch_dtypes() -> Array:
    """(archs, dtypes): whether the arch has attention kernels of the dtype."""
    return np.array(
        [[bool(warp_tiles(a, d)) for d in FMHA_DTYPE.values] for a in ARCH.values], np.bool_
    )


@functools.cache
def arch_pipelines() -> Array:
    """(archs, pipelines): whether the arch has the pipeline."""
    return np.array(
        [
            [p in arches()[a].fmha.get("supported_pipelines", ()) for p in FMHA_PIPELINE.values]
            for a in ARCH.values
        ],
        np.bool_,
    )


def by_family(values: Mapping[str, Any], default: Any) -> Array:
    """Values by family code."""
    return np.array([values.get(family, default) for family in FAMILY.values])
