"""Single keys: from fields with defaults, and from names."""

from __future__ import annotations

from typing import Any

from .arch import arch as find_arch
from .enums import unknown
from .errors import InvalidKey
from .key import KernelKey
from .ops import key_class, op_of_family
from .schema import columns_of, fields_by_name


def make_key(family: str, *, arch: str, **fields: Any) -> KernelKey:
    """The key of one kernel; fields that are not given take the defaults of the op.

    Takes every key field, the op's shorthands (``dtype`` of a GEMM sets both inputs) and single
    columns (``tile_k=64`` changes one number of the default tile). Raises :class:`InvalidKey` for
    unknown fields and values. The rules are not applied: ask :meth:`KernelKey.check`.
    """
    op = op_of_family(family)
    facts = find_arch(arch)
    specs, columns = fields_by_name(op.key_class), columns_of(op.key_class)
    given: dict[str, Any] = {"family": family, "arch": facts.name, "provider": facts.provider}
    singles: dict[str, Any] = {}
    for name, value in fields.items():
        if name in op.aliases:
            given.update((field, value) for field in op.aliases[name] if field not in fields)
        elif name in specs:
            given[name] = value
        elif name in columns:
            singles[name] = value
        else:
            raise InvalidKey(unknown("field", name, (*specs, *op.aliases, *columns)))
    for name, value in given.items():
        given[name] = specs[name].validate(value)
    values = op.complete(given)
    for name, value in singles.items():
        spec, component = columns[name]
        numbers = list(values[spec.name])
        numbers[component] = value
        values[spec.name] = tuple(numbers)
    return op.key_class.from_dict(values)


def parse_name(name: str) -> KernelKey:
    """The key whose canonical name is ``name``; :class:`InvalidKey` says what cannot be read."""
    if not isinstance(name, str):
        raise InvalidKey(f"a kernel name is a string, not {name!r}")
    return key_class(name.partition("_")[0]).from_name(name)
