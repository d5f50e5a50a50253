"""Keys as NumPy columns: one array per scalar of a key, enumerations as their codes."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .key import KernelKey
from .schema import FieldSpec, columns_of, fields_of

Array = NDArray[Any]
Columns = Mapping[str, Array]


def column_type(spec: FieldSpec) -> type[np.generic]:
    """The element type of the columns of a field."""
    return {"enum": np.uint8, "flag": np.bool_}.get(spec.kind, np.int32)


def encode(spec: FieldSpec, value: Any) -> tuple[int, ...]:
    """One number per column of the field; :class:`InvalidKey` if ``value`` is not valid."""
    checked = spec.validate(value)
    if spec.enum is not None:
        return (spec.enum.code(checked, spec.name),)
    return tuple(map(int, checked)) if spec.components else (int(checked),)


def decode(spec: FieldSpec, code: int) -> Any:
    """The plain value of one column's ``code``; inverse of :func:`encode` for one component."""
    if spec.enum is not None:
        return spec.enum.values[code]
    return bool(code) if spec.kind == "flag" else int(code)


def from_keys(key_class: type[KernelKey], keys: Sequence[KernelKey]) -> dict[str, Array]:
    """The columns of ``keys``, which are all of ``key_class``."""
    columns: dict[str, Array] = {}
    for spec in fields_of(key_class):
        values = [getattr(key, spec.name) for key in keys]
        if spec.enum is not None:
            values = list(map(spec.enum.code, values))
        table = np.array(values, dtype=column_type(spec)).reshape(len(keys), -1)
        columns.update((name, table[:, i]) for i, name in enumerate(spec.columns()))
    return columns


@functools.cache
def _value_table(spec: FieldSpec) -> Array:
    assert spec.enum is not None
    return np.array(spec.enum.values, dtype=object)


def to_keys(key_class: type[KernelKey], columns: Columns) -> list[KernelKey]:
    """One key per row; the columns are known to hold valid values."""
    fields: list[Iterable[Any]] = []
    for spec in fields_of(key_class):
        parts = [columns[name] for name in spec.columns()]
        if all(len(part) and (part == part[0]).all() for part in parts):
            same = tuple(decode(spec, part[0]) for part in parts)
            fields.append(itertools.repeat(same if spec.components else same[0]))
        elif spec.enum is not None:
            fields.append(_value_table(spec)[parts[0]].tolist())
        elif spec.components:
            fields.append(zip(*(part.tolist() for part in parts), strict=True))
        else:
            fields.append(parts[0].astype(column_type(spec)).tolist())
    length = len(next(iter(columns.values())))
    keys = [object.__new__(key_class) for _ in range(length)]
    # Field by field: a constructor of frozen keys takes three times as long.
    for spec, values in zip(fields_of(key_class), fields, strict=True):
        setter = key_class.__dict__[spec.name].__set__
        deque(map(setter, keys, values), maxlen=0)
    return keys


def distinct_rows(key_class: type[KernelKey], columns: Columns) -> list[dict[str, Any]]:
    """The different rows of some ``columns`` of keys, as plain values by column, sorted by code."""
    specs = columns_of(key_class)
    codes = np.unique(np.stack(list(columns.values()), axis=1).astype(np.int64), axis=0)
    return [
        {name: decode(specs[name][0], code) for name, code in zip(columns, row, strict=True)}
        for row in codes.tolist()
    ]
