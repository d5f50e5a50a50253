"""Trying again what a file system or another process got in the way of."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# A handle of a network file system that the server has replaced, and a folder that somebody
# removed: both work anew.
_PASSING = (errno.ESTALE, errno.ENOENT)
_PAUSES = (0.01, 0.05, 0.2)


def again(action: Callable[[], T]) -> T:
    """The result of ``action``, which makes the folders that it needs each time."""
    for pause in _PAUSES:
        try:
            return action()
        except OSError as error:
            if error.errno not in _PASSING:
                raise
            time.sleep(pause)
    return action()
