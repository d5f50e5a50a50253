"""The command line. One small module per group of commands; :mod:`.app` ties them together."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn


def main() -> NoReturn:
    """Entry point of the ``ckdisp`` script: run ``sys.argv`` and exit."""
    from .app import app

    warnings.formatwarning = _plain
    app.main()
    raise AssertionError("a click command exits")


def _plain(message: Warning | str, *_: Any, **__: Any) -> str:
    """A warning for a reader who has no source file and no line in mind."""
    return f"warning: {message}\n"
