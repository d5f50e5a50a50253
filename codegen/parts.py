"""The parts of a kernel set: a space, a selection of its positions, or a list of keys."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from .columns import Array, Columns, from_keys
from .errors import InvalidKey
from .factor import Axis
from .key import KernelKey
from .names import names_of
from .ops import op as find_op
from .space import Space, chunks

# Comparing overlapping spaces enumerates one of them; beyond this it would seem to hang.
_MAX_ENUMERATED = 1 << 26
# Filtering by text goes through the rows of at most so many keys, a second's work.
_MAX_ORDERED = 1 << 20


@dataclass(frozen=True)
class Declaration:
    """How a part was declared: the spec entry, and that it is part ``index`` of ``count``.

    ``alone`` is the entry that declares just this part, if there is one.
    """

    entry: Mapping[str, Any]
    index: int = 0
    count: int = 1
    alone: Mapping[str, Any] | None = field(default=None, compare=False)


class Part(Protocol):
    """Distinct keys in a fixed order."""

    @property
    def declaration(self) -> Declaration | None: ...
    @property
    def family(self) -> str: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[KernelKey]: ...
    def __contains__(self, key: object) -> bool: ...
    def select(self, positions: Array) -> Part:
        """The keys at ``positions``, which ascend."""
        ...

    def keys(self, positions: Array) -> Sequence[KernelKey]: ...
    def names(self) -> Iterator[str]: ...
    def companions(self) -> Sequence[KernelKey]:
        """The kernels of later stages that the keys need beside themselves."""
        ...


def _companions(key_class: type[KernelKey], columns: Columns) -> list[KernelKey]:
    op = find_op(key_class.op)
    names = op.companion_columns
    return list(op.companions({name: columns[name] for name in names})) if names else []


class KeyList:
    """Explicit keys."""

    def __init__(self, keys: tuple[KernelKey, ...], declaration: Declaration | None = None) -> None:
        self._keys = keys
        self.declaration = declaration

    @property
    def family(self) -> str:
        return ", ".join(sorted({key.family for key in self._keys}))

    @functools.cached_property
    def _set(self) -> frozenset[KernelKey]:
        return frozenset(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[KernelKey]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._set

    def select(self, positions: Array) -> KeyList:
        if len(positions) == len(self):
            return self
        return KeyList(tuple(self.keys(positions)))

    def keys(self, positions: Array) -> Sequence[KernelKey]:
        return [self._keys[i] for i in positions.tolist()]

    def names(self) -> Iterator[str]:
        return (key.name for key in self._keys)

    def companions(self) -> list[KernelKey]:
        by_class: dict[type[KernelKey], list[KernelKey]] = {}
        for key in self._keys:
            by_class.setdefault(type(key), []).append(key)
        return [
            companion
            for key_class, keys in by_class.items()
            for companion in _companions(key_class, from_keys(key_class, keys))
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyList, (self._keys, self.declaration)


class SpacePart:
    """A whole space, or the keys of a space at ``positions`` (ascending)."""

    def __init__(
        self, space: Space, positions: Array | None = None, declaration: Declaration | None = None
    ) -> None:
        self.space = space
        self.positions = positions
        self.declaration = declaration

    @property
    def family(self) -> str:
        return self[0].family if len(self) else ""

    def __len__(self) -> int:
        return len(self.space) if self.positions is None else len(self.positions)

    def __getitem__(self, position: int) -> KernelKey:
        return self.keys(np.array([position]))[0]

    def __iter__(self) -> Iterator[KernelKey]:
        for positions in chunks(len(self)):
            yield from self.keys(positions)

    def __contains__(self, key: object) -> bool:
        if type(key) is not self.space.key_class:
            return False
        return bool(self.find(from_keys(self.space.key_class, [key]))[0])

    def select(self, positions: Array) -> SpacePart:
        if len(positions) == len(self):
            return self
        return SpacePart(self.space, self._in_space(positions))

    def keys(self, positions: Array) -> Sequence[KernelKey]:
        return self.space.keys(self._in_space(positions))

    def names(self) -> Iterator[str]:
        for positions in chunks(len(self)):
            yield from names_of(self.space.key_class, self.columns(positions))

    def companions(self) -> list[KernelKey]:
        key_class = self.space.key_class
        if self.positions is None:
            names = find_op(key_class.op).companion_columns
            return _companions(key_class, self.space.distinct(names)) if names else []
        return _companions(key_class, self.space.columns(self.positions))

    def filter(self, text: str) -> SpacePart | None:
        """The keys for which the expression ``text`` is true; None if it reads their names.

        A large space is not enumerated but narrowed, which may change the order of its keys.
        """
        from .filter import filter_rules  # only for who filters by text

        rules = filter_rules(text, self.space.key_class)
        if rules is None:
            if len(self) > _MAX_ENUMERATED:
                raise InvalidKey(
                    f"the filter {text!r} reads name, which enumerates {len(self)} keys; "
                    "narrow them with where, or name fields instead"
                )
            return None
        if self.positions is None and len(self) > _MAX_ORDERED:
            return SpacePart(self.space.narrow(rules))
        kept = [np.zeros(0, np.int64)]
        for positions in chunks(len(self)):
            columns = self.columns(positions)
            masks = [np.broadcast_to(r.valid(columns), positions.shape) for r in rules]
            kept.append(positions[np.logical_and.reduce(masks)])
        return self.select(np.concatenate(kept))

    def find(self, columns: Columns) -> Array:
        """Whether each row of ``columns`` is a key of this part."""
        found = self.space.positions(columns)
        if self.positions is None:
            return found >= 0
        return np.isin(found, self.positions)

    def columns(self, positions: Array) -> dict[str, Array]:
        return self.space.columns(self._in_space(positions))

    def __reduce__(self) -> tuple[Any, ...]:
        """Rules are functions and cannot be pickled: a declaration is made again, or rows stay."""
        if self.declaration is not None:
            return _declared, (self.declaration, len(self))
        columns = self.columns(np.arange(len(self)))
        rows = np.stack([np.broadcast_to(c, len(self)) for c in columns.values()], axis=1)
        return _from_rows, (self.space.key_class, tuple(columns), rows)

    def _in_space(self, positions: Array) -> Array:
        return positions if self.positions is None else self.positions[positions]


def _declared(declaration: Declaration, count: int) -> Part:
    """The part that a pickled ``declaration`` of ``count`` keys declares."""
    from .spec import parse_spec  # it makes parts

    document = {"ckdisp": 1, "sets": [declaration.entry]}
    part = parse_spec(document, None, None)[declaration.index]
    if len(part) != count:
        raise InvalidKey(
            f"a pickled set of {count} keys, {dict(declaration.entry)}, has {len(part)} in this "
            "version of ckdisp; declare it again, or keep sets with to_json(expand=True)"
        )
    return part


def _from_rows(key_class: type[KernelKey], columns: tuple[str, ...], rows: Array) -> SpacePart:
    return SpacePart(Space(key_class, [Axis(columns, rows)], ()))


def remove(part: Part, other: Part) -> Part:
    """``part`` without the keys of ``other``; ``part`` itself if they share none."""
    if isinstance(part, SpacePart) and isinstance(other, SpacePart):
        return _remove_space(part, other)
    if isinstance(part, SpacePart):
        return _remove_keys(part, list(other))
    lost = _shared(list(part), other)
    return part if not lost.any() else part.select(np.flatnonzero(~lost))


def _shared(keys: list[KernelKey], other: Part) -> Array:
    """Whether each of ``keys`` is in ``other``."""
    if not isinstance(other, SpacePart):
        return np.array([key in other for key in keys], np.bool_)
    found = np.array([type(key) is other.space.key_class for key in keys], np.bool_)
    same = [key for key, is_same in zip(keys, found.tolist(), strict=True) if is_same]
    if same:
        found[found] = other.find(from_keys(other.space.key_class, same))
    return found


def _remove_keys(part: SpacePart, keys: list[KernelKey]) -> Part:
    same = [key for key in keys if type(key) is part.space.key_class]
    if not same:
        return part
    found = part.space.positions(from_keys(part.space.key_class, same))
    mine = np.arange(len(part.space)) if part.positions is None else part.positions
    kept = np.flatnonzero(~np.isin(mine, found[found >= 0]))
    return part.select(kept)


def _remove_space(part: SpacePart, other: SpacePart) -> Part:
    if part.space.disjoint(other.space):
        return part
    whole = part.positions is None and other.positions is None
    if whole and part.space.same_declaration(other.space):
        return part.select(np.zeros(0, np.int64))
    if len(part) > _MAX_ENUMERATED:
        raise InvalidKey(
            f"cannot compare overlapping sets of {len(part)} and {len(other)} keys; "
            "narrow them with where, or sample them"
        )
    kept = [np.zeros(0, np.int64)]
    for positions in chunks(len(part)):
        kept.append(positions[~other.find(part.columns(positions))])
    return part.select(np.concatenate(kept))
