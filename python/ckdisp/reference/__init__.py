"""Every op in NumPy, in double precision by default: what results are checked against."""

from __future__ import annotations

from .conv import conv_bwd_data, conv_bwd_weight, conv_fwd
from .gemm import gemm

__all__ = ["conv_bwd_data", "conv_bwd_weight", "conv_fwd", "gemm"]
