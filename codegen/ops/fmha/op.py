"""Attention as an op of the engines."""

from __future__ import annotations

from ...enums import families
from ..definition import Op
from . import complete, feature_rules, receipts, rules, space
from .key import FmhaKey

OP = Op(
    name="fmha",
    key_class=FmhaKey,
    families=families("fmha"),
    rules=lambda: rules.RULES,
    space=space.build,
    complete=complete.complete,
    presets=dict,
    aliases=space.ALIASES,
    missing_features=feature_rules.missing_features,
    receipts=receipts.numbers(),
)
