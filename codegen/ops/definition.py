"""What an op brings to the engines: its key class, rules, spaces, shorthands and presets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..columns import Columns
from ..key import KernelKey
from ..rules import Rejection, Rule
from ..space import Space


@dataclass(frozen=True)
class SpaceRequest:
    """Which space of a family to build.

    ``tiles`` is ``curated`` (what a deployment builds) or ``all`` (every legal key, for tuning).
    ``named`` holds the columns that the caller will restrict: a curated space gives them their
    full range and leaves the others at their default.
    """

    family: str
    arch: str
    provider: str
    tiles: str = "curated"
    receipt: str | None = None
    named: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Preset:
    """A named selection of kernels; ``spaces`` gives its parts on an arch, empty if senseless."""

    doc: str
    spaces: Callable[[str], Sequence[Space]]


@dataclass(frozen=True)
class Op:
    """One operation. Adding an op is adding one of these to the table in ``ops/__init__.py``.

    ``aliases`` maps a shorthand of ``where`` and ``make_key`` to the fields that all take its
    value. ``complete`` fills the fields that a caller of ``make_key`` left out. ``receipts`` are
    the named profiles that ``sweep`` takes, each with the number that CK Tile gives it.
    ``missing_features`` says why the headers of a key's provider, which have the given features,
    cannot build it. ``companions`` are the kernels of later stages of a plan that keys with these
    values of ``companion_columns`` need beside themselves.
    """

    name: str
    key_class: type[KernelKey]
    families: tuple[str, ...]
    rules: Callable[[], tuple[Rule, ...]]
    space: Callable[[SpaceRequest], Space]
    complete: Callable[[Mapping[str, Any]], dict[str, Any]]
    presets: Callable[[], Mapping[str, Preset]]
    aliases: Mapping[str, tuple[str, ...]]
    missing_features: Callable[[Any, Collection[str]], Sequence[Rejection]]
    receipts: Mapping[str, int] = field(default_factory=dict)
    companions: Callable[[Columns], Sequence[KernelKey]] = lambda columns: ()
    companion_columns: tuple[str, ...] = ()
