"""Builds that failed: what is to blame, what is dropped, and what is worth another attempt."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..codegen.emit.tree import Tree
from ..codegen.emit.unit import symbol
from ..codegen.errors import BuildError
from ..codegen.failures import CommandFailed, DiskFull
from ..codegen.toolchain import Toolchain
from .store import Artefact, Staging, Store, discard
from .whole import UNWRITTEN, object_fault

Cached = Mapping[str, Artefact]  # output of a step -> what the cache has of it
_LOST_SECONDS = 0.3


class Lost(BuildError):
    """The folder of a build, or something that it reads, was removed during the build."""

    def __init__(self, root: Path) -> None:
        super().__init__(
            f"files of the kernel cache {root} were removed while kernels were being built in it, "
            "again and again. Run again; `ckdisp cache clear` leaves builds alone, rm does not"
        )


class Unusable(BuildError):
    """A command of a build reported success, and ``output``, which it wrote, is not whole."""

    output = ""


def unusable(output: str, fault: str) -> Unusable:
    """The error for an ``output`` that has this ``fault``."""
    error = Unusable(
        f"the build of {output} reported success, but the file is of no use: {fault}. The disk may "
        "be full, or a program in front of the compiler may lose its errors"
    )
    error.output = output
    return error


class NotWhole(BuildError):
    """A build failed over parts that were dropped, so that another attempt may work."""


def is_lost(staging: Staging, error: BuildError | OSError) -> bool:
    """Whether ``error`` comes of files that somebody removed; ``ESTALE`` is of that kind, too."""
    if staging.is_lost():
        return True
    if not any(text in str(error) for text in _LOST_TEXTS):
        return False
    if _STALE in str(error):
        return True
    time.sleep(_LOST_SECONDS)  # whoever removes the folder may be about to find the rest
    return staging.is_lost()


_STALE = "Stale file handle"
_LOST_TEXTS = (_STALE, "No such file or directory", "cannot find", "missing and no known")


@dataclass
class FailedBuild:
    """A build that ended with ``error``.

    ``cached`` are the parts that it took from the cache, ``faults`` says of the parts that it made
    why they are not whole.
    """

    store: Store
    tree: Tree
    cached: Cached
    faults: Mapping[str, str]
    error: BuildError

    def drop(self, cxx: Toolchain | None) -> bool:
        """Drop the cached parts that are to blame; whether another attempt may work."""
        if isinstance(self.error, DiskFull):
            return False
        parts = self._blamed(cxx)
        for part in parts:
            discard(self.store.root, part.path.parent)
        return bool(parts or self.faults or isinstance(self.error, Unusable))

    def _blamed(self, cxx: Toolchain | None) -> list[Artefact]:
        error = self.error
        objects = {o: self.cached[o] for o in self.tree.objects if o in self.cached}
        if isinstance(error, CommandFailed) and error.unfit_header:
            return [part for output, part in self.cached.items() if output not in objects]
        failed_load = isinstance(error, Unusable) and error.output == self.tree.output
        failed_link = isinstance(error, CommandFailed) and error.in_link
        if not objects or self.faults or not (failed_load or failed_link):
            return []
        broken = [part for part in objects.values() if object_fault(part.path)]
        if broken:
            return broken
        # Whole as far as can be seen. If nothing links, they are not to blame.
        if failed_link and (cxx is None or not cxx.links()):
            return []
        return self._named(objects, str(error)) or list(objects.values())

    def _named(self, objects: Cached, text: str) -> list[Artefact]:
        """Those of ``objects`` that ``text`` names, by their file or by a kernel."""
        names = {unit.object: symbol(unit.name) for unit in self.tree.units}
        return [
            part
            for output, part in objects.items()
            if output in text or names.get(output, output) in text
        ]

    def reported(self) -> BuildError:
        """The error, led by what the compiler did not report."""
        for output, fault in self.faults.items():
            if fault != UNWRITTEN and not isinstance(self.error, DiskFull | Unusable):
                return BuildError(f"{unusable(output, fault)}\n{self.error}")
        return self.error
