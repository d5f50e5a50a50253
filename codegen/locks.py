"""Locks between processes, held by the system: they end with the process that holds them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock


def acquire(
    path: str | os.PathLike[str], timeout: float = -1, mode: int = 0o644
) -> BaseFileLock | None:
    """The lock of the file at ``path``, held until its ``release()`` or the end of the process.

    ``None`` where there can be no lock: ``filelock`` is not installed, the folder cannot be
    written, or the file system has no ``flock``. A file with the id of a process in it would be no
    lock: it outlives its process, and says nothing to another container. :class:`TimeoutError` if
    someone else holds it for more than ``timeout`` seconds; a negative one waits for ever.
    """
    try:
        from filelock import FileLock, Timeout
    except ImportError:
        return None
    try:
        lock = FileLock(path, mode=mode, fallback_to_soft=False)
    except TypeError:  # of a system's Python: older than the fallback or than the option
        lock = FileLock(path, mode=mode)
    try:
        lock.acquire(timeout=timeout)
    except Timeout:
        raise TimeoutError(f"{os.fspath(path)} is locked") from None
    except (OSError, NotImplementedError):
        return None
    return lock
