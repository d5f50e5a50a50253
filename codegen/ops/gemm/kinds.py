"""Rules that speak about one kind of machine and pass the keys of the other."""

from __future__ import annotations

from collections.abc import Callable

from ...columns import Array, Columns
from ...rules import Rule
from . import facts
from .key import GemmKey


def kind_rule(
    gpu: bool,
    name: str,
    doc: str,
    columns: str,
    valid: Callable[[Columns], Array],
    reason: Callable[[GemmKey], str],
) -> Rule:
    """A rule of GPU keys (``gpu``) or CPU keys over the space-separated ``columns``."""
    used = ("arch", *(c for c in columns.split() if c != "arch"))
    return Rule(name, doc, used, lambda c: (facts.is_gpu(c) != gpu) | valid(c), reason)
