"""The rules of attention keys, in the order in which they are reported."""

from __future__ import annotations

import functools

from ...rules import Rule
from . import bwd_rules, ck_rules, cpu_rules, load_rules, signature_rules, tile_rules, use_rules
from .columns import SCOPES

RULES: tuple[Rule, ...] = (
    *signature_rules.RULES,
    *use_rules.RULES,
    *tile_rules.RULES,
    *ck_rules.RULES,
    *load_rules.RULES,
    *bwd_rules.RULES,
    *cpu_rules.RULES,
)


@functools.cache
def gpu_rules(family: str) -> tuple[Rule, ...]:
    """The rules that GPU keys of ``family`` can break: the fewer, the faster a space is counted."""
    others = {rule.name for rule in cpu_rules.RULES} | {"cpu_dtype"}
    others |= {name for name, families in SCOPES.items() if family not in families}
    return tuple(rule for rule in RULES if rule.name not in others)
