"""What a compiler can do, remembered by its content: asking takes longer than a cache hit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ..codegen.emit.files import write_atomic
from ..codegen.errors import BuildError
from . import location
from .digest import digest

# Part of the name of every file: answers that older versions kept may be wrong.
_FORMAT = "2"


class Probes:
    """The optional flags that a compiler takes, from ``<root>/compilers`` or by asking.

    ``identity`` is what the answers depend on.
    """

    def __init__(self, root: Path, *identity: str) -> None:
        self._root = root
        self._path = root / "compilers" / digest(_FORMAT, *identity)
        self._known = self._read()
        self._new = False

    def _read(self) -> dict[str, bool]:
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(document, dict):
            return {}
        return {str(f): v for f, v in document.items() if isinstance(v, bool)}

    def accepts(self, flags: str, ask: Callable[[], bool]) -> bool:
        """Whether the compiler takes ``flags``, which ``ask`` finds out or raises an error."""
        if flags not in self._known:
            self._known[flags] = ask()
            self._new = True
        return self._known[flags]

    def save(self) -> None:
        """Write what was asked; only called when something is built anyway."""
        if self._new:
            try:
                location.make(self._root, self._path.parent)
                write_atomic(self._path, json.dumps(self._known).encode())
            except (BuildError, OSError):
                return  # asked again next time
            self._new = False
