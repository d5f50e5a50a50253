"""``ckdisp inspect``: the kernels in compiled AMD code."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from .output import bold, json_option, plural, print_json, print_table

if TYPE_CHECKING:
    from ..code_objects import KernelReport

_RIGHT = (
    *("VGPR", "AGPR", "SGPR", "LDS", "scratch", "spills", "block", "args", "waves", "blocks"),
    *("matrix", "instr", "code"),
)


@click.command("inspect")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--arch", help="Only kernels for this arch.")
@click.option(
    "--kernel", "pattern", metavar="GLOB", help="Only kernels whose name or symbol matches."
)
@json_option
def inspect_command(
    files: tuple[str, ...], arch: str | None, pattern: str | None, as_json: bool
) -> None:
    """Show the kernels in libraries and objects for AMD GPUs: registers, memory, instructions.

    FILES are libraries, objects, archives, bundles and code objects, compressed ones too.

    VGPR includes AGPR from gfx90a on. LDS, scratch, args and code are bytes. waves is how many
    waves fit on a SIMD, blocks how many blocks fit on a compute unit (gfx11 and later: on the
    pair of units that a block may use), and limit what keeps it from being more. matrix is the
    count of matrix instructions in the code.
    """
    from ..code_objects import inspect
    from ..codegen.errors import KernelNotFound

    reports = [report for file in files for report in inspect(file)]
    chosen = [r for r in reports if _wanted(r, arch, pattern)]
    if not chosen and (arch or pattern):
        archs = ", ".join(sorted({r.arch for r in reports})) or "none"
        raise KernelNotFound(
            f"none of {plural(len(reports), 'kernel')} matches; they are for: {archs}. "
            "Run it without --arch and --kernel to see their names"
        )
    if as_json:
        print_json([report.to_dict() for report in chosen])
        return
    for file in files:
        if len(files) > 1:
            click.echo(bold(file))
        _print([report for report in chosen if report.file == file])
    for reason in sorted({r.unknown for r in chosen if r.unknown}):
        click.echo(f"note: instructions are not counted: {reason}", err=True)


def _wanted(report: KernelReport, arch: str | None, pattern: str | None) -> bool:
    if arch and arch not in (report.arch, report.arch.partition(":")[0]):
        return False
    names = (report.name, report.symbol)
    return not pattern or any(fnmatchcase(name, pattern) for name in names)


def _print(reports: list[KernelReport]) -> None:
    from ..code_objects.check import variant_text

    if not reports:
        click.echo("no kernels")
        return
    rows = [
        (
            report.arch,
            variant_text(report),
            str(report.vgpr),
            str(report.agpr),
            str(report.sgpr),
            str(report.lds_bytes),
            str(report.scratch_bytes),
            str(report.vgpr_spills + report.sgpr_spills),
            str(report.block_size),
            str(report.argument_bytes),
            _known(report.waves_per_simd),
            _known(report.blocks_per_cu),
            report.limited_by or "-",
            _known(report.matrix_instructions),
            _known(report.instructions),
            str(report.code_bytes),
            f"{report.where}: {report.name}" if report.where else report.name,
        )
        for report in reports
    ]
    slow = [r.scratch_bytes or r.vgpr_spills or r.sgpr_spills for r in reports]
    print_table(
        ("arch", "variant", *_RIGHT[:10], "limit", *_RIGHT[10:], "kernel"),
        rows,
        right=_RIGHT,
        colours=["yellow" if found else None for found in slow],
    )


def _known(figure: int | None) -> str:
    return "-" if figure is None else str(figure)
