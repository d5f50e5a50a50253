"""The command line. One small module per group of commands; :mod:`.app` ties them together."""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """Entry point of the ``ckdisp`` script: run ``sys.argv`` and exit."""
    from .app import app

    app.main()
    raise AssertionError("a click command exits")
