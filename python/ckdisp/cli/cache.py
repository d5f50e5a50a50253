"""``ckdisp cache``: the compiled kernels that are kept for the next time."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from .app import EPILOG
from .output import human_bytes, json_option, plural, print_json, print_table
from .params import QuantityType

if TYPE_CHECKING:
    from ..jit.cache import CacheEntry

_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@click.group("cache", epilog=EPILOG)
def cache_command() -> None:
    """Look at and clean the cache of compiled kernels.

    CKDISP_CACHE_DIR names its folder.
    """


def _command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    return cache_command.command(name, epilog=EPILOG)


@_command("dir")
def dir_command() -> None:
    """Print the folder of the cache."""
    from ..jit.location import cache_dir

    click.echo(cache_dir())


@_command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List what is in the cache."""
    from ..jit import cache

    entries = cache.ls()
    stats = cache.stats()
    if as_json:
        print_json(
            {"root": str(stats.root), "size": stats.size, "entries": [_to_dict(e) for e in entries]}
        )
        return
    if entries:
        _print_entries(entries)
        click.echo()
    click.echo(
        f"{stats.root}: {plural(stats.objects, 'object')}, "
        f"{plural(stats.libraries, 'library', 'libraries')}, "
        f"{plural(stats.headers, 'precompiled header')}, {human_bytes(stats.size)}"
    )


@_command("verify")
@click.option("--remove", is_flag=True, help="Delete the damaged entries.")
@json_option
def verify_command(remove: bool, as_json: bool) -> None:
    """Check that every entry holds what was stored, and that libraries can be loaded.

    Damaged entries are never used, only built again. The exit code is 1 if there are any.
    """
    from ..jit import cache

    checked = len(cache.ls())
    damaged = cache.verify(remove=remove)
    if as_json:
        print_json(
            {"checked": checked, "removed": remove, "damaged": [_to_dict(e) for e in damaged]}
        )
    else:
        if damaged:
            _print_entries(damaged)
            click.echo()
        what = "removed" if remove else "they can be deleted with --remove"
        end = f"{len(damaged)} damaged; {what}" if damaged else "all are whole"
        click.echo(f"{plural(checked, 'entry', 'entries')} checked, {end}")
    if damaged:
        sys.exit(1)


@_command("prune")
@click.option(
    "--max-size",
    type=QuantityType("SIZE", _SIZES, "500MB"),
    help="Delete the longest unused entries until this much is left, e.g. 500MB.",
)
@click.option(
    "--max-age",
    type=QuantityType("AGE", _AGES, "30d"),
    help="Delete entries that were not used for this long, e.g. 30d.",
)
@json_option
def prune_command(max_size: float | None, max_age: float | None, as_json: bool) -> None:
    """Delete what failed builds left, and old entries if a limit is given."""
    from ..jit import cache

    gone = cache.prune(None if max_size is None else int(max_size), max_age)
    size = sum(e.size for e in gone)
    if as_json:
        print_json({"size": size, "removed": [_to_dict(e) for e in gone]})
    else:
        click.echo(f"{plural(len(gone), 'entry', 'entries')} deleted, {human_bytes(size)}")


@_command("clear")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def clear_command(yes: bool, as_json: bool) -> None:
    """Delete everything in the cache, but for what is being built.

    Asks first on a terminal; elsewhere --yes is needed.
    """
    from ..jit import cache
    from ..jit.location import cache_dir

    if not yes:
        if sys.stdin is None or not sys.stdin.isatty():
            raise click.UsageError("clearing the cache needs --yes where nobody can be asked")
        if not click.confirm(f"Delete all kernels in {cache_dir()}?", err=True):
            click.echo("nothing deleted")
            sys.exit(1)
    gone = cache.clear()
    if as_json:
        print_json({"root": str(gone.root), "size": gone.size, "building": gone.building})
    else:
        left = f"; {plural(gone.building, 'build')} left alone" if gone.building else ""
        click.echo(f"{gone.root}: {human_bytes(gone.size)} deleted{left}")


def _print_entries(entries: Sequence[CacheEntry]) -> None:
    print_table(
        ("kind", "size", "used", "label"),
        [(e.kind, human_bytes(e.size), _day(e.used), e.label) for e in entries],
        right=("size",),
    )


def _day(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).date().isoformat()


def _to_dict(entry: CacheEntry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "label": entry.label,
        "folder": str(entry.folder),
        "size": entry.size,
        "used": entry.used,
    }
