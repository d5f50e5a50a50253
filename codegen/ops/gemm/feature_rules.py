"""GEMM kernels that some versions of the CK Tile headers do not have."""

from __future__ import annotations

from collections.abc import Collection

from ...rules import Rejection
from ..features import COMMON, OLDER, FeatureRule, missing, pipeline
from .key import GemmKey

RULES: tuple[FeatureRule, ...] = (
    *COMMON,
    pipeline("compv6", "comp_v6"),
    pipeline("compasync", "comp_async"),
    pipeline("preshufflev2", "preshuffle_v2"),
    FeatureRule(
        "headers_permute_n",
        "permute_n",
        lambda k: k.family == "gemm.preshuffle",
        f"the cshuffle epilogue of the CK Tile headers knows no shuffled weights; {OLDER}",
    ),
    FeatureRule(
        "headers_multi_d",
        "multi_d",
        lambda k: k.num_d > 0,
        f"the CK Tile headers have no GEMM with D tensors; {OLDER} or num_d 0",
    ),
    FeatureRule(
        "headers_persistent",
        "persistent",
        lambda k: k.persistent,
        f"the CK Tile headers have no persistent GEMM; {OLDER} or persistent false",
    ),
)


def missing_features(key: GemmKey, features: Collection[str]) -> list[Rejection]:
    """Why headers with ``features`` cannot build ``key``; an empty list if they can."""
    return missing(RULES, key, features)
