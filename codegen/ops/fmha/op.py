"""Attention as an op of the engines."""

from __future__ import annotations

import functools
from pathlib import Path

from ...enums import families
from ..definition import Op
from ..presets import Presets
from . import companions, complete, feature_rules, receipts, rules, space
from .key import FmhaKey

_presets = Presets(
    Path(__file__).with_name("presets.json"),
    FmhaKey,
    space.ALIASES,
    lambda request, roles: space.build(request),
)

OP = Op(
    name="fmha",
    key_class=FmhaKey,
    families=families("fmha"),
    rules=lambda: rules.RULES,
    space=space.build,
    complete=complete.complete,
    presets=functools.cache(_presets.read),
    aliases=space.ALIASES,
    missing_features=feature_rules.missing_features,
    receipts=receipts.numbers(),
    companions=companions.companions,
    companion_columns=companions.COLUMNS,
)
