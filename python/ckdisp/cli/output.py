"""What goes to standard output: JSON for scripts, plain text for pipes, tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import click

from .app import colour_allowed

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")

_CHUNK = 4096


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


def plural(count: int, one: str, many: str = "") -> str:
    """``1 kernel``, ``3 kernels``; ``many`` is for nouns that take no ``s``."""
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"


def print_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    styles: Sequence[str] | None = None,
) -> None:
    """A table with the columns named in ``right`` aligned to the right.

    On a terminal it is fitted to the width and each row takes its colour from ``styles``;
    elsewhere columns are padded with spaces and never cut or wrapped.
    """
    if is_terminal():
        _rich_table(headers, rows, right, styles)
        return
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    justify = [str.rjust if h in right else str.ljust for h in headers]
    print_lines(
        "  ".join(
            put(cell, width) for put, cell, width in zip(justify, row, widths, strict=True)
        ).rstrip()
        for row in (headers, *rows)
    )


def _rich_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[str],
    styles: Sequence[str] | None,
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(
            header,
            justify="right" if header in right else "left",
            overflow="fold",
            no_wrap=header in right,
        )
    for index, row in enumerate(rows):
        table.add_row(*map(Text, row), style=styles[index] if styles else None)
    Console(no_color=not colour_allowed(), highlight=False).print(table)


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
