"""Rules that speak about one kind of machine and pass the keys of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..columns import Array, Columns, encode
from ..key import KernelKey
from ..rules import Rule
from ..schema import fields_by_name
from . import facts


def kind_rule(
    kind: str,
    name: str,
    doc: str,
    columns: str,
    valid: Callable[[Columns], Array],
    reason: Callable[[Any], str],
) -> Rule:
    """A rule of the keys of one kind of machine over the space-separated ``columns``.

    ``kind`` is ``cpu``, or whose GPUs: ``hip`` or ``cuda``.
    """
    used = ("arch", *(c for c in columns.split() if c != "arch"))
    return Rule(name, doc, used, lambda c: ~facts.is_kind(c, kind) | valid(c), reason)


def fixed_on_cpu(key_class: type[KernelKey], field: str, value: Any, why: str) -> Rule:
    """The rule that ``field``, which means nothing on a CPU, has this one value there."""
    return fixed_on("cpu", key_class, field, value, why)


def fixed_on(kind: str, key_class: type[KernelKey], field: str, value: Any, why: str) -> Rule:
    """The rule that ``field``, which means nothing on a kind of machine, has one value there."""
    spec = fields_by_name(key_class)[field]
    codes = dict(zip(spec.columns(), encode(spec, value), strict=True))

    def valid(c: Columns) -> Array:
        return np.asarray(np.logical_and.reduce([c[name] == code for name, code in codes.items()]))

    shown = str(list(value) if isinstance(value, tuple) else value).lower()
    where = "CPU levels" if kind == "cpu" else "NVIDIA GPUs"
    return kind_rule(
        kind,
        f"{kind}_{field}",
        f"{why}: {field} is {shown} on {where}",
        " ".join(codes),
        valid,
        lambda k: f"{field} must be {shown} on {k.arch}, not {getattr(k, field)}: {why}",
    )
