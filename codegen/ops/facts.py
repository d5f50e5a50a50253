"""Arch facts as arrays indexed by enumeration codes, for the rules of every op."""

from __future__ import annotations

import functools

import numpy as np

from ..arch import Arch, arches
from ..columns import Array, Columns
from ..enums import ARCH, DTYPE, FAMILY, PIPELINE, Enum

ELEMENT_BYTES = {
    "fp32": 4,
    "fp16": 2,
    "bf16": 2,
    "fp8": 1,
    "bf8": 1,
    "int8": 1,
    "int32": 4,
}

# Threads that one compute unit keeps in flight.
MAX_THREADS_PER_CU = 2048

# The main loops that only the CPU provider has.
CPU_PIPELINES = ("packed", "skinny", "direct")
# Those that only CUTLASS has; the fast ones sum products of 8 bits with fewer bits.
FAST_PIPELINES = ("cooperative_fast", "pingpong_fast")
CUDA_PIPELINES = ("cooperative", "pingpong", *FAST_PIPELINES, "unaligned")
HIP_PIPELINES = tuple(p for p in PIPELINE.values if p not in CPU_PIPELINES + CUDA_PIPELINES)
# How C is stored, by the kind of machine.
EPILOGUES = {
    "cpu": ("default",),
    "hip": ("default", "cshuffle"),
    "cuda": ("default", "tma", "tma_transposed"),
}

FLOAT_OUTPUTS = ("fp32", "fp16", "bf16")
NARROW_FLOATS = ("fp8", "bf8")
INT_OUTPUTS = ("int32", "int8", "fp32", "fp16", "bf16")


def accumulator(dtype_a: str, dtype_b: str) -> str:
    """The only accumulator type of a pair of input types."""
    return "int32" if dtype_a == dtype_b == "int8" else "fp32"


def outputs(dtype_a: str) -> tuple[str, ...]:
    """The types that C and D may have when A has ``dtype_a``."""
    if dtype_a == "int8":
        return INT_OUTPUTS
    return FLOAT_OUTPUTS + (NARROW_FLOATS if dtype_a in NARROW_FLOATS else ())


def default_output(dtype_a: str) -> str:
    """The type of C when a caller does not say."""
    return {"int8": "int32", "fp8": "fp16", "bf8": "fp16"}.get(dtype_a, dtype_a)


def combo(dtype_a: str, dtype_b: str) -> str:
    """The key of a pair of input types in the warp tile tables."""
    return f"{dtype_a}_{dtype_b}_{accumulator(dtype_a, dtype_b)}"


@functools.cache
def arch_array(fact: str) -> Array:
    """One number or flag of every arch, by arch code."""
    return np.array([getattr(arches()[name], fact) for name in ARCH.values])


def one_of(enum: Enum, values: tuple[str, ...], column: Array) -> Array:
    """Whether each code of ``column`` is one of ``values``."""
    return np.asarray(_member_table(enum, values)[column])


@functools.cache
def _member_table(enum: Enum, values: tuple[str, ...]) -> Array:
    return np.array([v in values for v in enum.values])


def has_pipeline(c: Columns, *values: str) -> Array:
    """Whether the pipeline is one of ``values``."""
    return one_of(PIPELINE, values, c["pipeline"])


def lanes(c: Columns) -> Array:
    """Lanes of a wave; 1 on a CPU, so that it can divide."""
    return np.maximum(arch_array("wave_size")[c["arch"]].astype(np.int64), 1)


def in_family(c: Columns, families: tuple[str, ...]) -> Array:
    """Whether the arch belongs to one of the hardware families."""
    return np.asarray(_family_table(families)[c["arch"]])


@functools.cache
def _family_table(families: tuple[str, ...]) -> Array:
    return np.array([arches()[name].family in families for name in ARCH.values])


@functools.cache
def wave_table() -> Array:
    """(archs, M, N, K): whether the arch allows these waves per block; 15 stands for more."""
    table = np.zeros((len(ARCH.values), 16, 16, 16), np.bool_)
    for name, found in arches().items():
        for wave in found.waves:
            table[(ARCH.code(name), *wave)] = True
    return table


