"""The rules of GEMM keys: what may be computed, and the tiles that GPUs and CPUs share."""

from __future__ import annotations

import numpy as np

from ...arch import arch
from ...columns import Array, Columns
from ...enums import ARCH, DTYPE, ELEMENTWISE, FAMILY, PROVIDER
from ...rules import Rule
from . import ck_rules, cpu_rules, facts, gpu_rules
from .key import GemmKey

_MULTI_D = FAMILY.code("gemm.multi_d")
_PROVIDERS = np.array([PROVIDER.code(arch(name).provider) for name in ARCH.values])
_OUTPUTS = np.array([[t in facts.outputs(a) for t in DTYPE.values] for a in DTYPE.values])
_D_COUNTS = np.array([facts.D_COUNT.get(e, facts.ANY_D_COUNT) for e in ELEMENTWISE.values])


def _provider(c: Columns) -> Array:
    return np.asarray(_PROVIDERS[c["arch"]] == c["provider"])


def _dtypes(c: Columns) -> Array:
    preshuffle = (c["family"] == FAMILY.code("gemm.preshuffle")).astype(np.intp)
    return np.asarray(facts.dtype_support()[c["arch"], preshuffle, c["dtype_a"], c["dtype_b"]])


def _dtypes_reason(k: GemmKey) -> str:
    facts_ = arch(k.arch)
    pairs = [
        (a, b)
        for a in DTYPE.values
        for b in DTYPE.values
        if facts.warp_tiles(facts_, k.family, a, b)
    ]
    known = ", ".join(a if a == b else f"{a} x {b}" for a, b in pairs) or "nothing"
    what = "matrix instruction" if facts_.is_gpu else "kernel"
    return f"{k.arch} has no {what} for {k.dtype_a} x {k.dtype_b} in {k.family}; it has {known}"


def _accumulator(c: Columns) -> Array:
    int8 = DTYPE.code("int8")
    both = (c["dtype_a"] == int8) & (c["dtype_b"] == int8)
    expected = np.where(both, DTYPE.code("int32"), DTYPE.code("fp32"))
    return np.asarray(c["dtype_acc"] == expected)


def _output(column: str, c: Columns) -> Array:
    return np.asarray(_OUTPUTS[c["dtype_a"], c[column]])


def _family_elementwise(c: Columns) -> Array:
    plain = (c["elementwise"] == ELEMENTWISE.code("passthrough")) & (c["num_d"] == 0)
    return np.asarray((c["family"] == _MULTI_D) | plain)


def _d_count(c: Columns) -> Array:
    low, high = _D_COUNTS[c["elementwise"]].T
    return np.asarray((c["num_d"] >= low) & (c["num_d"] <= high))


def _d_count_reason(k: GemmKey) -> str:
    low, high = facts.D_COUNT.get(k.elementwise, facts.ANY_D_COUNT)
    count = f"{low}" if low == high else f"{low} to {high}"
    return f"{k.elementwise} takes {count} D tensor(s), not {k.num_d}"


def _unused_d(c: Columns) -> Array:
    canonical = (c["dtype_d"] == c["dtype_c"]) & (c["layout_d"] == 0)
    return np.asarray((c["num_d"] > 0) | canonical)


def _steps(c: Columns, side: str) -> tuple[Array, Array]:
    return c[f"tile_{side}"].astype(np.int64), c[f"wave_{side}"].astype(np.int64) * c[
        f"warp_{side}"
    ]


def _divisible(c: Columns) -> Array:
    parts = [_steps(c, side) for side in "mnk"]
    # A step larger than the tile is the business of tile_covers.
    ok = [(step > tile) | (tile % np.maximum(step, 1) == 0) for tile, step in parts]
    return np.asarray(ok[0] & ok[1] & ok[2])


def _covers(c: Columns) -> Array:
    parts = [_steps(c, side) for side in "mnk"]
    ok = [(step > 0) & (step <= tile) for tile, step in parts]
    return ok[0] & ok[1] & ok[2]


def _steps_text(k: GemmKey) -> str:
    return ", ".join(
        f"{side} {tile} by {wave}x{warp}"
        for side, tile, wave, warp in zip("MNK", k.tile, k.wave, k.warp, strict=True)
    )


