"""The rule engine: named validity checks of keys, vectorised over columns.

An op lists its rules once. The same list filters spaces, checks single keys and documents itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .columns import Array, Columns, from_keys
from .key import KernelKey


@dataclass(frozen=True)
class Rule:
    """One validity check.

    ``valid`` maps the named ``columns`` to a mask; the columns may have length 1 when their value
    is the same everywhere, so it must broadcast. ``reason`` says in words, with numbers, why one
    key breaks the rule; it is only called for keys that do.
    """

    name: str
    doc: str
    columns: tuple[str, ...]
    valid: Callable[[Columns], Array]
    reason: Callable[[Any], str]


@dataclass(frozen=True)
class Rejection:
    """Why a key is not valid: the name of the rule and the reason in words."""

    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"


def rules_of(key_class: type[KernelKey]) -> tuple[Rule, ...]:
    """The rules of the op of ``key_class``, in the order in which they are reported."""
    from .ops import op  # the ops build their rules with this module

    return op(key_class.op).rules()


def check(key: KernelKey) -> list[Rejection]:
    """Every rule that ``key`` breaks; an empty list for a valid key."""
    return check_all([key])[0]


def check_all(keys: Sequence[KernelKey]) -> list[list[Rejection]]:
    """:func:`check` of many keys, of any ops, in one pass."""
    found: list[list[Rejection]] = [[] for _ in keys]
    groups: dict[type[KernelKey], list[int]] = defaultdict(list)
    for position, key in enumerate(keys):
        groups[type(key)].append(position)
    for key_class, positions in groups.items():
        columns = from_keys(key_class, [keys[i] for i in positions])
        for rule in rules_of(key_class):
            broken = ~np.broadcast_to(rule.valid(columns), (len(positions),))
            for i in np.flatnonzero(broken).tolist():
                key = keys[positions[i]]
                found[positions[i]].append(Rejection(rule.name, rule.reason(key)))
    return found


def catalogue() -> dict[str, list[dict[str, Any]]]:
    """Op -> its rules as ``{"name", "doc", "fields"}``, for the command line and the docs."""
    from .ops import ops

    return {
        o.name: [{"name": r.name, "doc": r.doc, "columns": list(r.columns)} for r in o.rules()]
        for o in ops()
    }
