"""Parameter types: what an option may look like, and the message when it does not."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..codegen.enums import Enum, unknown

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # not subscriptable before click 8.4

_SIZES = re.compile(r"\d+([x,]\d+)*", re.ASCII)
_WINDOW = re.compile(r"(-?\d+),(-?\d+)", re.ASCII)


@dataclass(frozen=True)
class Shape:
    """M, N and K of one GEMM."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> float:
        """Multiplications and additions of one run."""
        return 2.0 * self.m * self.n * self.k


class SizesType(_ParamType):
    """Sizes such as ``16x4096x4096``, or with commas between."""

    def __init__(self, name: str, example: str) -> None:
        self.name = name
        self.example = example

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        text = value.strip().lower()
        if _SIZES.fullmatch(text) is None:
            self.fail(
                f"cannot read {value!r}; write sizes as non-negative integers, {self.example}",
                param,
                ctx,
            )
        return tuple(int(part) for part in re.split("[x,]", text))


Window = tuple[int, int]


class WindowType(_ParamType):
    """Keys to the left and to the right, ``128,0``; -1 is all."""

    name = "LEFT,RIGHT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Window:
        if isinstance(value, tuple):
            return value
        match = _WINDOW.fullmatch(value.strip())
        if match is None:
            self.fail(
                f"cannot read {value!r}; write the keys that a query sees on each side of the "
                "diagonal, -1 for all, e.g. 128,0",
                param,
                ctx,
            )
        return int(match[1]), int(match[2])


class FolderType(_ParamType):
    """A folder, new or not. An empty text, as of an unset variable, is not the current one."""

    name = "DIRECTORY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not os.fspath(value):
            self.fail("it is empty; name a folder", param, ctx)
        path = Path(value)
        if path.exists() and not path.is_dir():
            self.fail(f"'{path}' is a file; name a folder", param, ctx)
        return path


class EnumType(_ParamType):
    """A value of an enumeration of keys; the nearest name is told for any other."""

    def __init__(self, enum: Enum, name: str) -> None:
        self.enum = enum
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        self.enum.code(value, self.name.lower())
        return str(value)


class NamesType(_ParamType):
    """Some of a few names, with commas between."""

    def __init__(self, name: str, what: str, known: Collection[str]) -> None:
        self.name = name
        self.what = what
        self.known = tuple(known)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = [n.strip() for n in value.split(",") if n.strip()]
        for name in names:
            if name not in self.known:
                self.fail(unknown(self.what, name, self.known), param, ctx)
        if not names:
            self.fail(f"name at least one of {', '.join(self.known)}", param, ctx)
        return tuple(dict.fromkeys(names))


class WhereType(_ParamType):
    """``field=value,value``: the field name and its values."""

    name = "FIELD=V1,V2"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, list[Any]]:
        if isinstance(value, tuple):
            return value
        field, equals, values = value.partition("=")
        parts = [v.strip() for v in values.split(",")]
        if not equals or not field.strip() or not all(parts):
            self.fail(
                f"cannot read {value!r}; write a field and the values it may have, "
                "e.g. --where dtype=fp32,bf16",
                param,
                ctx,
            )
        return field.strip(), [_plain(v) for v in parts]


class FieldsType(_ParamType):
    """``field=value,field=value``."""

    name = "FIELD=V,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        found: dict[str, Any] = {}
        for text in value.split(","):
            field, equals, given = (part.strip() for part in text.partition("="))
            if not equals or not field or not given or field in found:
                self.fail(
                    f"cannot read {text!r} in {value!r}; write each field once, with its value, "
                    "e.g. heads=32,head_dim=128",
                    param,
                    ctx,
                )
            found[field] = _plain(given)
        return found


def _plain(text: str) -> Any:
    """A value as JSON would hold it: ``128``, ``true``, or a name or tile."""
    if text.isascii() and text.isdigit():
        return int(text)
    return {"true": True, "false": False}.get(text, text)


class QuantityType(_ParamType):
    """A number with a unit: ``500MB``, ``30d``."""

    def __init__(self, name: str, units: dict[str, int], example: str) -> None:
        self.name = name
        self.units = units
        self.example = example

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?) *([a-z]*)", value.strip().lower(), re.ASCII)
        if match is None or match[2] not in self.units:
            self.fail(
                f"cannot read {value!r}; write a number and one of the units "
                f"{', '.join(u for u in self.units if u)}, e.g. {self.example}",
                param,
                ctx,
            )
        return float(match[1]) * self.units[match[2]]
