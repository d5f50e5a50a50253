"""What goes to standard output: JSON for scripts, text and tables for people and pipes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")

_CHUNK = 4096
_GAP = "  "
_LONG = 24  # longest cell that shares a line with others where a terminal is narrow


def print_json(value: Any) -> None:
    """``value`` as indented JSON on standard output."""
    click.echo(json.dumps(value, indent=1, allow_nan=False))


def print_lines(lines: Iterable[str]) -> None:
    """Many lines, written in chunks: a line at a time would flush a million times."""
    rest = iter(lines)
    while chunk := list(islice(rest, _CHUNK)):
        click.echo("\n".join(chunk))


def is_terminal(*, err: bool = False) -> bool:
    """Whether a person looks at standard output, or at standard error."""
    stream = sys.stderr if err else sys.stdout
    return stream is not None and stream.isatty()


def terminal_width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size().columns


def plural(count: int, one: str, many: str = "") -> str:
    """``1 kernel``, ``3 kernels``; ``many`` is for nouns that take no ``s``."""
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"


def print_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    colours: Sequence[str | None] | None = None,
) -> None:
    """A table with the columns named in ``right`` aligned to the right, one colour for each row.

    Cells are never cut. Where a terminal is too narrow for the table, long cells get lines of
    their own below the others.
    """
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    justify = [str.rjust if h in right else str.ljust for h in headers]

    def line(cells: Sequence[str]) -> str:
        padded = (put(cell, w) for put, cell, w in zip(justify, cells, widths, strict=True))
        return _GAP.join(padded).rstrip()

    narrow = is_terminal() and len(_GAP.join(w * " " for w in widths)) > terminal_width()
    long = [narrow and width > _LONG for width in widths]
    lines = [] if narrow else [bold(line(headers))]
    for index, row in enumerate(rows):
        texts = _stacked(headers, row, long) if narrow else [line(row)]
        name = colours[index] if colours else None
        lines += [colour(text, name) if name else text for text in texts]
    print_lines(lines)


def _stacked(headers: Sequence[str], row: Sequence[str], long: Sequence[bool]) -> list[str]:
    """One row on several lines: the short cells with their names, then each long one."""
    cells = list(zip(headers, row, long, strict=True))
    short = [f"{header} {cell}" for header, cell, own in cells if cell not in ("", "-") and not own]
    return [_GAP.join(short), *(f"    {cell}" for _, cell, own in cells if own and cell)]


def bold(text: str) -> str:
    """``text`` in bold; click removes the codes where standard output is no terminal."""
    return click.style(text, bold=True)


def colour(text: str, name: str) -> str:
    """``text`` in a colour; click removes the codes where standard output is no terminal."""
    return click.style(text, fg=name)


def human_bytes(size: int) -> str:
    """``size`` in a unit that reads well: ``1.5 MB``."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def human_time(seconds: float) -> str:
    """``seconds`` with three digits and a unit: ``12.3 us``."""
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"
