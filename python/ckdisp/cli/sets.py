"""``ckdisp list`` and ``ckdisp count``: what a declaration or a library holds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import click

from ..codegen.filter import compile_filter
from ..codegen.key import KernelKey
from .output import json_option, print_lines
from .selection import Conditions, Selection, set_options


@click.command("count")
@set_options
@json_option
def count_command(selection: Selection, as_json: bool) -> None:
    """Count the kernels of a set without making them."""
    count = len(selection.kernel_set())
    click.echo(json.dumps({"count": count}) if as_json else count)


@click.command("list")
@set_options
@click.option(
    "--library",
    type=click.Path(path_type=Path),
    help="List the kernels of this built library; FAMILY may be its path just as well.",
)
@click.option("--prebuilt", is_flag=True, help="List the prebuilt kernels for this machine.")
@click.option("--limit", type=click.IntRange(0), help="At most this many kernels.")
@json_option
def list_command(
    selection: Selection, library: Path | None, prebuilt: bool, limit: int | None, as_json: bool
) -> None:
    """List the kernels of a set, a library or the prebuilt kernels.

    Prints one canonical name a line; with --json the keys with their names. FAMILY, --arch,
    --where and --filter narrow what a library holds, too.
    """
    if library is None and not prebuilt and selection.family and _is_path(selection.family):
        library = Path(selection.family)
        selection = replace(selection, family=None)
    keys: Iterable[KernelKey]
    if library is None and not prebuilt:
        keys = selection.kernel_set()
        if not as_json:
            print_lines(islice(keys.iter_names(), limit))
            return
    else:
        keys = _registered(selection, library)
    print_keys(islice(keys, limit), as_json)


def _is_path(text: str) -> bool:
    return os.sep in text or text.endswith((".so", ".dylib"))


def _registered(selection: Selection, library: Path | None) -> Iterator[KernelKey]:
    """The keys of a library, or of the prebuilt kernels, that the options accept."""
    from .. import Registry

    declared = (selection.spec, selection.preset, selection.tiles, selection.receipt)
    if any(declared) or selection.sweep:
        raise click.UsageError(
            "--spec, --preset, --tiles, --receipt and --sweep declare sets; a library is built"
        )
    registry = Registry.prebuilt() if library is None else Registry.load(library)
    families = [selection.family] if selection.family else []
    accepts = Conditions(families, selection.where, selection.arches)
    keep = compile_filter(selection.keep) if selection.keep else None
    keys = (kernel.key for kernel in registry.kernels() if accepts(kernel.key))
    return filter(keep, keys) if keep else keys


def print_keys(keys: Iterable[KernelKey], as_json: bool) -> None:
    """Names, or keys as a JSON array with one key a line; never all of them in memory."""
    if not as_json:
        print_lines(key.name for key in keys)
        return
    print_lines(_json_lines(keys))


def _json_lines(keys: Iterable[KernelKey]) -> Iterator[str]:
    yield "["
    previous = ""
    for key in keys:
        if previous:
            yield f"{previous},"
        previous = " " + json.dumps({"name": key.name, **key.to_dict()})
    if previous:
        yield previous
    yield "]"
