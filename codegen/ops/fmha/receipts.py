"""Receipts: which part of a space a framework builds, by name or by CK Tile's number."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...columns import Array, Columns, encode
from ...errors import InvalidKey
from ...rules import Rule
from ...schema import fields_by_name
from ..curated import document
from .columns import all_of, any_of
from .key import FmhaKey

DEFAULT = "ck_default"
Alternative = Mapping[str, Sequence[Any]]


def _document() -> Any:
    return document(Path(__file__).with_name("receipts.json"))["receipts"]


def numbers() -> dict[str, int]:
    """CK Tile's number of every receipt, by name."""
    return {name: entry["number"] for name, entry in _document().items()}


def alternatives(receipt: str, family: str) -> tuple[Alternative, ...]:
    """What kernels of ``family`` a receipt has: those that one of these describes."""
    families = _document()[receipt]["families"]
    if family not in families:
        raise InvalidKey(
            f"receipt {receipt} ({_document()[receipt]['doc']}) has no kernels of {family}; "
            f"it has {', '.join(families)}"
        )
    return tuple(families[family])


def matches(alternative: Alternative, c: Columns) -> Array:
    """Whether each row of ``c`` has one of the listed values in every listed field."""
    ok = [np.ones(1, np.bool_)]
    ok += [_is_one_of(field, values, c) for field, values in alternative.items()]
    return np.asarray(all_of(ok))


def _is_one_of(field: str, values: Sequence[Any], c: Columns) -> Array:
    spec = fields_by_name(FmhaKey)[field]
    rows = [encode(spec, value) for value in values]
    hits = [
        all_of([c[n] == code for n, code in zip(spec.columns(), row, strict=True)]) for row in rows
    ]
    return np.asarray(any_of(hits))


def columns_of(alternatives: Sequence[Alternative]) -> tuple[str, ...]:
    """The columns that :func:`matches` reads."""
    fields = fields_by_name(FmhaKey)
    return tuple(
        dict.fromkeys(c for a in alternatives for name in a for c in fields[name].columns())
    )


@functools.cache
def rules(receipt: str, family: str) -> tuple[Rule, ...]:
    """The rules, in addition to those of all keys, that leave what a receipt has of a family."""
    found = alternatives(receipt, family)
    columns = columns_of(found)
    if not columns:
        return ()
    return (
        Rule(
            f"receipt_{receipt}",
            _document()[receipt]["doc"],
            columns,
            lambda c: np.asarray(any_of([matches(a, c) for a in found])),
            lambda k: f"receipt {receipt} has of {family} only {' or '.join(map(_text, found))}",
        ),
    )


def _text(alternative: Alternative) -> str:
    return ", ".join(
        f"{field} {'/'.join(str(v).lower() for v in values)}"
        for field, values in alternative.items()
    )
