"""``ckdisp verify``: run kernels on drawn problems and compare them with the references."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .output import json_option, plural, print_json

if TYPE_CHECKING:
    from ..verification import Row


@click.command("verify")
@click.argument("libraries", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--device", help="Such as hip:0; default: the first one of each kernel's arch.")
@click.option(
    "--cases", type=click.IntRange(1), default=8, show_default=True, help="Problems per kernel."
)
@click.option("--sample", type=click.IntRange(1), help="Run this many kernels, not all.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of what is drawn."
)
@json_option
def verify_command(
    libraries: tuple[Path, ...],
    device: str | None,
    cases: int,
    sample: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Run kernels on this machine and compare them with references.

    LIBRARIES are kernel libraries, or folders that `ckdisp build` has built; without any, the
    prebuilt kernels are run. Each kernel gets problems drawn from its own key, twice, in memory of
    exact size between guards. Kernels of GEMM and of convolutions are run; attention is not yet.
    Exit code 1 if any result is wrong.
    """
    from .. import Registry
    from ..gpu import devices
    from ..verification import verify
    from ..verification.place import Place

    paths = [_library(path) for path in libraries]
    registry = Registry.load(paths[0]) if paths else Registry.prebuilt()
    for path in paths[1:]:
        registry.add(path)
    show = None if as_json else _show
    if not as_json:
        for place in (Place(None), *map(Place, devices())):
            click.echo(f"here: {place}")
    rows = verify(registry, device=device, cases=cases, sample=sample, seed=seed, report=show)
    wrong = [row for row in rows if row.wrong]
    if as_json:
        places = [str(Place(None)), *(str(Place(d)) for d in devices())]
        print_json({"places": places, "seed": seed, "kernels": [asdict(row) for row in rows]})
    else:
        total = {name: sum(getattr(r, name) for r in rows) for name in ("right", "refused")}
        skipped = sum(bool(row.unverified) for row in rows)
        click.echo(
            f"{plural(len(rows), 'kernel')}, {skipped} of them not run; {total['right']} cases "
            f"right, {total['refused']} refused, {sum(r.wrong for r in rows)} wrong"
        )
    if wrong:
        raise SystemExit(1)


def _library(path: Path) -> Path:
    """The library of a folder that was built, or the file itself."""
    if not path.is_dir():
        return path
    from ..codegen.emit.manifest import read_manifest
    from ..codegen.errors import LibraryError

    manifest = read_manifest(path)
    built = path / str(manifest["library"]) if manifest else None
    if built is None or not built.exists():
        raise LibraryError(f"{path} holds no library; run `ckdisp build {path}` first")
    return built


def _show(row: Row) -> None:
    if row.unverified:
        click.echo(f"not run  {row.kernel}: {row.unverified}")
        return
    word = "WRONG" if row.wrong else "right" if row.right else "refused"
    counts = f"{row.right} right, {row.refused} refused, {row.wrong} wrong"
    click.echo(f"{word:8} {row.kernel}: {counts}")
    for text in row.differences[:3] or ([] if row.right else row.refusals[:1]):
        click.echo(f"         {text}")


__all__ = ["verify_command"]
