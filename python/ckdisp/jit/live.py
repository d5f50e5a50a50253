"""Which folders of builds are in use: those whose lock is held, however old they are.

The builder holds the lock from the first moment to the last, and the system frees it when the
builder dies. Where there are no locks, a folder counts as in use for a week after its builder last
touched it, which it does with every command that is done.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..codegen.locks import acquire

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK = ".lock"
_WEEK = 7 * 86400.0
# Before its first moment a folder has no lock yet; its builder may have died just then.
_UNHELD_SECONDS = 86400.0


def hold(folder: Path) -> BaseFileLock | None:
    """Mark a folder that was just made as in use, until the lock is released."""
    # Under another name until it is held: nobody else may find it free.
    new = folder / f"{LOCK}.new"
    lock = acquire(new, timeout=0)
    if lock is not None:
        with contextlib.suppress(OSError):
            os.rename(new, folder / LOCK)
    else:  # where others can lock, it must not look like one that nobody holds
        with contextlib.suppress(OSError):
            new.unlink()
        with contextlib.suppress(OSError):
            (folder / _UNLOCKED).touch()
    return lock


_UNLOCKED = ".in-use"


def touch(folder: Path) -> None:
    """Note that ``folder`` is in use, for where there are no locks."""
    with contextlib.suppress(OSError):
        os.utime(folder)


@contextlib.contextmanager
def dead(folder: Path) -> Iterator[bool]:
    """Whether nobody builds in ``folder`` any more; if so, nobody does before the block ends."""
    lock = None
    try:
        lock = acquire(folder / LOCK, timeout=0) if (folder / LOCK).exists() else None
    except TimeoutError:
        yield False
        return
    try:
        yield lock is not None or _is_old(folder)
    finally:
        if lock is not None:
            lock.release()


def _is_old(folder: Path) -> bool:
    try:
        limit = _WEEK if (folder / _UNLOCKED).exists() else _UNHELD_SECONDS
        return time.time() - folder.stat().st_mtime > limit
    except OSError:
        return False
