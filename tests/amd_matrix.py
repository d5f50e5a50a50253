"""A few small kernels that together touch everything the CK Tile provider has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.make import make_key

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")

_MFMA: dict[str, Any] = {"tile": (32, 32, 32), "wave": (2, 2, 1), "warp": (16, 16, 16)}
_MFMA |= {"dtype": "fp16", "pipeline": "compv3", "scheduler": "intrawave", "epilogue": "cshuffle"}
_WMMA = {**_MFMA, "tile": (64, 64, 32), "wave": (4, 2, 1)}
_BYTES = {**_MFMA, "tile": (64, 64, 64), "warp": (32, 32, 16)}
_PAIR = {name: value for name, value in _BYTES.items() if name != "dtype"}
_SHUFFLED = {"family": "gemm.preshuffle", "tile": (64, 64, 64), "wave": (1, 4, 1)}
# One wave per group and one variant: the kernels that compile fastest.
_FUSED = {**_MFMA, "family": "gemm.multi_d", "pipeline": "compv5", "wave": (1, 1, 2)}
_FUSED |= {"num_wave_groups": 2}

_ROWS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx90a", {**_MFMA, "layout": "crr"}),
    (
        "gfx90a",
        {**_MFMA, "dtype": "bf16", "dtype_c": "fp32", "epilogue": "default", "split_k": True},
    ),
    ("gfx90a", {**_MFMA, "dtype": "fp32", "layout": "ccr", "pad_m": False, "pad_n": False}),
    ("gfx942", {**_BYTES, "dtype": "fp8", "pipeline": "compv4"}),
    ("gfx942", {**_PAIR, "dtype_a": "fp8", "dtype_b": "bf8", "pipeline": "compv6"}),
    ("gfx942", {**_BYTES, "dtype": "int8", "pipeline": "mem", "scheduler": "interwave"}),
    ("gfx942", {**_SHUFFLED, "dtype": "fp16", "warp": (16, 16, 32)}),
    ("gfx950", {**_BYTES, "dtype": "bf16", "pipeline": "compasync", "layout": "crr"}),
    ("gfx950", {**_PAIR, "dtype_a": "bf8", "dtype_b": "fp8", "pipeline": "compv4"}),
    ("gfx950", {**_MFMA, "layout": "rrr", "persistent": True}),
    ("gfx1100", {**_WMMA, "persistent": True}),
    ("gfx1100", {**_WMMA, "dtype": "int8", "dtype_c": "int8", "layout": "rrr"}),
    ("gfx1201", {**_WMMA, "dtype": "bf8", "pipeline": "mem", "split_k": True, "dtype_c": "fp32"}),
    ("gfx1201", {**_SHUFFLED, "dtype": "bf16", "wave": (2, 4, 1)}),
    (
        "gfx1201",
        {**_WMMA, "family": "gemm.multi_d", "elementwise": "add", "num_d": 1, "dtype_d": "fp32"},
    ),
)
_OPERATIONS = (
    *(("multiply", 1), ("multi_d_add", 2), ("multi_d_multiply", 2), ("relu", 0), ("gelu", 0)),
    *(("fast_gelu", 1), ("sigmoid", 0), ("tanh", 0), ("swish", 0), ("hard_swish", 0)),
    ("clamp", 0),
)


# Convolutions, of which one block does a small part: the tiles that compile fastest.
_CONV: dict[str, Any] = {"family": "conv.fwd", "dtype": "fp16", "layout": "nhwgc"}
_CONV |= {"tile": (64, 64, 32), "wave": (2, 2, 1), "warp": (32, 32, 8), "vector": (2, 2, 2)}
_CONV |= {"pipeline": "compv3", "scheduler": "intrawave", "epilogue": "cshuffle"}
_CONV_BYTES = {**_CONV, "tile": (64, 64, 64), "warp": (32, 32, 16)}
_CONV_FLOATS = {**_CONV, "dtype": "fp32", "warp": (16, 16, 16)}
_CONV_GROUPS = {**_CONV, "pipeline": "compv5", "wave": (1, 1, 2), "num_wave_groups": 2}
_CONV_WMMA = {**_CONV, "wave": (4, 2, 1), "warp": (16, 16, 16)}
_DATA: dict[str, Any] = {"family": "conv.bwd_data", "vector": (2, 8, 2)}
_WEIGHT: dict[str, Any] = {"family": "conv.bwd_weight", "vector": (8, 8, 2)}

_CONVOLUTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx90a", {**_CONV, "specialization": "filter1x1_stride1_pad0"}),
    ("gfx90a", {**_CONV, **_DATA, "dtype": "bf16", "layout": "ndhwgc"}),
    ("gfx90a", {**_CONV, **_WEIGHT, "layout": "nwgc", "split_k": True}),
    ("gfx942", {**_CONV, "specialization": "filter3x3", "vector": (1, 1, 2)}),
    ("gfx942", {**_CONV, "layout": "ndhwgc", "split_image": True, "epilogue": "default"}),
    ("gfx942", {**_CONV, "groups_to_merge": 2, "dtype": "bf16", "vector": (2, 2, 1)}),
    ("gfx942", {**_CONV_BYTES, "dtype": "fp8", "pipeline": "compv4"}),
    ("gfx942", {**_CONV_BYTES, "dtype": "int8", "pipeline": "mem", "scheduler": "interwave"}),
    ("gfx942", {**_CONV, **_DATA, "specialization": "filter1x1_stride1_pad0"}),
    ("gfx942", {**_CONV, **_WEIGHT, "dtype": "bf16", "two_stage": True, "split_k": True}),
    ("gfx942", {**_CONV_FLOATS, **_WEIGHT, "layout": "ndhwgc", "vector": (4, 4, 4)}),
    ("gfx950", {**_CONV_GROUPS, "dtype": "bf16", "specialization": "filter1x1_pad0"}),
    ("gfx950", {**_CONV, **_DATA, "layout": "ndhwgc"}),
    ("gfx1100", {**_CONV_WMMA, "layout": "nwgc"}),
    ("gfx1100", {**_CONV_WMMA, **_DATA, "dtype": "bf16", "layout": "nwgc"}),
    ("gfx1201", {**_CONV_WMMA, "dtype": "bf8", "layout": "ndhwgc"}),
    ("gfx1201", {**_CONV_WMMA, **_WEIGHT}),
)


def _directions() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every direction in two and three dimensions on every arch, where no row above has it."""
    have = {(arch, row["family"], row["layout"]) for arch, row in _CONVOLUTIONS}
    for arch in ARCHS:
        base = _CONV_WMMA if arch.startswith("gfx1") else _CONV
        for direction in (_CONV, {**_CONV, **_DATA}, {**_CONV, **_WEIGHT}):
            for layout, dtype in (("nhwgc", "fp16"), ("ndhwgc", "bf16")):
                family, vector = direction["family"], direction["vector"]
                if (arch, family, layout) not in have:
                    fields = {"family": family, "vector": vector, "layout": layout, "dtype": dtype}
                    yield arch, {**base, **fields}


def gemms() -> list[KernelKey]:
    """The GEMM kernels, in order of arch."""
    fused = (
        ("gfx942", {**_FUSED, "elementwise": operation, "num_d": count})
        for operation, count in _OPERATIONS
    )
    return [_key(arch, fields) for arch, fields in (*_ROWS, *fused)]


def convolutions() -> list[KernelKey]:
    """The convolution kernels, in order of arch."""
    return [_key(arch, fields) for arch, fields in (*_CONVOLUTIONS, *_directions())]


def matrix() -> list[KernelKey]:
    """All of them."""
    return [*gemms(), *convolutions()]


def _key(arch: str, fields: dict[str, Any]) -> KernelKey:
    family = fields.get("family", "gemm.standard")
    values = {name: value for name, value in fields.items() if name != "family"}
    return make_key(family, arch=arch, **values)
