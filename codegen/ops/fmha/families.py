"""Which fields the families of attention kernels have, and the values of those they lack."""

from __future__ import annotations

from typing import Any

from ...enums import FAMILY_GROUPS

FORWARD = ("fmha.fwd", "fmha.splitkv", "fmha.pagedkv", "fmha.batch_prefill")
"""The families that multiply Q K^T and P V: tiles of six numbers, two stages of waves."""

GRADIENT = "fmha.bwd_dq_dk_dv"
BACKWARD = FAMILY_GROUPS["fmha.bwd"]
DTYPES = ("fp32", "fp16", "bf16", "fp8", "bf8", "fp8bf16", "fp8fp32")
BACKWARD_DTYPES = ("fp32", "fp16", "bf16")
FP8 = ("fp8", "bf8", "fp8bf16", "fp8fp32")

# What a kernel computes, by family. A field not named has its neutral value.
_FIELDS = {
    "fmha.fwd": (
        "vlayout mask simplified_mask bias qscale lse dropout store_randval logits sink "
        "skip_min_seqlen_q use_trload num_wave_groups"
    ),
    "fmha.splitkv": "mask simplified_mask bias qscale lse logits sink paged_kv",
    "fmha.splitkv_combine": "qscale lse",
    "fmha.pagedkv": ("mask simplified_mask bias qscale lse logits sink skip_min_seqlen_q paged_kv"),
    "fmha.appendkv": "rope paged_kv",
    "fmha.batch_prefill": (
        "mask simplified_mask bias qscale lse dropout store_randval logits sink paged_kv "
        "page_size kv_memory_layout kv_lookup_table"
    ),
    "fmha.bwd_dot_do_o": "",
    "fmha.bwd_dq_dk_dv": (
        "mask simplified_mask bias dbias dropout store_randval dropout_warp deterministic "
        "use_trload max_seq_len_q"
    ),
    "fmha.bwd_convert_dq": "deterministic",
}
FIELDS = {family: tuple(names.split()) for family, names in _FIELDS.items()}

_FLAGS = (
    *("lse", "dropout", "store_randval", "logits", "sink", "skip_min_seqlen_q", "paged_kv"),
    *("dbias", "deterministic"),
)
NEUTRAL: dict[str, Any] = {
    "vlayout": "r",
    "mask": "no",
    "bias": "no",
    "qscale": "no",
    "rope": "none",
    "kv_memory_layout": "none",
    "kv_lookup_table": "none",
    "page_size": 0,
    **dict.fromkeys((*_FLAGS, "use_trload", "simplified_mask"), False),
    "dropout_warp": 0,
    "max_seq_len_q": 0,
    "num_wave_groups": 1,
}

# On a GPU, the numbers of a tile and of the stages of waves that a family has, and which of the
# paddings of sq, sk, d and dv.
TILE_NUMBERS = {
    **dict.fromkeys(FORWARD, 6),
    "fmha.splitkv_combine": 1,
    "fmha.appendkv": 4,
    "fmha.bwd_dot_do_o": 1,
    "fmha.bwd_dq_dk_dv": 9,
    "fmha.bwd_convert_dq": 2,
}
STAGES = {**dict.fromkeys(TILE_NUMBERS, 0), **dict.fromkeys(FORWARD, 2), GRADIENT: 3}
PADDINGS = {
    **dict.fromkeys(FORWARD, (True, True, True, True)),
    "fmha.splitkv_combine": (True, False, False, True),
    "fmha.appendkv": (True, True, True, True),
    "fmha.bwd_dot_do_o": (True, False, False, True),
    "fmha.bwd_dq_dk_dv": (False, False, True, True),
    "fmha.bwd_convert_dq": (True, False, True, False),
}

# The main loops of a family on a GPU.
PIPELINES = {
    "fmha.fwd": ("qr", "qr_async", "qs", "qr_async_trload", "v3"),
    "fmha.splitkv": ("qr", "qr_nwarp_sshuffle"),
    "fmha.splitkv_combine": ("splitkv_combine",),
    "fmha.pagedkv": ("qr_pagedkv",),
    "fmha.appendkv": ("appendkv",),
    "fmha.batch_prefill": ("qr_async",),
    **dict.fromkeys(BACKWARD, ("bwd",)),
}

# What the kernels of a family compute on CPU levels only: CK Tile's headers do not have it.
ONLY_ON_CPU: dict[str, tuple[str, ...]] = {GRADIENT: ("logits", "sink")}

# What a CPU kernel, which reads the rest from a call, says it can.
CPU_VALUES: dict[str, Any] = {
    "mask": "any",
    "bias": "any",
    "rope": "any",
    **dict.fromkeys(_FLAGS, True),
}


def cpu_value(family: str, field: str) -> Any:
    """The only value of ``field``, one of :data:`NEUTRAL`, on a CPU level."""
    has = (*FIELDS[family], *ONLY_ON_CPU.get(family, ()))
    if field in has and field in CPU_VALUES:
        return CPU_VALUES[field]
    return NEUTRAL[field]
