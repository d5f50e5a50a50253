"""``ckdisp select`` and ``ckdisp explain``: which kernel runs a problem, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .output import bold, json_option, print_json, print_table
from .problems import ProblemOptions, problem_options
from .sources import Source, source_options

if TYPE_CHECKING:
    from .. import Candidate


arch_option = click.option(
    "--arch",
    metavar="ARCH",
    help="Answer for this architecture, e.g. gfx942, whether it is here or not.",
)


@click.command("select")
@problem_options
@source_options
@arch_option
@json_option
def select_command(
    problem: ProblemOptions, source: Source, arch: str | None, as_json: bool
) -> None:
    """Say which kernel runs a problem.

    The exit code is 1 if no kernel supports it; `ckdisp explain` says why.
    """
    dispatcher = source.dispatcher(problem, arch)
    kernel = dispatcher.select(problem.make())
    if as_json:
        print_json(
            {"problem": problem.to_dict(), "kernel": kernel.name, "key": kernel.key.to_dict()}
        )
    else:
        click.echo(kernel.name)


@click.command("explain")
@problem_options
@source_options
@arch_option
@json_option
def explain_command(
    problem: ProblemOptions, source: Source, arch: str | None, as_json: bool
) -> None:
    """Show every candidate kernel for a problem and why it loses or wins.

    Costs are estimates of which only the order matters. Where `ckdisp select` finds no kernel,
    none is chosen: its error follows, and the exit code is 1.
    """
    dispatcher, asked = source.dispatcher(problem, arch), problem.make()
    candidates = dispatcher.explain(asked)
    if as_json:
        print_json({"problem": problem.to_dict(), "candidates": [_to_dict(c) for c in candidates]})
    else:
        click.echo(bold(str(problem)))
        print_table(
            ("rank", "cost", "supported", "reason", "kernel", "why"),
            [_cells(c) for c in candidates],
            right=("rank", "cost"),
            colours=[
                "green" if c.chosen else None if c.supported else "bright_black" for c in candidates
            ],
        )
    if not candidates.chosen:
        dispatcher.select(asked)  # raises


def _cells(candidate: Candidate) -> tuple[str, ...]:
    if candidate.supported:
        why = "chosen" if candidate.chosen else ""
        if candidate.k_batch > 1:
            why = f"{why}, " * bool(why) + f"k_batch {candidate.k_batch}"
        return (
            str(candidate.rank),
            f"{candidate.cost:.4g}",
            "yes",
            "-",
            candidate.kernel.name,
            why,
        )
    return ("-", "-", "no", candidate.reason, candidate.kernel.name, candidate.text)


def _to_dict(candidate: Candidate) -> dict[str, Any]:
    return {
        "kernel": candidate.kernel.name,
        "supported": candidate.supported,
        "reason": candidate.reason,
        "text": candidate.text,
        "cost": candidate.cost if candidate.supported else None,
        "rank": candidate.rank if candidate.supported else None,
        "chosen": candidate.chosen,
        "k_batch": candidate.k_batch if candidate.supported else None,
    }
