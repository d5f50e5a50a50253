"""The rules of attention keys, in the order in which they are reported."""

from __future__ import annotations

from ...rules import Rule
from . import bwd_rules, ck_rules, cpu_rules, signature_rules, tile_rules, use_rules

RULES: tuple[Rule, ...] = (
    *signature_rules.RULES,
    *use_rules.RULES,
    *tile_rules.RULES,
    *ck_rules.RULES,
    *bwd_rules.RULES,
    *cpu_rules.RULES,
)
