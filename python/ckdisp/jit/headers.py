"""Which headers a unit has read, kept so that content decides and places do not.

A header is known by its path below the folders that the compiler searches, and by the content of
every file of that path in any of them, in search order. So a moved installation still matches,
and a file that newly comes first does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from .digest import file_digest

# (path below the search folders, or absolute; whether ckdisp owns it; contents in search order)
Listing = list[tuple[str, bool, list[str]]]


class Headers:
    """Reads headers below ``own`` (folders of ckdisp) and ``system`` folders, each file once."""

    def __init__(self, own: Sequence[Path], system: Sequence[str]) -> None:
        self._own = [os.path.realpath(p) for p in own]
        self._all = [*self._own, *(os.path.realpath(p) for p in system)]
        self._known: dict[tuple[str, bool], list[str]] = {}

    def listing(self, paths: Iterable[str]) -> Listing:
        """The listing of the headers at the absolute ``paths``."""
        entries = sorted({self._portable(os.path.realpath(p)) for p in paths})
        return [(path, own, self._contents(path, own)) for path, own in entries]

    def matches(self, listing: Listing, *, own_only: bool = False) -> bool:
        """Whether every header still has the content it had."""
        return all(
            self._contents(path, own) == contents
            for path, own, contents in listing
            if own or not own_only
        )

    def _portable(self, path: str) -> tuple[str, bool]:
        for roots, own in ((self._own, True), (self._all, False)):
            inside = [r for r in roots if path.startswith(r + os.sep)]
            if inside:
                return os.path.relpath(path, max(inside, key=len)), own
        return path, False

    def _contents(self, path: str, own: bool) -> list[str]:
        found = self._known.get((path, own))
        if found is None:
            found = []
            for root in self._own if own else self._all:
                try:
                    found.append(file_digest(os.path.join(root, path)))
                except OSError:
                    continue
                if os.path.isabs(path):
                    break
            self._known[path, own] = found
        return found


_TOKEN = re.compile(r"(?:[^\s\\]|\\(?!\n).)+")


def read_depfile(path: Path) -> list[str]:
    """The prerequisites in a dependency file written by a compiler.

    Relative ones are left out: they lie in the build folder, so their text is in the key already.
    """
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    _, _, rest = text.replace("\\\n", " ").partition(": ")
    names = (re.sub(r"\\([ #:\\])", r"\1", t).replace("$$", "$") for t in _TOKEN.findall(rest))
    return [name for name in names if os.path.isabs(name)]
