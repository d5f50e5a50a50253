"""Looking after the cache: list, verify, prune, clear. The command line shows what these return."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import location
from .store import KINDS, is_whole, read_entry, remove_tree, subfolders

Where = str | os.PathLike[str] | None
_FOLDERS = (*KINDS, "staging", "failed", "locks", "compilers", "include")
_UNFINISHED_SECONDS = 86400.0


@dataclass(frozen=True)
class CacheEntry:
    """One artefact: ``kind`` is ``objects``, ``libraries`` or ``headers``, ``size`` is in bytes.

    ``label`` is the kernel of an object, the number of kernels of a library, or what headers are
    precompiled for; ``used`` is when it was last needed, to the day, in seconds since 1970.
    """

    kind: str
    label: str
    folder: Path
    size: int
    used: float


@dataclass(frozen=True)
class CacheStats:
    """What is in the cache at ``root``; ``size`` is in bytes and counts everything there."""

    root: Path
    objects: int
    libraries: int
    size: int
    headers: int = 0


def ls(cache_dir: Where = None) -> list[CacheEntry]:
    """Every entry, libraries before objects, each kind by label."""
    entries = [_describe(kind, folder) for kind, folder in _folders(_root(cache_dir))]
    return sorted(entries, key=lambda e: (e.kind, e.label, str(e.folder)))


def stats(cache_dir: Where = None) -> CacheStats:
    """How much the cache holds."""
    root = _root(cache_dir)
    counts = dict.fromkeys(KINDS, 0)
    for kind, _ in _folders(root):
        counts[kind] += 1
    size = sum(_size(root / name) for name in _FOLDERS)
    return CacheStats(root, counts["objects"], counts["libraries"], size, counts["headers"])


def verify(cache_dir: Where = None, *, remove: bool = False) -> list[CacheEntry]:
    """The entries whose content is not what was stored; ``remove`` deletes them.

    A damaged entry is never used: it is built again when it is needed.
    """
    root = _root(cache_dir)
    damaged = []
    for kind, folder in _folders(root):
        entry = read_entry(folder)
        if entry is None or not is_whole(folder, entry):
            damaged.append(_describe(kind, folder))
            if remove:
                _discard(root, folder)
    return damaged


def prune(
    max_bytes: int | None = None, max_age: float | None = None, cache_dir: Where = None
) -> list[CacheEntry]:
    """Delete entries not used for ``max_age`` seconds, then the oldest until ``max_bytes`` hold.

    Without limits only the leavings of failed and killed builds go. Returns the entries deleted.
    """
    root = _root(cache_dir)
    for name, seconds in (("failed", 0.0), ("staging", _UNFINISHED_SECONDS)):
        for folder in subfolders(root / name):
            if _age(folder) >= seconds:
                remove_tree(folder)
    _remove_old_locks(root / "locks")
    entries = sorted(ls(cache_dir), key=lambda e: e.used)
    held = sum(e.size for e in entries)
    gone = []
    for entry in entries:
        old = max_age is not None and time.time() - entry.used > max_age
        if (old or (max_bytes is not None and held > max_bytes)) and _discard(root, entry.folder):
            gone.append(entry)
            held -= entry.size
    return gone


def clear(cache_dir: Where = None) -> CacheStats:
    """Delete all that ckdisp keeps in the cache folder; returns what was there."""
    before = stats(cache_dir)
    for name in _FOLDERS:
        remove_tree(before.root / name)
    return before


def _root(cache_dir: Where) -> Path:
    root = location.cache_dir(cache_dir)
    location.check_trust(root)
    return root


def _folders(root: Path) -> Iterator[tuple[str, Path]]:
    for kind in KINDS:
        for prefix in subfolders(root / kind):
            for key in subfolders(prefix):
                for folder in subfolders(key):
                    yield kind, folder


def _describe(kind: str, folder: Path) -> CacheEntry:
    entry = read_entry(folder)
    label = entry.label if entry is not None else "(damaged)"
    return CacheEntry(kind, label, folder, _size(folder), time.time() - _age(folder))


def _age(folder: Path) -> float:
    try:
        return max(0.0, time.time() - folder.stat().st_mtime)
    except OSError:
        return 0.0


def _size(folder: Path) -> int:
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(base, name), follow_symlinks=False).st_size
    return total


def _remove_old_locks(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for lock in list(folder.iterdir()):
            if _age(lock) >= _UNFINISHED_SECONDS:
                lock.unlink()


def _discard(root: Path, folder: Path) -> bool:
    """Take an entry out of sight in one step, then delete it."""
    aside = root / "staging" / f"gone-{folder.name}"
    try:
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        os.rename(folder, aside)
    except OSError:
        aside = folder  # deleting in place is as good: a damaged entry is never used
    removed = remove_tree(aside)
    for empty in (folder.parent, folder.parent.parent):
        with contextlib.suppress(OSError):
            os.rmdir(empty)
    return removed
