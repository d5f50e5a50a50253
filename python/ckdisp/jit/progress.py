"""Showing how a build gets on: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

Callback = Callable[[int, int, str], None]
_LINE_SECONDS = 10.0


@contextlib.contextmanager
def reporting(progress: bool | Callback | None, kernels: int, cached: int) -> Iterator[Callback]:
    """A callback ``(done, total, what)`` for the commands of one build.

    ``progress`` is ``True`` or ``None`` (a bar if stderr is a terminal, else plain lines),
    ``False`` (nothing), or the callback itself.
    """
    if callable(progress):
        yield progress
    elif progress is False:
        yield lambda done, total, what: None
    elif sys.stderr is not None and sys.stderr.isatty():
        with _bar(kernels, cached) as callback:
            yield callback
    else:
        with _lines(kernels, cached) as callback:
            yield callback


def _title(kernels: int, cached: int) -> str:
    return f"building {kernels} kernels" + (f" ({cached} cached)" if cached else "")


@contextlib.contextmanager
def _bar(kernels: int, cached: int) -> Iterator[Callback]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(_title(kernels, cached), total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total)


@contextlib.contextmanager
def _lines(kernels: int, cached: int) -> Iterator[Callback]:
    start = shown = time.monotonic()
    print(f"ckdisp: {_title(kernels, cached)}", file=sys.stderr, flush=True)

    def line(done: int, total: int, what: str) -> None:
        nonlocal shown
        now = time.monotonic()
        if done < total and now - shown >= _LINE_SECONDS:
            shown = now
            print(f"ckdisp: {done} of {total}", file=sys.stderr, flush=True)

    yield line
    seconds = time.monotonic() - start
    print(f"ckdisp: built in {seconds:.1f} s", file=sys.stderr, flush=True)
