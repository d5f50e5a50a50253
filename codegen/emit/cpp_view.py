"""The C++ view of the schema: enumerations, key structs, arch facts, reason codes."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from dataclasses import dataclass
from pathlib import Path

from .. import enums as enums_module
from ..arch import arches
from ..enums import ARCH, Enum
from ..key import KernelKey
from ..ops import key_classes
from ..schema import FieldSpec, fields_of
from .files import write_if_changed
from .templates import render

_REASONS = Path(__file__).parent.parent / "reasons.json"


def reasons() -> dict[str, str]:
    """Why a kernel refuses a problem: code name -> explanation, in code order."""
    table: dict[str, str] = json.loads(_REASONS.read_text(encoding="utf-8"))
    return table


@functools.cache
def all_enums() -> tuple[Enum, ...]:
    """Every enumeration of the schema, reason codes included, in a fixed order."""
    declared = [v for v in vars(enums_module).values() if isinstance(v, Enum)]
    return (*declared, Enum("Reason", tuple(reasons()), "why a kernel refuses a problem"))


@functools.cache
def schema_hash() -> str:
    """16 hex digits over every enumeration value and key field."""
    content = [
        [[e.cpp, *e.values] for e in all_enums()],
        [
            [c.__name__, *((f.name, f.kind, len(f.components)) for f in fields_of(c))]
            for c in key_classes()
        ],
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _CppField:
    name: str
    cpp_type: str
    extent: str
    doc: str
    visited: str


@dataclass(frozen=True)
class _CppKey:
    op: str
    cpp: str
    doc: str
    fields: tuple[_CppField, ...]
    scalars: tuple[str, ...]


def _cpp_field(spec: FieldSpec) -> _CppField:
    types = {"flag": "bool", "int": "std::int32_t", "ints": "std::int32_t"}
    cpp_type = spec.enum.cpp if spec.enum is not None else types[spec.kind]
    extent = f"[{len(spec.components)}]" if spec.components else ""
    visited, size = f"key.{spec.name}", len(spec.components)
    if spec.least < size:
        visited = f"WrittenNumbers{{{visited}, {size}, {spec.least}}}"
    return _CppField(spec.name, cpp_type, extent, spec.doc, visited)


def _cpp_key(key_class: type[KernelKey]) -> _CppKey:
    specs = fields_of(key_class)
    scalars = [
        f"{s.name}[{i}]" if s.components else s.name
        for s in specs
        for i in range(len(s.components) or 1)
    ]
    doc = (inspect.getdoc(key_class) or "").splitlines()[0]
    return _CppKey(
        key_class.op, key_class.__name__, doc, tuple(map(_cpp_field, specs)), tuple(scalars)
    )


def cpp_view() -> dict[str, str]:
    """File name below ``ckdisp/generated`` -> text of every generated header."""
    table = arches()
    implies = {
        name: sum(1 << ARCH.code(n) for n in (name, *facts.implies))
        for name, facts in table.items()
    }
    return {
        "enums.hpp": render("enums.hpp.j2", enums=all_enums(), schema_hash=schema_hash()),
        "keys.hpp": render("keys.hpp.j2", keys=[_cpp_key(c) for c in key_classes()]),
        "arches.hpp": render("arches.hpp.j2", arches=list(table.values()), implies=implies),
    }


def write_cpp_view(include_dir: Path) -> list[Path]:
    """Write the headers below ``include_dir``; returns those that changed."""
    folder = include_dir / "ckdisp" / "generated"
    return [folder / n for n, t in cpp_view().items() if write_if_changed(folder / n, t)]
