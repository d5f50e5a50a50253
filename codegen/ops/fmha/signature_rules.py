"""Rules of what an attention kernel computes, where: archs, types, head dimensions, families."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ...arch import arch, arches
from ...columns import Array, Columns, encode
from ...enums import ARCH, FAMILY, FMHA_DTYPE
from ...rules import Rule
from ...schema import fields_by_name
from .. import facts
from ..kinds import kind_rule
from ..tiles import PROVIDER
from . import families
from .columns import (
    any_of,
    arch_dtypes,
    arch_pipelines,
    by_family,
    pipeline_is,
    table,
    warp_tiles,
)
from .families import BACKWARD, FIELDS, NEUTRAL
from .key import FmhaKey

_gpu = functools.partial(kind_rule, "hip")

# The types that the kernels of a family exist for.
_HALF = ("fp16", "bf16")
FAMILY_DTYPES: dict[str, tuple[str, ...]] = {
    "fmha.fwd": families.DTYPES,
    **dict.fromkeys(
        ("fmha.splitkv", "fmha.splitkv_combine", "fmha.pagedkv", "fmha.appendkv"),
        (*_HALF, "fp8", "bf8"),
    ),
    "fmha.batch_prefill": (*_HALF, "fp8bf16"),
    **dict.fromkeys(BACKWARD, families.BACKWARD_DTYPES),
}


def head_dims(family: str, dtype: str) -> tuple[tuple[int, int], ...]:
    """The head dimensions of Q and K and of V and O that a family has kernels for."""
    names = {
        "fmha.splitkv_combine": "combine_head_dims",
        **dict.fromkeys(BACKWARD, "bwd_head_dims"),
    }
    rows = table(names.get(family, "head_dims")).get(dtype, ())
    return tuple((q, v) for q, v in rows)


@functools.cache
def _head_dim_codes() -> Array:
    rows = [
        ((FAMILY.code(f) * 64 + FMHA_DTYPE.code(d)) * 1024 + q) * 1024 + v
        for f in FIELDS
        for d in families.DTYPES
        for q, v in head_dims(f, d)
    ]
    return np.array(sorted(rows), np.int64)


def _multiple(c: Columns) -> Array:
    return np.asarray((c["hdim_q"] % 8 == 0) & (c["hdim_v"] % 8 == 0))


def _head_dims(c: Columns) -> Array:
    code = c["family"].astype(np.int64) * 64 + c["dtype"]
    for name in ("hdim_q", "hdim_v"):
        code = code * 1024 + np.minimum(c[name], 1023)
    # Types without kernels and odd numbers have rules of their own.
    return np.asarray(np.isin(code, _head_dim_codes()) | ~_known_dtype(c) | ~_multiple(c))


def _known_dtype(c: Columns) -> Array:
    return facts.one_of(FMHA_DTYPE, families.DTYPES, c["dtype"])


@functools.cache
def _family_dtypes() -> Array:
    return np.array(
        [[d in FAMILY_DTYPES.get(f, ()) for d in FMHA_DTYPE.values] for f in FAMILY.values]
    )


def _dtype_family(c: Columns) -> Array:
    known = np.asarray(_family_dtypes()[c["family"], c["dtype"]])
    return known | ~facts.is_gpu(c) | ~_known_dtype(c)


def _cpu_dtype_family(c: Columns) -> Array:
    backward = facts.one_of(FAMILY, BACKWARD, c["family"])
    return ~backward | facts.one_of(FMHA_DTYPE, families.BACKWARD_DTYPES, c["dtype"])


def _has_kernels(c: Columns) -> Array:
    return np.asarray(np.asarray(arch_dtypes().any(axis=1))[c["arch"]])


def _dtype_arch(c: Columns) -> Array:
    return np.asarray(arch_dtypes()[c["arch"], c["dtype"]]) | ~_known_dtype(c) | ~_has_kernels(c)


def _archs(dtype: str) -> str:
    found = [name for name in ARCH.values if arches()[name].is_gpu and warp_tiles(name, dtype)]
    return ", ".join(found) or "none"


def _pipeline_family(c: Columns) -> Array:
    ok = [
        (c["family"] == FAMILY.code(f)) & pipeline_is(c, *known)
        for f, known in families.PIPELINES.items()
    ]
    return np.asarray(any_of(ok))


def _pipeline_arch(c: Columns) -> Array:
    combine = c["family"] == FAMILY.code("fmha.splitkv_combine")
    known = np.asarray(arch_pipelines()[c["arch"], c["pipeline"]])
    return np.asarray(combine | known | ~_pipeline_family(c) | ~_has_kernels(c))


def _lacks(field: str) -> Rule:
    """The rule that families without ``field`` have its neutral value; CPU levels have others."""
    spec = fields_by_name(FmhaKey)[field]
    neutral = NEUTRAL[field]
    (code,) = encode(spec, neutral)
    has = by_family({f: field in names for f, names in FIELDS.items()}, False).astype(np.bool_)
    owners = ", ".join(f for f, names in FIELDS.items() if field in names)
    shown = str(neutral).lower()

    def valid(c: Columns) -> Array:
        return np.asarray(has[c["family"]] | (c[field] == code))

    return _gpu(
        f"no_{field}",
        f"{field} is {shown} in families that do not have it",
        f"family {field}",
        valid,
        lambda k: (
            f"{k.family} has no {field}{_where(k.family, field)}: it must be {shown}, not "
            f"{str(getattr(k, field)).lower()}; families that have it: {owners}"
        ),
    )


def _where(family: str, field: str) -> str:
    only = field in families.ONLY_ON_CPU.get(family, ())
    return " in CK Tile's headers, only on CPU levels" if only else ""


def _known(names: Sequence[str]) -> str:
    return ", ".join(names)


RULES: tuple[Rule, ...] = (
    PROVIDER,
    Rule(
        "dtype_kernels",
        "there are attention kernels of the type",
        ("dtype",),
        _known_dtype,
        lambda k: (
            f"there are no attention kernels of {k.dtype}: CK Tile's headers have none that "
            f"multiply it; use {_known(families.DTYPES)}"
        ),
    ),
    Rule(
        "dtype_family",
        "the family has kernels of the type",
        ("arch", "family", "dtype"),
        _dtype_family,
        lambda k: (
            f"{k.family} has no kernels of {k.dtype}; it has {_known(FAMILY_DTYPES[k.family])}"
        ),
    ),
    kind_rule(
        "cpu",
        "cpu_dtype",
        "gradients are computed in fp32, fp16 and bf16",
        "family dtype",
        _cpu_dtype_family,
        lambda k: (
            f"{k.family} has no kernels of {k.dtype}; it has {_known(families.BACKWARD_DTYPES)}"
        ),
    ),
    _gpu(
        "arch_kernels",
        "there are attention kernels for the arch",
        "",
        _has_kernels,
        lambda k: f"CK Tile has no attention kernels for {k.arch}",
    ),
    _gpu(
        "dtype_arch",
        "the arch multiplies the type",
        "dtype",
        _dtype_arch,
        lambda k: (
            f"{k.arch} has no attention kernels of {k.dtype}; archs that have: {_archs(k.dtype)}"
        ),
    ),
    _gpu(
        "pipeline_family",
        "the family has the main loop",
        "family pipeline",
        _pipeline_family,
        lambda k: (
            f"{k.family} has no pipeline {k.pipeline}; "
            f"it has {_known(families.PIPELINES[k.family])}"
        ),
    ),
    _gpu(
        "pipeline_arch",
        "the arch has what the main loop needs",
        "family pipeline",
        _pipeline_arch,
        lambda k: (
            f"{k.arch} cannot run pipeline {k.pipeline}; it runs "
            f"{_known(arch(k.arch).fmha['supported_pipelines'])}"
        ),
    ),
    _gpu(
        "head_dim_multiple",
        "head dimensions are multiples of 8",
        "hdim_q hdim_v",
        _multiple,
        lambda k: (
            f"head dimensions {k.hdim_q} and {k.hdim_v}: both are multiples of 8; "
            "a kernel of larger ones that pads d and dv serves the others"
        ),
    ),
    _gpu(
        "head_dims",
        "there are kernels of the head dimensions",
        "family dtype hdim_q hdim_v",
        _head_dims,
        lambda k: (
            f"{k.family} has no kernels of {k.dtype} with head dimensions {k.hdim_q} and "
            f"{k.hdim_v}; it has "
            + (", ".join(f"{q} and {v}" for q, v in head_dims(k.family, k.dtype)) or "none")
        ),
    ),
    *(_lacks(field) for field in NEUTRAL),
)
