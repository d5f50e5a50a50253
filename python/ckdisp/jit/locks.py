"""Locks that save work: with or without them, what is built is right."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from ..codegen.errors import BuildError
from ..codegen.locks import acquire
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
    folder = root / "locks"
    lock = None
    # Read-only, a file system without locks, or a holder that takes too long: build anyway.
    with contextlib.suppress(OSError, BuildError):
        location.create(root)
        location.make(root, folder)
        mode = 0o664 if location.is_shared() else 0o644
        lock = acquire(folder / f"{key[:32]}.lock", _WAIT_SECONDS, mode)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()
