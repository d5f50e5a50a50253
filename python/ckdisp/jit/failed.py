"""Keeping the folder of a build that failed, so that its command can be repeated."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from ..codegen.errors import BuildError
from ..codegen.failures import REPEAT, DiskFull
from . import location
from .store import Staging, Store, discard, remove_tree, subfolders

_MOST_BYTES = 1 << 28  # of all such folders together


def keep_failed(store: Store, staging: Staging, key: str, error: BuildError) -> BuildError:
    """Move the folder aside, out of reach of every look-up; returns the error that names it.

    One folder for each set: a later failure takes its place. The oldest ones make room, pruning
    removes all. Where the disk is full, or the folder alone is too large, it is not kept.
    """
    base = store.root / "failed"
    if isinstance(error, DiskFull) or not _make_room(base, _size(staging.folder)):
        staging.keep = False
        return type(error)(_without_command(str(error)))
    target = base / key[:16]
    with contextlib.suppress(OSError):
        location.make(store.root, base)
        if target.exists():
            discard(store.root, target)
        os.rename(staging.folder, target)
        return type(error)(str(error).replace(str(staging.folder), str(target)))
    staging.keep = True
    return error


def _without_command(text: str) -> str:
    """``text`` without the command to repeat it, whose folder is not kept."""
    return "\n".join(line for line in text.split("\n") if not line.startswith(REPEAT))


def _make_room(base: Path, size: int) -> bool:
    """Remove the oldest folders in ``base`` until ``size`` bytes fit; False if they never do."""
    with contextlib.suppress(OSError):
        kept = [(p.stat().st_mtime, _size(p), p) for p in subfolders(base)]
        total = size + sum(bytes for _, bytes, _ in kept)
        for _, bytes, folder in sorted(kept):
            if total > _MOST_BYTES and remove_tree(folder):
                total -= bytes
    return size <= _MOST_BYTES


def _size(folder: Path) -> int:
    """Bytes that the files below ``folder`` take; links count nothing."""
    total = 0
    for path, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                facts = os.lstat(os.path.join(path, name))
                total += facts.st_size if facts.st_nlink == 1 else 0
    return total
