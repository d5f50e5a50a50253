"""Convolution kernels that some versions of the CK Tile headers do not have."""

from __future__ import annotations

from collections.abc import Collection

from ...rules import Rejection
from .key import ConvKey


def missing_features(key: ConvKey, features: Collection[str]) -> list[Rejection]:
    """Why headers with ``features`` cannot build ``key``; an empty list if they can."""
    if key.explicit_gemm and "conv_explicit_gemm" not in features:
        reason = (
            "the CK Tile headers have no convolution by explicit GEMM; use newer headers, or "
            "explicit_gemm false"
        )
        return [Rejection("headers_explicit_gemm", reason)]
    return []
