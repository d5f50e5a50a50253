"""Factors a constrained product of axes into blocks of independent components.

Rules connect the axes that they read. Fixing a few *pivot* axes (say, dtype and pipeline) leaves
components that no rule connects, so a block is a plain product of small tables: counting is a
multiplication and memory is that of the tables, not of the product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .columns import Array
from .rules import Rule

_GROUP = -1  # the key of the group numbers in tables keyed by axis
_PART = 1 << 16  # rows that rules see at once, which bounds the memory they take


@dataclass(frozen=True)
class Axis:
    """Columns that vary together: ``rows`` is (values, columns), distinct rows of codes."""

    columns: tuple[str, ...]
    rows: Array

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Component:
    """A table of valid combinations of some axes, grouped by the pivot combinations it depends on.

    ``values`` maps an axis to its value in each row. Rows of group g are
    ``starts[g] : starts[g] + counts[g]``; ``group`` is the group of each block.
    """

    values: dict[int, Array]
    starts: Array
    counts: Array
    group: Array


@dataclass(frozen=True)
class Blocks:
    """All valid combinations: block b has every product of its components' rows."""

    pivots: dict[int, Array]
    components: tuple[Component, ...]
    ends: Array  # running total of the block sizes

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0


def factor(axes: Sequence[Axis], rules: Sequence[Rule]) -> Blocks:
    """The valid combinations of ``axes`` under ``rules``."""
    axis_of = {column: i for i, axis in enumerate(axes) for column in axis.columns}
    sizes = [len(axis) for axis in axes]
    if 0 in sizes:
        return Blocks({}, (), np.zeros(0, np.int64))
    varying = [i for i, size in enumerate(sizes) if size > 1]
    links = [
        (rule, frozenset(axis_of[c] for c in rule.columns).intersection(varying)) for rule in rules
    ]
    reads = [used for _, used in links]
    pivots = _choose_pivots(varying, reads, sizes)

    table = _join(axes, axis_of, links, {_GROUP: np.zeros(1, np.int32)}, pivots)
    blocks = len(table.pop(_GROUP))
    total = np.ones(blocks, np.int64)
    components = []
    for members, needs in _components(varying, pivots, reads):
        seen = np.stack([table[i] for i in needs] or [np.zeros(blocks, np.int32)], axis=1)
        distinct, group = np.unique(seen, axis=0, return_inverse=True)
        start = {axis: distinct[:, column] for column, axis in enumerate(needs)}
        start[_GROUP] = np.arange(len(distinct), dtype=np.int32)
        joined = _join(axes, axis_of, links, start, members)
        counts = np.bincount(joined[_GROUP], minlength=len(distinct)).astype(np.int64)
        values = {i: joined[i] for i in members}
        component = Component(values, np.cumsum(counts) - counts, counts, group.reshape(-1))
        components.append(component)
        total *= counts[component.group]
    return Blocks(table, tuple(components), np.cumsum(total))


def _components(
    varying: Sequence[int], pivots: Sequence[int], reads: Sequence[frozenset[int]]
) -> list[tuple[list[int], list[int]]]:
    """Axes that rules connect once the pivots are fixed, each with the pivots it depends on."""
    chosen = frozenset(pivots)
    parent = {i: i for i in varying if i not in chosen}

    def root(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    for used in reads:
        free = sorted(used - chosen)
        for other in free[1:]:
            first, second = sorted((root(free[0]), root(other)))
            parent[second] = first
    members: dict[int, list[int]] = {}
    for i in parent:
        members.setdefault(root(i), []).append(i)
    found = []
    for group in members.values():
        needs = {p for used in reads if used & set(group) for p in used & chosen}
        found.append((group, sorted(needs)))
    return found


def _choose_pivots(
    varying: Sequence[int], reads: Sequence[frozenset[int]], sizes: Sequence[int]
) -> list[int]:
    """The axes whose fixing most lowers the number of rows that tables can need.

    Axes are taken greedily, to the last: it may take several until a table falls apart.
    """

    def cost(pivots: list[int]) -> int:
        tables = sum(
            math.prod(sizes[i] for i in (*members, *needs))
            for members, needs in _components(varying, pivots, reads)
        )
        return tables + math.prod(sizes[i] for i in pivots)

    pivots: list[int] = []
    best = (cost(pivots), pivots)
    while len(pivots) < len(varying):
        trials = [(cost([*pivots, i]), i) for i in varying if i not in pivots]
        lowest, chosen = min(trials)
        pivots = [*pivots, chosen]
        best = min(best, (lowest, pivots), key=lambda found: found[0])
    return sorted(best[1])


def _join(
    axes: Sequence[Axis],
    axis_of: Mapping[str, int],
    links: Sequence[tuple[Rule, frozenset[int]]],
    table: dict[int, Array],
    wanted: Sequence[int],
) -> dict[int, Array]:
    """``table`` (axis -> value number of each row) times the ``wanted`` axes, valid rows only.

    Axes are joined one by one, and each rule is applied as soon as all of its axes are present.
    """
    pending = [(rule, used) for rule, used in links if used <= {*table, *wanted}]

    def parts(table: dict[int, Array]) -> list[slice]:
        rows = len(table[_GROUP])
        return [slice(start, start + _PART) for start in range(0, max(rows, 1), _PART)]

    def valid(rule: Rule, table: dict[int, Array], part: slice) -> Array:
        columns = {}
        for name in rule.columns:
            axis = axes[axis_of[name]]
            rows = table[axis_of[name]][part] if len(axis) > 1 else slice(0, 1)
            columns[name] = axis.rows[rows, axis.columns.index(name)]
        return np.broadcast_to(rule.valid(columns), table[_GROUP][part].shape)

    def narrow(table: dict[int, Array]) -> dict[int, Array]:
        for link in [link for link in pending if link[1] <= table.keys()]:
            pending.remove(link)
            mask = np.concatenate([valid(link[0], table, part) for part in parts(table)])
            if not mask.all():
                table = {i: values[mask] for i, values in table.items()}
        return table

    table = narrow(table)
    left = list(wanted)
    while left:
        ranks = {
            i: (-sum(used <= {*table, i} for _, used in pending), len(axes[i]), i) for i in left
        }
        axis = min(left, key=ranks.__getitem__)
        left.remove(axis)
        values = np.arange(len(axes[axis]), dtype=np.min_scalar_type(len(axes[axis])))
        alone = narrow({_GROUP: values, axis: values})[axis]
        rows = len(table[_GROUP])
        table = {i: np.repeat(v, len(alone)) for i, v in table.items()}
        table[axis] = np.tile(alone, rows)
        table = narrow(table)
    return table
