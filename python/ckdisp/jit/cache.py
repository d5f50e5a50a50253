"""Looking after the cache: list, verify, prune, clear. The command line shows what these return."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..codegen.locks import acquire
from . import location
from .location import FOLDERS, KINDS
from .store import discard, is_whole, read_entry, remove_dead, subfolders
from .whole import broken_libraries, object_fault

Where = str | os.PathLike[str] | None


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
    """What is in the cache at ``root``; ``size`` is in bytes and counts everything there.

    ``building`` is the number of builds that go on in it, where that was looked at.
    """

    root: Path
    objects: int
    libraries: int
    size: int
    headers: int = 0
    building: int = 0


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
    size = sum(_size(root / name) for name in FOLDERS)
    return CacheStats(root, counts["objects"], counts["libraries"], size, counts["headers"])


def verify(cache_dir: Where = None, *, remove: bool = False) -> list[CacheEntry]:
    """The entries that are damaged or broken; ``remove`` deletes them.

    Damaged is one whose content is not what was stored; it is never used, only built again when it
    is needed. Broken is an object or a library that was never whole: it cannot be linked or loaded.
    """
    root = _root(cache_dir)
    bad = []
    libraries: dict[Path, Path] = {}
    for kind, folder in _folders(root):
        entry = read_entry(folder)
        if entry is None or not is_whole(folder, entry):
            if folder.exists():  # not deleted in the meantime
                bad.append((kind, folder))
        elif kind == "libraries":
            libraries[folder / entry.file] = folder
        elif kind == "objects" and object_fault(folder / entry.file):
            bad.append((kind, folder))
    broken = broken_libraries(libraries)
    bad += [("libraries", libraries[path]) for path in broken if path.exists()]
    found = [_describe(kind, folder) for kind, folder in bad]
    for one in found if remove else ():
        _discard(root, one.folder)
    return found


def prune(
    max_bytes: int | None = None, max_age: float | None = None, cache_dir: Where = None
) -> list[CacheEntry]:
    """Delete entries not used for ``max_age`` seconds, then the oldest until ``max_bytes`` hold.

    Without limits only the leavings of failed and killed builds go. Builds that go on are left
    alone. Returns the entries deleted.
    """
    root = _root(cache_dir)
    for folder in subfolders(root / "failed"):
        discard(root, folder)
    remove_dead(root)
    _remove_free_locks(root / "locks")
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
    """Delete all that ckdisp keeps in the cache folder; returns what was there.

    Builds that go on keep their folders and locks; what they build is kept in the cache.
    """
    before = stats(cache_dir)
    root = before.root
    building = remove_dead(root)
    for name in (*KINDS, "failed", "compilers", *(() if building else ("include",))):
        if (root / name).exists():
            discard(root, root / name)
    _remove_free_locks(root / "locks")
    building = remove_dead(root)
    for name in ("locks", "staging"):
        with contextlib.suppress(OSError):
            (root / name).rmdir()
    return dataclasses.replace(before, building=building)


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


def _remove_free_locks(folder: Path) -> None:
    """Remove the locks that nobody holds; whoever waits for one makes it again."""
    try:
        paths = list(folder.iterdir())
    except OSError:
        return
    for path in paths:
        with contextlib.suppress(OSError):  # held: TimeoutError
            lock = acquire(path, timeout=0)
            if lock is not None:
                path.unlink()
                lock.release()


def _discard(root: Path, folder: Path) -> bool:
    """Delete an entry, and the folders above it that are empty then."""
    removed = discard(root, folder)
    for empty in (folder.parent, folder.parent.parent):
        with contextlib.suppress(OSError):
            os.rmdir(empty)
    return removed
