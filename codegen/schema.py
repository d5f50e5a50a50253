"""What a kernel key is made of: typed fields that say how they look in C++, names and columns.

An op describes its key once, as a frozen dataclass whose fields come from :func:`enum_field`,
:func:`ints_field`, :func:`int_field` and :func:`flag_field`. Everything else is derived from that:
the C++ struct, the canonical name, the JSON form and the NumPy columns of a space.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .enums import Enum, unknown
from .errors import InvalidKey

_META = "ckdisp"
INT_MAX = 2**31 - 1


def without_zeros(numbers: tuple[int, ...], least: int = 0) -> tuple[int, ...]:
    """``numbers`` without the zeros that they end with, but at least ``least`` of them."""
    size = len(numbers)
    while size > least and numbers[size - 1] == 0:
        size -= 1
    return numbers[:size]


@dataclass(frozen=True)
class FieldSpec:
    """One field of a key.

    ``kind`` is ``enum``, ``ints``, ``int`` or ``flag``; ``part`` is ``identity``, ``signature``
    (what is computed) or ``algorithm`` (how). ``tag`` is the letter of the field in names, and
    ``components`` the suffixes of the columns of an ``ints`` field. Zeros at the end of an ``ints``
    field need not be written, down to ``least`` numbers, and are not in names and JSON.
    """

    kind: str
    part: str
    doc: str
    enum: Enum | None = None
    tag: str = ""
    components: tuple[str, ...] = ()
    name: str = ""
    least: int = 0

    def columns(self) -> tuple[str, ...]:
        """The column names of the field: ``tile`` has ``tile_m``, ``tile_n``, ``tile_k``."""
        return tuple(f"{self.name}_{c}" for c in self.components) or (self.name,)

    def validate(self, value: Any) -> Any:
        """``value`` in canonical form, or :class:`InvalidKey`."""
        if self.kind == "enum":
            assert self.enum is not None
            self.enum.code(value, self.name)
            return value
        if self.kind == "flag":
            if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
                return bool(value)
            raise InvalidKey(f"{self.name} must be true or false, not {value!r}")
        if self.kind == "int":
            return self._int(value)
        size = len(self.components)
        parts = value
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}(x[0-9]{1,18})*", value):
            parts = [int(part) for part in value.split("x")]  # as names and messages have it
        if (
            isinstance(parts, (str, bytes))
            or not hasattr(parts, "__len__")
            or not self.least <= len(parts) <= size
        ):
            raise InvalidKey(f"{self.name} must hold {self._count()} integers, not {value!r}")
        return tuple(self._int(part) for part in parts) + (0,) * (size - len(parts))

    def _count(self) -> str:
        size = len(self.components)
        return str(size) if self.least == size else f"{self.least} to {size}"

    def written(self, value: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of an ``ints`` field that names and JSON show."""
        return without_zeros(value, self.least)

    def component(self, value: Any, name: str) -> int:
        """One checked component of an ``ints`` field, called ``name`` in errors."""
        return dataclasses.replace(self, name=name)._int(value)

    def _int(self, value: Any) -> int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise InvalidKey(f"{self.name} must be an integer, not {value!r}")
        number = value.__index__()
        if not 0 <= number <= INT_MAX:
            raise InvalidKey(f"{self.name} must be between 0 and {INT_MAX}, not {number}")
        return int(number)


def enum_field(enum: Enum, part: str, doc: str) -> Any:
    return dataclasses.field(metadata={_META: FieldSpec("enum", part, doc, enum=enum)})


def ints_field(components: Sequence[str], tag: str, doc: str, least: int | None = None) -> Any:
    """Several integers; ``least``, if given, are those that must be written."""
    names = tuple(components)
    least = len(names) if least is None else least
    spec = FieldSpec("ints", "algorithm", doc, tag=tag, components=names, least=least)
    return dataclasses.field(metadata={_META: spec})


def int_field(tag: str, part: str, doc: str) -> Any:
    return dataclasses.field(metadata={_META: FieldSpec("int", part, doc, tag=tag)})


def flag_field(tag: str, doc: str, part: str = "algorithm") -> Any:
    return dataclasses.field(metadata={_META: FieldSpec("flag", part, doc, tag=tag)})


def fields_of(key_class: type) -> tuple[FieldSpec, ...]:
    """The fields of a key class, in declaration order, which is the order of names and C++."""
    return _fields_of(key_class)


def fields_by_name(key_class: type) -> Mapping[str, FieldSpec]:
    return _fields_by_name(key_class)


def columns_of(key_class: type) -> Mapping[str, tuple[FieldSpec, int]]:
    """Column name -> (field, index of the component)."""
    return _columns_of(key_class)


# The caches sit behind plain functions: type checkers hold a class of keys not to be hashable.
@functools.cache
def _fields_of(key_class: type) -> tuple[FieldSpec, ...]:
    return tuple(
        dataclasses.replace(f.metadata[_META], name=f.name) for f in dataclasses.fields(key_class)
    )


@functools.cache
def _fields_by_name(key_class: type) -> Mapping[str, FieldSpec]:
    return {f.name: f for f in fields_of(key_class)}


@functools.cache
def _columns_of(key_class: type) -> Mapping[str, tuple[FieldSpec, int]]:
    return {c: (f, i) for f in fields_of(key_class) for i, c in enumerate(f.columns())}


def canonical(key_class: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Checked values of every field of ``key_class``; unknown and missing fields are errors."""
    specs = fields_by_name(key_class)
    for name in values:
        if name not in specs:
            raise InvalidKey(unknown("field", name, tuple(specs)))
    missing = [name for name in specs if name not in values]
    if missing:
        raise InvalidKey(f"missing field{'s' if len(missing) > 1 else ''}: {', '.join(missing)}")
    return {name: spec.validate(values[name]) for name, spec in specs.items()}
