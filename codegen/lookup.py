"""Finding rows in tables of numbers: sorted once, then searched without a Python loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .columns import Array


class RowIndex:
    """Answers which row of a table of distinct rows equals a given one."""

    def __init__(self, columns: Sequence[Array], rows: int) -> None:
        """``columns`` are those of the table; without any, it has at most one row."""
        self._rows = rows
        self._steps: list[tuple[Array, Array]] = []
        code = np.zeros(rows, np.int64)
        for column in columns:
            values, digits = np.unique(column, return_inverse=True)
            # Numbering the partial rows keeps codes below rows x values: they cannot overflow.
            merged = code * len(values) + digits.reshape(-1)
            partial, code = np.unique(merged, return_inverse=True)
            code = code.reshape(-1)
            self._steps.append((values, partial))
        self._order = np.argsort(code, kind="stable")

    def find(self, columns: Sequence[Array], length: int) -> Array:
        """The row that equals each row of ``columns`` (as many as the table's), or -1."""
        if not self._rows:
            return np.full(length, -1, np.int64)
        code = np.zeros(length, np.int64)
        ok = np.ones(length, np.bool_)
        for column, (values, partial) in zip(columns, self._steps, strict=True):
            place = np.minimum(np.searchsorted(values, column), len(values) - 1)
            target = code * len(values) + place
            code = np.minimum(np.searchsorted(partial, target), len(partial) - 1)
            ok &= (values[place] == column) & (partial[code] == target)
        return np.where(ok, self._order[code], -1)
