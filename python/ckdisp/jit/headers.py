"""Which headers a unit has read, kept so that content decides and places do not.

A header is known by its path below the folders that the compiler searches, and by the content of
every file of that path in any of them, in search order. So a moved installation still matches,
and a file that newly comes first does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .digest import file_digest

OWN = "own"
# (path below the search folders, or absolute; whose folders: those of ckdisp (``own``) or those a
# compiler searches (``cxx``, ``hip``); contents in search order)
Listing = list[tuple[str, str, list[str]]]


class Headers:
    """Reads headers below ``own`` (folders of ckdisp) and below those of compilers, each once."""

    def __init__(self, own: Sequence[str], system: Mapping[str, Sequence[str]]) -> None:
        self._roots = {OWN: [os.path.realpath(p) for p in own]}
        for name, folders in system.items():
            self._roots[name] = [*self._roots[OWN], *map(os.path.realpath, folders)]
        # Where a path may lie: the roots, and the same folders by the names they were given.
        self._places = {OWN: [*self._roots[OWN], *map(os.path.abspath, own)]}
        for name, folders in system.items():
            self._places[name] = [*self._roots[name], *map(os.path.abspath, (*own, *folders))]
        self._known: dict[tuple[str, str], list[str]] = {}

    def listing(self, paths: Iterable[str], compiler: str) -> Listing:
        """The listing of the headers at the absolute ``paths``, read by ``compiler``."""
        entries = sorted({self._portable(p, compiler) for p in paths})
        return [(path, whose, self._contents(path, whose)) for path, whose in entries]

    def matches(self, listing: Listing, *, own_only: bool = False) -> bool:
        """Whether every header still has the content it had."""
        return all(
            self._contents(path, whose) == contents
            for path, whose, contents in listing
            if whose == OWN or not own_only
        )

    def _portable(self, path: str, compiler: str) -> tuple[str, str]:
        # First as it was found: a folder of headers may be a link to elsewhere.
        forms = [path] if os.pardir not in path.split(os.sep) else []
        real = os.path.realpath(path)
        for form in (*forms, real):
            for whose in (OWN, compiler):
                inside = [r for r in self._places[whose] if form.startswith(r + os.sep)]
                if inside:
                    return os.path.relpath(form, max(inside, key=len)), whose
        return real, compiler

    def _contents(self, path: str, whose: str) -> list[str]:
        found = self._known.get((path, whose))
        if found is None:
            found = []
            for root in self._roots.get(whose, ()):
                try:
                    found.append(file_digest(os.path.join(root, path)))
                except OSError:
                    continue
                if os.path.isabs(path):
                    break
            self._known[path, whose] = found
        return found


_TOKEN = re.compile(r"(?:[^\s\\]|\\(?!\n).)+")


def read_depfile(path: Path) -> list[str]:
    """The prerequisites in a dependency file written by a compiler.

    Relative ones are left out: they lie in the build folder, so their text is in the key already.
    """
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    first = text.replace("\\\n", " ").partition("\n")[0]  # more rules may follow, without any
    _, _, rest = first.partition(": ")
    names = (re.sub(r"\\([ #:\\])", r"\1", t).replace("$$", "$") for t in _TOKEN.findall(rest))
    return [name for name in names if os.path.isabs(name)]
