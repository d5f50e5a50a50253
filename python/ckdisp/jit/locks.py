"""Locks that save work: with or without them, what is built is right."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from ..codegen.errors import BuildError
from . import location

_WAIT_SECONDS = 600.0
# Keyed by process, for a lock that some thread held during a fork stays held in the child.
_threads: dict[tuple[int, str], threading.Lock] = {}


@contextlib.contextmanager
def building(root: Path, key: str) -> Iterator[None]:
    """Hold the lock of ``key`` among threads and processes, if that is possible at all.

    The system frees the lock of a process that dies; no process id is ever written or read.
    """
    with among_threads(key), _between_processes(root, key):
        yield


def among_threads(key: str) -> threading.Lock:
    """The lock of ``key`` among the threads of this process."""
    return _threads.setdefault((os.getpid(), key), threading.Lock())


@contextlib.contextmanager
def _between_processes(root: Path, key: str) -> Iterator[None]:
    from filelock import FileLock, Timeout

    folder = root / "locks"
    try:
        location.create(root)
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock(folder / f"{key[:32]}.lock")
        lock.acquire(timeout=_WAIT_SECONDS)
    except (OSError, BuildError, Timeout, NotImplementedError):
        # Read-only, a file system without locks, or a holder that takes too long: build anyway.
        yield
        return
    try:
        yield
    finally:
        lock.release()
