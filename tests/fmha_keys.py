"""Attention keys for tests, stated by what differs from a plain forward kernel."""

from __future__ import annotations

from typing import Any

from ckdisp.codegen.ops.fmha.key import FmhaKey

_NEUTRAL: dict[str, Any] = {
    "provider": "ck_tile",
    "dtype": "fp16",
    "mode": "batch",
    "vlayout": "r",
    "mask": "no",
    "bias": "no",
    "qscale": "no",
    "rope": "none",
    "kv_memory_layout": "none",
    "kv_lookup_table": "none",
    "page_size": 0,
    "lse": False,
    "dropout": False,
    "store_randval": False,
    "logits": False,
    "sink": False,
    "skip_min_seqlen_q": False,
    "paged_kv": False,
    "dbias": False,
    "deterministic": False,
    "use_trload": False,
    "simplified_mask": True,
    "wave": (),
    "warp": (),
    "padding": (0, 0, 0, 0),
    "dropout_warp": 0,
    "max_seq_len_q": 0,
    "num_wave_groups": 1,
    "block_per_cu": 0,
}
_FWD: dict[str, Any] = {
    "tile": (128, 64, 32, 64, 32, 64),
    "wave": (4, 1, 1, 4, 1, 1),
    "warp": (32, 32, 16, 32, 32, 16),
    "pipeline": "qr",
}
_NO_MASK: dict[str, Any] = {"simplified_mask": False}
_BWD: dict[str, Any] = {**_NO_MASK, "pipeline": "bwd", "block_per_cu": 2}
# Family -> the fields of a small kernel of it for gfx9, head dimension 64.
_FAMILIES: dict[str, dict[str, Any]] = {
    "fwd": _FWD,
    "splitkv": {**_FWD, "tile": (64, 64, 32, 64, 32, 64), "warp": (16,) * 6, "lse": True},
    "splitkv_combine": {**_NO_MASK, "tile": (32,), "pipeline": "splitkv_combine"},
    "pagedkv": {**_FWD, "pipeline": "qr_pagedkv", "paged_kv": True, "padding": (1, 1, 0, 0)},
    "appendkv": {**_NO_MASK, "tile": (64, 64, 64, 64), "pipeline": "appendkv"},
    "batch_prefill": {
        **_FWD,
        "pipeline": "qr_async",
        "padding": (1, 1, 1, 1),
        "mode": "group",
        "kv_memory_layout": "linear",
        "kv_lookup_table": "sglang",
        "page_size": 1,
        "paged_kv": True,
    },
    "bwd_dot_do_o": {**_BWD, "tile": (64,), "padding": (1, 0, 0, 1)},
    "bwd_dq_dk_dv": {
        "pipeline": "bwd",
        "tile": (32, 128, 64, 32, 64, 32, 32, 64, 64),
        "wave": (1, 4, 1, 4, 1, 1, 1, 4, 1),
        "warp": (16, 16, 32, 16, 16, 16, 16, 16, 32),
        "block_per_cu": 1,
    },
    "bwd_convert_dq": {**_BWD, "tile": (64,), "padding": (1, 0, 0, 0)},
}


def fmha_key(family: str, arch: str, **changes: Any) -> FmhaKey:
    """A key of ``fmha.<family>``; ``hdim`` sets both head dimensions."""
    fields = {**_NEUTRAL, **_FAMILIES[family], **changes}
    hdim = fields.pop("hdim", 64)
    fields = {"hdim_q": hdim, "hdim_v": hdim, **fields}
    values = {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}
    return FmhaKey.from_dict({"family": f"fmha.{family}", "arch": arch, **values})
