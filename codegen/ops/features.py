"""Kernels that some versions of the CK Tile headers do not have.

What the headers have is known only where a kernel is built, so these are no rules of spaces: a key
that breaks one is valid, but not with these headers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..rules import Rejection

NEWER = "use headers from before that change (ROCm 7.1 has them)"
OLDER = "use newer headers (ROCm 7.1 has them)"


@dataclass(frozen=True)
class FeatureRule:
    """Keys that ``applies`` to need headers with ``feature`` (without, if ``absent``)."""

    name: str
    feature: str
    applies: Callable[[Any], bool]
    reason: str
    absent: bool = False


def pipeline(name: str, feature: str) -> FeatureRule:
    """The rule that the headers have a pipeline."""
    return FeatureRule(
        f"headers_{name}",
        feature,
        lambda k: k.pipeline == name,
        f"the CK Tile headers have no pipeline {name}; {OLDER} or another pipeline",
    )


# What kernels of every op are made of.
COMMON: tuple[FeatureRule, ...] = (
    FeatureRule(
        "headers_universal_gemm",
        "universal_gemm",
        lambda k: True,
        f"the CK Tile headers have no universal GEMM, which all kernels are made of; {OLDER}",
    ),
    FeatureRule(
        "headers_tails",
        "tails_in_kernel",
        lambda k: True,
        f"the CK Tile headers choose loop tails inside the kernel; {NEWER}",
        absent=True,
    ),
    FeatureRule(
        "headers_memory_operation",
        "memory_operation",
        lambda k: True,
        f"the epilogues of the CK Tile headers take no memory operation; {NEWER}",
    ),
    pipeline("compv5", "comp_v5"),
)


def missing(rules: Sequence[FeatureRule], key: Any, features: Collection[str]) -> list[Rejection]:
    """Why headers with ``features`` cannot build ``key``; an empty list if they can."""
    return [
        Rejection(rule.name, rule.reason)
        for rule in rules
        if rule.applies(key) and (rule.feature in features) == rule.absent
    ]
