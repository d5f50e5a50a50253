"""Grouped convolution as an op of the engines."""

from __future__ import annotations

import functools
from pathlib import Path

from ...enums import families
from ..definition import Op
from ..presets import Presets
from . import feature_rules, rules, space
from .key import ConvKey

_presets = Presets(
    Path(__file__).with_name("presets.json"),
    ConvKey,
    space.ALIASES,
    space.curated_space,
)

OP = Op(
    name="conv",
    key_class=ConvKey,
    families=families("conv"),
    rules=lambda: rules.RULES,
    space=space.build,
    complete=space.complete,
    presets=functools.cache(_presets.read),
    aliases=space.ALIASES,
    missing_features=feature_rules.missing_features,
)