def _warp_reason(k: GemmKey) -> str:
    facts_ = arch(k.arch)
    allowed = facts.warp_tiles(facts_, k.family, k.dtype_a, k.dtype_b)
    known = ", ".join("x".join(map(str, t)) for t in allowed) or "none"
    what = "warp" if facts_.is_gpu else "register"
    return (
        f"{k.arch} has no {what} tile {k.warp[0]}x{k.warp[1]}x{k.warp[2]} for "
        f"{k.dtype_a} x {k.dtype_b} in {k.family}; allowed: {known}"
    )


_TILES = tuple(f"{field}_{side}" for field in ("tile", "wave", "warp") for side in "mnk")

_COMMON: tuple[Rule, ...] = (
    Rule(
        "provider",
        "the provider has kernels for the arch",
        ("arch", "provider"),
        _provider,
        lambda k: f"{k.arch} is served by provider {arch(k.arch).provider}, not {k.provider}",
    ),
    Rule(
        "dtypes",
        "the arch multiplies this pair of types",
        ("arch", "family", "dtype_a", "dtype_b"),
        _dtypes,
        _dtypes_reason,
    ),
    Rule(
        "accumulator",
        "int8 accumulates in int32, everything else in fp32",
        ("dtype_a", "dtype_b", "dtype_acc"),
        _accumulator,
        lambda k: (
            f"{k.dtype_a} x {k.dtype_b} accumulates in "
            f"{facts.accumulator(k.dtype_a, k.dtype_b)}, not {k.dtype_acc}"
        ),
    ),
    Rule(
        "output_dtype",
        "C has a type that the accumulator converts to",
        ("dtype_a", "dtype_c"),
        lambda c: _output("dtype_c", c),
        lambda k: (
            f"C cannot be {k.dtype_c} when A is {k.dtype_a}; "
            f"use {', '.join(facts.outputs(k.dtype_a))}"
        ),
    ),
    Rule(
        "d_dtype",
        "D has a type that C may have",
        ("num_d", "dtype_a", "dtype_d"),
        lambda c: (c["num_d"] == 0) | _output("dtype_d", c),
        lambda k: (
            f"D cannot be {k.dtype_d} when A is {k.dtype_a}; "
            f"use {', '.join(facts.outputs(k.dtype_a))}"
        ),
    ),
    Rule(
        "family_elementwise",
        "only gemm.multi_d fuses an element-wise operation or D tensors",
        ("family", "elementwise", "num_d"),
        _family_elementwise,
        lambda k: (
            f"{k.family} has no element-wise operation or D tensors, not "
            f"{k.elementwise} with {k.num_d}; use gemm.multi_d"
        ),
    ),
    Rule(
        "d_count",
        "the element-wise operation takes this number of D tensors",
        ("elementwise", "num_d"),
        _d_count,
        _d_count_reason,
    ),
    Rule(
        "unused_d",
        "without D tensors, dtype_d equals dtype_c and layout_d is r",
        ("num_d", "dtype_c", "dtype_d", "layout_d"),
        _unused_d,
        lambda k: (
            f"without D tensors dtype_d must be {k.dtype_c} and layout_d r, "
            f"not {k.dtype_d} and {k.layout_d}"
        ),
    ),
    Rule(
        "warp_tile",
        "the warp tile (CPU: register tile) is in the list of the arch for the types",
        ("arch", "family", "dtype_a", "dtype_b", "warp_m", "warp_n", "warp_k"),
        lambda c: ~_dtypes(c) | facts.has_warp_tile(c),  # dtypes speaks for unknown pairs
        _warp_reason,
    ),
    Rule(
        "tile_divisible",
        "the tile is a multiple of waves x warp tile in M, N and K",
        _TILES,
        _divisible,
        lambda k: f"tile is not a multiple of waves x warp tile: {_steps_text(k)}",
    ),
    Rule(
        "tile_covers",
        "waves x warp tile is not larger than the tile in M, N and K",
        _TILES,
        _covers,
        lambda k: f"waves x warp tile is zero or larger than the tile: {_steps_text(k)}",
    ),
)

RULES: tuple[Rule, ...] = _COMMON + gpu_rules.RULES + ck_rules.RULES + cpu_rules.RULES
