"""Rules that speak about one kind of machine and pass the keys of the other."""

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
    gpu: bool,
    name: str,
    doc: str,
    columns: str,
    valid: Callable[[Columns], Array],
    reason: Callable[[Any], str],
) -> Rule:
    """A rule of GPU keys (``gpu``) or CPU keys over the space-separated ``columns``."""
    used = ("arch", *(c for c in columns.split() if c != "arch"))
    return Rule(name, doc, used, lambda c: (facts.is_gpu(c) != gpu) | valid(c), reason)


def fixed_on_cpu(key_class: type[KernelKey], field: str, value: Any, why: str) -> Rule:
    """The rule that ``field``, which means nothing on a CPU, has this one value there."""
    spec = fields_by_name(key_class)[field]
    codes = dict(zip(spec.columns(), encode(spec, value), strict=True))

    def valid(c: Columns) -> Array:
        return np.asarray(np.logical_and.reduce([c[name] == code for name, code in codes.items()]))

    shown = str(list(value) if isinstance(value, tuple) else value).lower()
    return kind_rule(
        False,
        f"cpu_{field}",
        f"{why}: {field} is {shown} on CPU levels",
        " ".join(codes),
        valid,
        lambda k: f"{field} must be {shown} on {k.arch}, not {getattr(k, field)}: {why}",
    )
