"""Every op in NumPy, in double precision by default: what results are checked against."""

from __future__ import annotations

from .attention import attention_bwd, attention_fwd
from .conv import conv_bwd_data, conv_bwd_weight, conv_fwd
from .gemm import gemm

__all__ = ["attention_bwd", "attention_fwd", "conv_bwd_data", "conv_bwd_weight", "conv_fwd", "gemm"]
