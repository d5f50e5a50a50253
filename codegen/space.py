"""Spaces: every valid key of a family, as axes and rules, enumerated lazily."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .columns import Array, Columns, decode, encode, from_keys, to_keys
from .enums import unknown
from .errors import InvalidKey
from .factor import Axis, Blocks, factor
from .key import KernelKey
from .lookup import RowIndex
from .rules import Rule
from .schema import columns_of, fields_by_name

_CHUNK = 1 << 12
_LIVE = 1 << 30  # no number of an axis: a column that every table has


def chunks(length: int) -> Iterator[Array]:
    """The positions 0 .. ``length``, as many at a time as keys and columns of them take well."""
    for start in range(0, length, _CHUNK):
        yield np.arange(start, min(start + _CHUNK, length))


def axis(key_class: type[KernelKey], names: str, rows: Sequence[Any]) -> Axis:
    """An axis over the space-separated field or column ``names``.

    With one name ``rows`` holds its values, with several it holds tuples of values.
    """
    fields = names.split()
    columns = tuple(column for name in fields for column in column_names(key_class, name))
    table = rows if len(fields) > 1 else [(row,) for row in rows]
    codes = [
        [code for name, v in zip(fields, row, strict=True) for code in _codes(key_class, name, v)]
        for row in table
    ]
    distinct = list(dict.fromkeys(map(tuple, codes)))
    return Axis(columns, np.array(distinct, np.int32).reshape(len(distinct), len(columns)))


def column_names(key_class: type[KernelKey], name: str) -> tuple[str, ...]:
    """The columns of a field or column; :class:`InvalidKey` for an unknown name."""
    fields = fields_by_name(key_class)
    if name in fields:
        return fields[name].columns()
    columns = columns_of(key_class)
    if name in columns:
        return (name,)
    raise InvalidKey(unknown("field", name, (*fields, *columns)))


def _codes(key_class: type[KernelKey], name: str, value: Any) -> tuple[int, ...]:
    fields = fields_by_name(key_class)
    if name in fields:
        return encode(fields[name], value)
    spec, _ = columns_of(key_class)[name]
    return (spec.component(value, name),)


class Space:
    """A lazily enumerated set of keys: the product of ``axes``, filtered by ``rules``.

    The axes cover every column of the key class once. ``free`` names the columns whose value a
    caller may choose outside the listed ones; rules then decide. The order of the keys is
    deterministic, and ``len`` does not enumerate.
    """

    def __init__(
        self,
        key_class: type[KernelKey],
        axes: Sequence[Axis],
        rules: Sequence[Rule],
        free: frozenset[str] = frozenset(),
    ) -> None:
        have = sorted(column for a in axes for column in a.columns)
        if have != sorted(columns_of(key_class)):
            raise ValueError(f"axes do not cover the columns of {key_class.__name__} once: {have}")
        self.key_class = key_class
        self.axes = tuple(axes)
        self.rules = tuple(rules)
        self.free = free

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, index: int) -> KernelKey:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"index {index} is outside a space of {len(self)} keys")
        return self.keys(np.array([position]))[0]

    def __iter__(self) -> Iterator[KernelKey]:
        for positions in chunks(len(self)):
            yield from self.keys(positions)

    def __contains__(self, key: object) -> bool:
        if type(key) is not self.key_class:
            return False
        return bool(self.positions(from_keys(self.key_class, [key]))[0] >= 0)

    @functools.cached_property
    def _blocks(self) -> Blocks:
        return factor(self.axes, self.rules)

    def keys(self, positions: Array) -> list[KernelKey]:
        """The keys at ``positions``, each in ``range(len(self))``."""
        return to_keys(self.key_class, self.columns(positions))

    def columns(self, positions: Array) -> dict[str, Array]:
        """The columns of the keys at ``positions``."""
        blocks = self._blocks
        block = np.searchsorted(blocks.ends, positions, side="right")
        rest = positions - np.where(block > 0, blocks.ends[block - 1], 0)
        chosen = {i: values[block] for i, values in blocks.pivots.items()}
        for component in reversed(blocks.components):
            group = component.group[block]
            rest, digit = np.divmod(rest, component.counts[group])
            row = component.starts[group] + digit
            chosen.update((i, values[row]) for i, values in component.values.items())
        zeros = np.zeros(len(positions), np.int32)
        return {
            column: a.rows[chosen.get(i, zeros), c]
            for i, a in enumerate(self.axes)
            for c, column in enumerate(a.columns)
        }

    def positions(self, columns: Columns) -> Array:
        """For each row of ``columns`` its position in this space, or -1. Does not enumerate."""
        blocks = self._blocks
        length = len(next(iter(columns.values())))
        if not len(blocks):
            return np.full(length, -1, np.int64)
        by_axis, by_block, by_component = self._indices
        chosen = {
            i: index.find([columns[c] for c in a.columns], length)
            for i, (a, index) in enumerate(zip(self.axes, by_axis, strict=True))
        }
        block = by_block.find([chosen[i] for i in blocks.pivots], length)
        ok = np.logical_and.reduce([block >= 0, *(found >= 0 for found in chosen.values())])
        block = np.where(ok, block, 0)
        offset = np.zeros(length, np.int64)
        for component, index in zip(blocks.components, by_component, strict=True):
            group = component.group[block]
            row = index.find([group, *(chosen[i] for i in component.values)], length)
            ok &= row >= 0
            offset = offset * component.counts[group] + row - component.starts[group]
        begin = np.where(block > 0, blocks.ends[block - 1], 0)
        return np.where(ok, begin + offset, -1)

    @functools.cached_property
    def _indices(self) -> tuple[list[RowIndex], RowIndex, list[RowIndex]]:
        """Row indices of the axes, the blocks and the components."""
        blocks = self._blocks
        components = [
            RowIndex(
                [np.repeat(np.arange(len(c.counts)), c.counts), *c.values.values()],
                int(c.counts.sum()),
            )
            for c in blocks.components
        ]
        axes = [_index(a) for a in self.axes]
        return axes, RowIndex(list(blocks.pivots.values()), len(blocks.ends)), components

    def restrict(
        self, name: str, values: Sequence[Any], fields: Sequence[str] | None = None
    ) -> Space:
        """The keys whose field or column ``name`` has one of ``values``.

        With ``fields``, ``name`` is a shorthand: all of these have the same one of ``values``.
        A value that the space does not list extends it if all its columns are free; otherwise it
        is an :class:`InvalidKey` that names the listed ones.
        """
        if fields is None:
            return self._restrict(axis(self.key_class, name, values), name)
        rows = [(value,) * len(fields) for value in values]
        return self._restrict(axis(self.key_class, " ".join(fields), rows), name)

    def narrow(self, rules: Sequence[Rule]) -> Space:
        """The keys that pass ``rules``, too."""
        return Space(self.key_class, self.axes, (*self.rules, *rules), self.free)

    def _restrict(self, wanted: Axis, name: str) -> Space:
        touched = [i for i, a in enumerate(self.axes) if set(a.columns) & set(wanted.columns)]
        covered = {column for i in touched for column in self.axes[i].columns}
        if covered == set(wanted.columns) <= self.free:
            merged = wanted
        else:
            merged = _product([self.axes[i] for i in touched])
            picked = [merged.columns.index(column) for column in wanted.columns]
            found = _index(wanted).find([merged.rows[:, p] for p in picked], len(merged))
            listed = set(found.tolist())
            absent = [row for i, row in enumerate(wanted.rows.tolist()) if i not in listed]
            free = set(wanted.columns) <= self.free  # a rule would refuse the absent ones
            if absent and not (free and len(absent) < len(wanted)):
                raise InvalidKey(self._absent(name, wanted.columns, absent[0], merged, picked))
            merged = Axis(merged.columns, merged.rows[found >= 0])
        axes = [a for i, a in enumerate(self.axes) if i not in touched]
        axes.insert(touched[0], merged)
        return Space(self.key_class, axes, self.rules, self.free)

    def _absent(
        self, name: str, columns: Sequence[str], row: list[int], merged: Axis, picked: list[int]
    ) -> str:
        known = [self._text(columns, r) for r in np.unique(merged.rows[:, picked], axis=0).tolist()]
        shown = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        return f"{name} {self._text(columns, row)} is not in this space, which has {shown}"

    def _text(self, columns: Sequence[str], codes: Sequence[int]) -> str:
        specs = columns_of(self.key_class)
        values = [decode(specs[c][0], code) for c, code in zip(columns, codes, strict=True)]
        return "x".join(map(str, dict.fromkeys(values) if isinstance(values[0], str) else values))

    def distinct(self, names: Sequence[str]) -> dict[str, Array]:
        """The combinations of the columns ``names`` in the keys; does not enumerate these."""
        blocks = self._blocks
        columns = {i: [c for c in a.columns if c in names] for i, a in enumerate(self.axes)}
        rows, number = {}, {}  # the different rows of an axis, and which of them a value has
        for i, a in enumerate(self.axes):
            picked = a.rows[:, [a.columns.index(c) for c in columns[i]]]
            if columns[i]:
                rows[i], inverse = np.unique(picked, axis=0, return_inverse=True)
                number[i] = inverse.reshape(-1)
        parts = [c for c in blocks.components if number.keys() & c.values.keys()]
        live = np.flatnonzero(np.diff(blocks.ends, prepend=0))
        # Axes by their number; parts by -1, -2, ...: the group of rows that a block has of them.
        table = {i: number[i][v[live]] for i, v in blocks.pivots.items() if i in number}
        table |= {-1 - n: part.group[live] for n, part in enumerate(parts)}
        table[_LIVE] = np.zeros(len(live), np.int64)
        table = _unique(table)
        for n, part in enumerate(parts):
            group = table.pop(-1 - n)
            counts = part.counts[group]
            first = np.repeat(part.starts[group] - (np.cumsum(counts) - counts), counts)
            row = first + np.arange(len(first))
            table = {i: np.repeat(v, counts) for i, v in table.items()}
            table |= {i: number[i][v[row]] for i, v in part.values.items() if i in number}
            table = _unique(table)
        zeros = table.pop(_LIVE)
        return {
            column: rows[i][table.get(i, zeros), c]
            for i in rows
            for c, column in enumerate(columns[i])
        }

    def disjoint(self, other: Space) -> bool:
        """Whether some column alone proves that the two spaces share no key."""
        if self.key_class is not other.key_class:
            return True
        mine, theirs = self.column_values(), other.column_values()
        return any(not set(values) & set(theirs[column]) for column, values in mine.items())

    def column_values(self) -> Mapping[str, list[int]]:
        """The codes that each column takes in the axes, before rules."""
        return {
            column: np.unique(a.rows[:, c]).tolist()
            for a in self.axes
            for c, column in enumerate(a.columns)
        }

    def same_declaration(self, other: Space) -> bool:
        """Whether both are declared by equal axes and rules, and so hold equal keys in order."""
        return (
            self.key_class is other.key_class
            and self.rules == other.rules
            and len(self.axes) == len(other.axes)
            and all(
                a.columns == b.columns and np.array_equal(a.rows, b.rows)
                for a, b in zip(self.axes, other.axes, strict=True)
            )
        )

    def why_empty(self, tries: int = 4096) -> str:
        """For an empty space: which rules refuse everything, and the reason of the nearest miss."""
        sizes = [len(a) for a in self.axes]
        total = math.prod(sizes)
        if not total:
            return "none is listed"
        drawn = np.random.default_rng(0)
        picks = (
            np.unravel_index(np.arange(total), sizes)
            if total <= tries
            else tuple(drawn.integers(0, size, tries) for size in sizes)
        )
        columns = {
            column: a.rows[pick, c]
            for a, pick in zip(self.axes, picks, strict=True)
            for c, column in enumerate(a.columns)
        }
        shown = min(total, tries)
        broken = {rule: ~np.broadcast_to(rule.valid(columns), (shown,)) for rule in self.rules}
        ranked = sorted(broken, key=lambda rule: -int(broken[rule].sum()))
        counts = [f"{r.name} ({int(broken[r].sum())})" for r in ranked if broken[r].any()]
        nearest = int(np.argmin(np.sum(list(broken.values()), axis=0)))
        key = to_keys(self.key_class, {c: v[nearest : nearest + 1] for c, v in columns.items()})[0]
        reasons = [f"{rule.name}: {rule.reason(key)}" for rule in ranked if broken[rule][nearest]]
        return (
            f"of {shown} combinations tried, the rules refuse: {', '.join(counts[:6])}. "
            f"Nearest miss: {'; '.join(reasons)}"
        )


def _unique(table: Mapping[int, Array]) -> dict[int, Array]:
    """The different rows."""
    rows = np.unique(np.stack([v.astype(np.int64) for v in table.values()], axis=1), axis=0)
    return {i: rows[:, c] for c, i in enumerate(table)}


def _index(a: Axis) -> RowIndex:
    return RowIndex([a.rows[:, i] for i in range(len(a.columns))], len(a))


def _product(axes: Sequence[Axis]) -> Axis:
    picks = np.unravel_index(np.arange(math.prod(len(a) for a in axes)), [len(a) for a in axes])
    rows = [a.rows[pick] for a, pick in zip(axes, picks, strict=True)]
    return Axis(tuple(c for a in axes for c in a.columns), np.concatenate(rows, axis=1))
