"""Attention kernels that together touch everything the CK Tile provider has, most of them small."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.make import make_key
from ckdisp.codegen.providers.ck_tile import branch_of

_Rows = tuple[tuple[str, str, dict[str, Any]], ...]

_GROUP: dict[str, Any] = {"mode": "group", "padding": (1, 1, 1, 1)}
_PAGES: dict[str, Any] = {"paged_kv": True, "padding": (1, 1, 0, 0)}
_SCALED: dict[str, Any] = {"dtype": "fp8", "qscale": "pertensor", "hdim": 64}
_TILE: dict[str, Any] = {"hdim": 64, "tile": (128, 64, 32, 64, 32, 64)}
_ROWS_OF_16: dict[str, Any] = {"hdim": 128, "pipeline": "qr_nwarp_sshuffle"}
_WMMA: dict[str, Any] = {"tile": (64, 64, 32, 64, 32, 64)}
_ONE_WAVE: dict[str, Any] = {"hdim": 64, "tile": (16, 32, 64, 64, 32, 64), "wave": (1,) * 6}
_ONE_WAVE |= {"warp": (16, 16, 32) * 2, "pipeline": "qr_async_trload"}
_SHORT: dict[str, Any] = {"hdim": 64, "use_trload": True, "max_seq_len_q": 32}

# Family, arch, and what differs from its plain kernel of head dimension 32.
_PARTS: _Rows = (
    ("fwd", "gfx90a", {"bias": "bias", "lse": True, "dropout": True}),
    ("splitkv", "gfx90a", {"dtype": "bf16", **_PAGES, "mode": "group", "mask": "generic"}),
    ("splitkv", "gfx90a", {**_ROWS_OF_16, **_GROUP, "mask": "generic"}),
    ("splitkv_combine", "gfx90a", {"lse": True, "padding": (1, 0, 0, 1)}),
    ("pagedkv", "gfx90a", {**_TILE, "mode": "group", "lse": True, "skip_min_seqlen_q": True}),
    ("appendkv", "gfx90a", {"rope": "half_rotated", "paged_kv": True}),
    ("batch_prefill", "gfx90a", {**_TILE, "dropout": True, "bias": "alibi"}),
    ("bwd_dot_do_o", "gfx90a", {"mode": "group"}),
    ("bwd_dq_dk_dv", "gfx90a", {"bias": "alibi", "dropout": True, "padding": (0, 0, 8, 8)}),
    ("bwd_convert_dq", "gfx90a", {"dtype": "bf16"}),
    ("fwd", "gfx942", {**_SCALED, "mask": "generic"}),
    ("fwd", "gfx942", {"hdim": 64, "pipeline": "qs", "vlayout": "c", "skip_min_seqlen_q": True}),
    ("splitkv", "gfx942", {"logits": True, "padding": (1, 1, 1, 1)}),
    ("pagedkv", "gfx942", {**_TILE, "dtype": "bf16", "bias": "alibi", "mask": "generic"}),
    ("batch_prefill", "gfx942", {**_TILE, "lse": True, "logits": True, "mask": "generic"}),
    (
        "bwd_dq_dk_dv",
        "gfx942",
        {"dtype": "bf16", "bias": "bias", "dbias": True, "mask": "generic", "deterministic": True},
    ),
    ("fwd", "gfx950", {**_ONE_WAVE, "lse": True, "mask": "generic"}),
    ("splitkv", "gfx950", {"dtype": "bf16", "bias": "alibi", **_GROUP}),
    ("splitkv_combine", "gfx950", _SCALED),
    ("pagedkv", "gfx950", {**_SCALED, "bias": "bias"}),
    ("appendkv", "gfx950", {"dtype": "fp8", "hdim": 64}),
    ("batch_prefill", "gfx950", {**_TILE, "dtype": "bf16", "bias": "bias"}),
    ("bwd_dot_do_o", "gfx950", {"dtype": "bf16", "mode": "group"}),
    ("bwd_dq_dk_dv", "gfx950", {"dtype": "bf16", **_SHORT}),
    ("bwd_convert_dq", "gfx950", {"dtype": "bf16", "padding": (0, 0, 1, 0)}),
    ("fwd", "gfx1201", {"dtype": "bf16", "bias": "bias", "dropout": True, **_GROUP}),
    ("fwd", "gfx1201", {"dtype": "fp8fp32", "hdim": 128, "bias": "alibi", "mask": "generic"}),
    ("splitkv", "gfx1201", {"bias": "bias", **_PAGES, "mode": "group"}),
    ("splitkv_combine", "gfx1201", {"mode": "group", "lse": True}),
    ("pagedkv", "gfx1201", {**_TILE, **_WMMA, "dtype": "bf16", "logits": True, "mask": "generic"}),
    ("appendkv", "gfx1201", {"paged_kv": True}),
    ("bwd_dot_do_o", "gfx1201", {"padding": (0, 0, 0, 0)}),
    ("bwd_dq_dk_dv", "gfx1201", {"dropout": True, "store_randval": True, "bias": "alibi"}),
    ("bwd_convert_dq", "gfx1201", {"deterministic": True}),
)
# CK's own generator has these too.
_TWINS: _Rows = (
    ("fwd", "gfx942", {**_GROUP, "pipeline": "qr_async", "logits": True, "mask": "generic"}),
    ("fwd", "gfx942", {"dtype": "fp32", "bias": "alibi", "lse": True, **_GROUP}),
    ("splitkv_combine", "gfx942", {"padding": (0, 0, 0, 0)}),
    ("splitkv_combine", "gfx942", {"dtype": "bf16", "mode": "group", "lse": True}),
    ("appendkv", "gfx942", {"dtype": "bf16", "rope": "interleaved", "padding": (0, 1, 1, 0)}),
    ("appendkv", "gfx942", {"rope": "half_rotated", "paged_kv": True}),
    ("bwd_dot_do_o", "gfx942", {"dtype": "fp32", "padding": (0, 0, 0, 1)}),
    ("bwd_dot_do_o", "gfx942", {"mode": "group"}),
    ("bwd_convert_dq", "gfx942", {"deterministic": True, "mode": "group"}),
    ("bwd_convert_dq", "gfx942", {"dtype": "bf16"}),
)
# Kernels of CK's own whose compilation takes longer: `make check-amd SAME_CODE=1` compares them.
_LARGE: _Rows = (
    ("fwd", "gfx950", {"hdim": 128, "pipeline": "v3", "dtype": "bf16", "mask": "top_left"}),
    ("fwd", "gfx942", _SCALED),
    ("fwd", "gfx90a", {"bias": "bias", "lse": True, "dropout": True}),
    ("fwd", "gfx950", {**_ONE_WAVE, "lse": True, "mask": "generic"}),
    ("fwd", "gfx1201", {"dtype": "bf16", "bias": "bias", "dropout": True, **_GROUP}),
    ("splitkv", "gfx942", {"logits": True, "padding": (1, 1, 1, 1)}),
    ("splitkv", "gfx90a", {"hdim": 64, **_GROUP, "mask": "generic", "bias": "alibi"}),
    ("splitkv", "gfx1201", {"dtype": "bf16", **_PAGES}),
    ("pagedkv", "gfx942", {"hdim": 128, "bias": "alibi", "mode": "group"}),
    ("pagedkv", "gfx950", _SCALED),
    ("batch_prefill", "gfx90a", {"hdim": 128, "lse": True}),
    ("batch_prefill", "gfx942", {"hdim": 128, "dtype": "bf16", "logits": True, "mask": "generic"}),
    ("bwd_dq_dk_dv", "gfx942", {"hdim": 64, "bias": "bias", "dbias": True, "deterministic": True}),
    ("bwd_dq_dk_dv", "gfx950", {"dtype": "bf16", **_SHORT}),
    ("bwd_dq_dk_dv", "gfx1201", {"dropout": True, "mask": "generic"}),
)


def twins() -> list[KernelKey]:
    """Those of :func:`matrix` that CK's own generator has too."""
    return _keys(_TWINS)


def large_twins() -> list[KernelKey]:
    """Kernels of CK's own generator that take long to compile."""
    return _keys(_LARGE)


def matrix() -> list[KernelKey]:
    """A kernel of every family for every arch that has it, and of every feature."""
    return _keys((*_PARTS, *_TWINS))


def parts(keys: Iterable[KernelKey]) -> dict[tuple[str, str], list[KernelKey]]:
    """Arch and branch -> the keys of it, which one compiler takes together."""
    found: dict[tuple[str, str], list[KernelKey]] = {}
    for key in keys:
        found.setdefault((key.arch, branch_of(key)), []).append(key)
    return found


def _keys(rows: _Rows) -> list[KernelKey]:
    return [
        make_key(f"fmha.{family}", arch=arch, **({"hdim": 32} | fields))
        for family, arch, fields in rows
    ]
