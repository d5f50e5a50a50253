"""``ckdisp rules``: the catalogue of everything that can be wrong with a key or a problem."""

from __future__ import annotations

import click

from ..codegen.emit.cpp_view import reasons
from .output import bold, json_option, print_json, print_lines


@click.command("rules")
@click.argument("op", required=False, metavar="[OP]")
@json_option
def rules_command(op: str | None, as_json: bool) -> None:
    """Show the named rules that a kernel key must keep.

    Also shows the reasons for which a kernel refuses a problem. OP is an op or a family, such as
    gemm or gemm.standard.
    """
    from ..codegen.ops import key_class
    from ..codegen.rules import catalogue

    rules = catalogue()
    if op is not None:
        name = op.partition(".")[0]
        key_class(name)
        rules = {name: rules[name]}
    if as_json:
        print_json({"rules": rules, "reasons": reasons()})
        return
    for name, entries in rules.items():
        click.echo(bold(f"Rules of {name} keys"))
        print_lines(_definitions({r["name"]: r["doc"] for r in entries}))
        click.echo()
    click.echo(bold("Reasons for refusing a problem"))
    print_lines(_definitions(reasons()))


def _definitions(entries: dict[str, str]) -> list[str]:
    width = max(map(len, entries))
    return [f"  {name:<{width}}  {text}" for name, text in entries.items()]
