"""Convolution kernels that some versions of the CK Tile headers do not have."""

from __future__ import annotations

from collections.abc import Collection

from ...rules import Rejection
from ..features import COMMON, OLDER, FeatureRule, missing
from .key import ConvKey

RULES: tuple[FeatureRule, ...] = (
    *COMMON,
    FeatureRule(
        "headers_grouped_conv",
        "grouped_conv",
        lambda k: True,
        f"the CK Tile headers have no grouped convolution with vectors of given widths; {OLDER}",
    ),
    FeatureRule(
        "headers_split_images",
        "conv_split_images",
        lambda k: k.family != "conv.bwd_weight",
        "the CK Tile headers have no grouped convolution whose grid has layers of images; "
        f"{OLDER} or conv.bwd_weight",
    ),
    FeatureRule(
        "headers_merged_groups",
        "conv_merged_groups",
        lambda k: k.groups_to_merge > 1,
        f"the CK Tile headers merge no groups; {OLDER} or groups_to_merge 1",
    ),
    FeatureRule(
        "headers_explicit_gemm",
        "conv_explicit_gemm",
        lambda k: k.explicit_gemm,
        "the CK Tile headers that kernels are built with have no convolution by explicit GEMM; "
        "use explicit_gemm false",
    ),
)


def missing_features(key: ConvKey, features: Collection[str]) -> list[Rejection]:
    """Why headers with ``features`` cannot build ``key``; an empty list if they can."""
    return missing(RULES, key, features)