def is_gpu(c: Columns) -> Array:
    return np.asarray(arch_array("is_gpu")[c["arch"]])


@functools.cache
def _kinds() -> Array:
    return np.array([arches()[name].device_kind or "cpu" for name in ARCH.values])


def is_kind(c: Columns, kind: str) -> Array:
    """Whether the arch is a CPU level (``cpu``) or one of HIP's or CUDA's GPUs."""
    return np.asarray(_kinds()[c["arch"]] == kind)


_SIZES = np.array([ELEMENT_BYTES[v] for v in DTYPE.values], np.int64)


def element_bytes(column: Array) -> Array:
    return np.asarray(_SIZES[column])


@functools.cache
def lds_budgets() -> Array:
    """Bytes for one A and one B tile, by arch code and pipeline code."""
    return np.array(
        [[arches()[a].lds_budget(p) for p in PIPELINE.values] for a in ARCH.values], np.int64
    )


def warp_tiles(arch: Arch, family: str, dtype_a: str, dtype_b: str) -> tuple[tuple[int, ...], ...]:
    """The warp tiles (on a CPU register tiles) of a pair of types; empty if arch has none.

    Preshuffle has its own list; an arch without one uses the standard list.
    """
    table = arch.warp_tiles
    if family == "gemm.preshuffle" and arch.preshuffle_warp_tiles:
        table = arch.preshuffle_warp_tiles
    return table.get(combo(dtype_a, dtype_b), ())


def _code(
    arch: Array, preshuffle: Array, a: Array, b: Array, m: Array, n: Array, k: Array
) -> Array:
    code = arch.astype(np.int64) * 2 + preshuffle
    for value, limit in ((a, 64), (b, 64), (m, 4096), (n, 4096), (k, 4096)):
        code = code * limit + np.minimum(value, limit - 1)
    return code


@functools.cache
def _warp_tile_codes() -> Array:
    rows = [
        (ARCH.code(name), int(family == "gemm.preshuffle"), DTYPE.code(a), DTYPE.code(b), *tile)
        for name, facts in arches().items()
        for family in ("gemm.standard", "gemm.preshuffle")
        for a in DTYPE.values
        for b in DTYPE.values
        for tile in warp_tiles(facts, family, a, b)
    ]
    return np.sort(_code(*np.array(rows, np.int64).T))


def has_warp_tile(c: Columns, dtype_a: Array, dtype_b: Array) -> Array:
    """Whether the arch has the warp tile for the family and the types of A and B."""
    preshuffle = (c["family"] == FAMILY.code("gemm.preshuffle")).astype(np.int64)
    tile = (c["warp_m"], c["warp_n"], c["warp_k"])
    return np.isin(_code(c["arch"], preshuffle, dtype_a, dtype_b, *tile), _warp_tile_codes())


@functools.cache
def _dtype_support() -> Array:
    """(archs, 2, types, types): whether arch has any warp tile; second axis 1 is preshuffle."""
    n = len(DTYPE.values)
    table = np.zeros((len(ARCH.values), 2, n, n), np.bool_)
    for name, facts in arches().items():
        for part, family in enumerate(("gemm.standard", "gemm.preshuffle")):
            for a in DTYPE.values:
                for b in DTYPE.values:
                    found = bool(warp_tiles(facts, family, a, b))
                    table[ARCH.code(name), part, DTYPE.code(a), DTYPE.code(b)] = found
    return table


def multiplies(c: Columns, dtype_a: Array, dtype_b: Array) -> Array:
    """Whether the arch has any warp tile for the family and the types of A and B."""
    preshuffle = (c["family"] == FAMILY.code("gemm.preshuffle")).astype(np.intp)
    return np.asarray(_dtype_support()[c["arch"], preshuffle, dtype_a, dtype_b])


def pairs() -> list[tuple[str, str]]:
    """The pairs of types of A and B that any arch knows, equal types first."""
    both = [(a, b) for a in DTYPE.values for b in DTYPE.values]
    known = {tuple(key.split("_")[:2]) for facts in arches().values() for key in facts.warp_tiles}
    return sorted((p for p in both if p in known), key=lambda p: p[0] != p[1])
