"""GEMM as an op of the engines."""

from __future__ import annotations

from ...enums import FAMILY
from ..definition import Op
from . import feature_rules, presets, rules, space
from .key import GemmKey

OP = Op(
    name="gemm",
    key_class=GemmKey,
    families=tuple(f for f in FAMILY.values if f.startswith("gemm.")),
    rules=lambda: rules.RULES,
    space=space.build,
    complete=space.complete,
    presets=presets.presets,
    aliases=space.ALIASES,
    missing_features=feature_rules.missing_features,
)
