"""Every op in NumPy, in double precision by default: what results are checked against."""

from __future__ import annotations

from .attention import attention_bwd, attention_fwd
from .attention_cache import apply_rope, attention_appendkv, gather_kv
from .attention_splitkv import attention_combine, attention_splitkv
from .conv import conv_bwd_data, conv_bwd_weight, conv_fwd
from .gemm import gemm
from .philox import dropout_bytes

__all__ = [
    "apply_rope",
    "attention_appendkv",
    "attention_bwd",
    "attention_combine",
    "attention_fwd",
    "attention_splitkv",
    "conv_bwd_data",
    "conv_bwd_weight",
    "conv_fwd",
    "dropout_bytes",
    "gather_kv",
    "gemm",
]
