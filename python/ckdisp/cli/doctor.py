"""``ckdisp doctor``: what works here, what does not, and what to do about it."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from .output import colour, json_option, plural, print_json

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor")
@json_option
def doctor_command(as_json: bool) -> None:
    """Say what this machine has, what is missing and what to do about it.

    The exit code is 1 if something is broken that ckdisp needs; warnings are about things it can
    do without.
    """
    from .checks import all_checks
    from .findings import FAIL, WARN, Check

    checks: list[Check] = []
    for check in all_checks():
        checks.append(check)
        if not as_json:
            status = colour(f"{check.status:<4}", _COLOURS[check.status])
            click.echo(f"{status}  {check.name:<15}{check.found}")
            if check.todo:
                click.echo(f"{'':21}-> {check.todo}")
    failed = [c.name for c in checks if c.status == FAIL]
    warned = [c.name for c in checks if c.status == WARN]
    if as_json:
        print_json({"ok": not failed, "checks": [asdict(c) for c in checks]})
    elif failed:
        click.echo(colour(f"\nckdisp cannot work here: {', '.join(failed)}", "red"))
    else:
        rest = f"; {plural(len(warned), 'warning')}" if warned else ""
        click.echo(f"\nckdisp works here{rest}")
    if failed:
        sys.exit(1)
