"""``ckdisp arch``: the table of hardware facts."""

from __future__ import annotations

import click

from ..codegen.arch import Arch, arch, arches
from .output import bold, json_option, print_json, print_table


@click.command("arch")
@click.argument("name", required=False)
@json_option
def arch_command(name: str | None, as_json: bool) -> None:
    """Show the known architectures, or the facts of one.

    NAME may carry target features: gfx942:sramecc+:xnack-.
    """
    if name is None:
        _list(as_json)
    else:
        _show(arch(name), as_json)


def _list(as_json: bool) -> None:
    if as_json:
        print_json([found.to_dict() for found in arches().values()])
        return
    print_table(
        ("name", "kind", "provider", "family", "wave", "LDS", "vector"),
        [
            (
                a.name,
                a.kind,
                a.provider,
                a.family,
                str(a.wave_size or "-"),
                f"{a.lds_bytes // 1024} KiB" if a.lds_bytes else "-",
                f"{a.vector_bytes} B" if a.vector_bytes else "-",
            )
            for a in arches().values()
        ],
        right=("wave", "LDS", "vector"),
    )


def _show(found: Arch, as_json: bool) -> None:
    if as_json:
        print_json(found.to_dict())
        return
    facts = {
        "kind": found.kind,
        "provider": found.provider,
        "family": found.family,
        "wave size": str(found.wave_size or ""),
        "LDS": f"{found.lds_bytes} bytes" if found.lds_bytes else "",
        "vector": f"{found.vector_bytes} bytes" if found.vector_bytes else "",
        "vector registers": str(found.vector_registers or ""),
        "features": " ".join(found.features),
        "compile flags": " ".join(found.compile_flags),
        "implies": " ".join(found.implies),
        "waves": _triples(found.waves),
    }
    click.echo(bold(found.name))
    for label, text in facts.items():
        if text:
            click.echo(f"  {label + ':':<18}{text}")
    kinds = {
        "warp tiles" if found.is_gpu else "register tiles": found.warp_tiles,
        "preshuffle warp tiles": found.preshuffle_warp_tiles,
    }
    for label, tiles in kinds.items():
        if tiles:
            click.echo(f"  {label}:")
        for types, shapes in tiles.items():
            click.echo(f"    {types + ':':<20}{_triples(shapes)}")


def _triples(shapes: tuple[tuple[int, int, int], ...]) -> str:
    return " ".join("x".join(map(str, shape)) for shape in shapes)
