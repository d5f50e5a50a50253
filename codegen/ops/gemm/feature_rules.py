"""GEMM kernels that some versions of the CK Tile headers do not have.

What the headers have is known only where a kernel is built, so these are no rules of spaces: a key
that breaks one is valid, but not with these headers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ...rules import Rejection
from .key import GemmKey


@dataclass(frozen=True)
class FeatureRule:
    """Keys that ``applies`` to need headers with ``feature`` (without, if ``absent``)."""

    name: str
    feature: str
    applies: Callable[[GemmKey], bool]
    reason: str
    absent: bool = False


_NEWER = "use headers from before that change (ROCm 7.1 has them)"
_OLDER = "use newer headers (ROCm 7.1 has them)"


def _pipeline(name: str, feature: str) -> FeatureRule:
    return FeatureRule(
        f"headers_{name}",
        feature,
        lambda k: k.pipeline == name,
        f"the CK Tile headers have no pipeline {name}; {_OLDER} or another pipeline",
    )


RULES: tuple[FeatureRule, ...] = (
    FeatureRule(
        "headers_universal_gemm",
        "universal_gemm",
        lambda k: True,
        f"the CK Tile headers have no universal GEMM, which all kernels are made of; {_OLDER}",
    ),
    FeatureRule(
        "headers_tails",
        "tails_in_kernel",
        lambda k: True,
        f"the CK Tile headers choose loop tails inside the kernel; {_NEWER}",
        absent=True,
    ),
    FeatureRule(
        "headers_memory_operation",
        "memory_operation",
        lambda k: True,
        f"the epilogues of the CK Tile headers take no memory operation; {_NEWER}",
    ),
    _pipeline("compv5", "comp_v5"),
    _pipeline("compv6", "comp_v6"),
    _pipeline("compasync", "comp_async"),
    _pipeline("preshufflev2", "preshuffle_v2"),
    FeatureRule(
        "headers_permute_n",
        "permute_n",
        lambda k: k.family == "gemm.preshuffle",
        f"the cshuffle epilogue of the CK Tile headers knows no shuffled weights; {_OLDER}",
    ),
    FeatureRule(
        "headers_multi_d",
        "multi_d",
        lambda k: k.num_d > 0,
        f"the CK Tile headers have no GEMM with D tensors; {_OLDER} or num_d 0",
    ),
    FeatureRule(
        "headers_persistent",
        "persistent",
        lambda k: k.persistent,
        f"the CK Tile headers have no persistent GEMM; {_OLDER} or persistent false",
    ),
)


def missing_features(key: GemmKey, features: Collection[str]) -> list[Rejection]:
    """Why headers with ``features`` cannot build ``key``; an empty list if they can."""
    return [
        Rejection(rule.name, rule.reason)
        for rule in RULES
        if rule.applies(key) and (rule.feature in features) == rule.absent
    ]
