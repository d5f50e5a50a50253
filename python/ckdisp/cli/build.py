"""``ckdisp generate`` and ``ckdisp build``: from a declaration to a library."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import click

from .output import is_terminal, json_option, plural, print_json
from .params import FolderType, NamesType
from .selection import Selection, set_options

EMITTERS = ("ninja", "cmake", "make")
_SHOWN = 5


@click.command("generate")
@set_options
@click.option(
    "--out",
    type=FolderType(),
    required=True,
    help="Folder to write. Files that ckdisp did not write are never touched.",
)
@click.option(
    "--emit",
    type=NamesType("KIND,KIND", "build file", EMITTERS),
    default="ninja,cmake,make",
    show_default=True,
    help="Build files to write.",
)
@click.option(
    "--name", default="ckdisp_kernels", show_default=True, help="Name of the library and header."
)
@click.option(
    "--group",
    type=click.Choice(["tile"]),
    help="Compile GPU kernels that share a tile together: less work in all, more for one kernel.",
)
@click.option(
    "--missing",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="Where there is no HIP compiler: fail, or go on without the GPU kernels.",
)
@json_option
def generate_command(
    selection: Selection,
    out: Path,
    emit: tuple[str, ...],
    name: str,
    group: str | None,
    missing: str,
    as_json: bool,
) -> None:
    """Write the sources and build files of a kernel set.

    Only files whose content changes are touched; units of kernels that left the set are removed.
    Build the folder with `ckdisp build`, ninja, CMake or make. An --arch may have target features,
    such as gfx942:xnack-, for which its kernels are then compiled.
    """
    from ..codegen.generate import generate

    kernels = selection.kernel_set()
    result = generate(
        kernels, out, emit, name=name, group=group, archs=selection.arches, missing=missing
    )
    count = len(kernels) - len(result.left_out)
    if as_json:
        print_json(
            {
                "folder": str(result.folder),
                "library": result.library,
                "kernels": count,
                "written": list(result.written),
                "unchanged": list(result.unchanged),
                "removed": list(result.removed),
                "left_out": [{"name": k.name, "reason": k.reason} for k in result.left_out],
            }
        )
        return
    if result.left_out:
        click.echo(f"left out: {plural(len(result.left_out), 'kernel')}", err=True)
        for kernel in result.left_out[:_SHOWN]:
            click.echo(f"  {kernel.name}", err=True)
        click.echo(f"  {result.left_out[0].reason}", err=True)
    click.echo(
        f"{result.folder}: {plural(count, 'kernel')}; {len(result.written)} files written, "
        f"{len(result.unchanged)} unchanged, {len(result.removed)} removed"
    )


@click.command("build")
@click.argument("folder", metavar="DIR", type=FolderType())
@click.option("--jobs", "-j", type=click.IntRange(1, 4096), help="Compile jobs at once.")
@click.option("--verbose", "-v", is_flag=True, help="A line for every file that is compiled.")
@json_option
def build_command(folder: Path, jobs: int | None, verbose: bool, as_json: bool) -> None:
    """Build a folder written by `ckdisp generate`.

    The last line is the path of the library. Only what changed is compiled. What the families take
    of it is told for each arch, and a library over CKDISP_MAX_LIBRARY_MB is warned of.
    """
    from ..codegen.build import build
    from ..codegen.emit.manifest import read_manifest
    from ..codegen.sizes import report, warning

    start = time.perf_counter()
    with _progress(folder, verbose) as steps:
        library = build(folder, jobs=jobs, progress=steps)
    seconds = time.perf_counter() - start
    path = os.path.abspath(library)
    manifest = read_manifest(folder)
    assert manifest is not None  # of the folder that was just built
    found = report(manifest, library, folder)
    if said := warning(path, found.library):
        click.echo(f"warning: {said}", err=True)
    if as_json:
        print_json(
            {
                "library": path,
                "steps": steps.total,
                "seconds": seconds,
                "bytes": found.library,
                "sizes": [asdict(size) for size in found.sizes],
            }
        )
        return
    for line in found.lines() if steps.total else ():
        click.echo(line, err=True)
    click.echo(f"{plural(steps.total, 'step')} in {seconds:.1f} s" if steps.total else "no change")
    click.echo(path)


class _Steps:
    """Counts the commands of a build and passes them on."""

    def __init__(self, show: Callable[[int, int, str], None]) -> None:
        self.total = 0
        self._show = show

    def __call__(self, done: int, total: int, what: str) -> None:
        self.total = total
        self._show(done, total, what)


@contextlib.contextmanager
def _progress(folder: Path, verbose: bool) -> Iterator[_Steps]:
    """On standard error: a line for each command if asked for, else a bar on a terminal."""
    from ..codegen.emit.manifest import read_manifest
    from ..jit.progress import reporting

    if verbose:
        yield _Steps(lambda done, total, what: click.echo(f"[{done}/{total}] {what}", err=True))
        return
    manifest = read_manifest(folder)
    show_bar = is_terminal(err=True) and manifest is not None
    with reporting(show_bar, len(manifest["kernels"]) if manifest else 0, 0) as show:
        yield _Steps(show)
