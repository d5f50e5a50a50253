"""Keeping the folder of a build that failed, so that its command can be repeated."""

from __future__ import annotations

import contextlib
import os

from ..codegen.errors import BuildError
from .store import Staging, Store, remove_tree


def keep_failed(store: Store, staging: Staging, key: str, error: BuildError) -> BuildError:
    """Move the folder aside, out of reach of every look-up; returns the error that names it.

    One folder for each set: a later failure takes its place, and pruning removes it.
    """
    target = store.root / "failed" / key[:16]
    with contextlib.suppress(OSError):
        target.parent.mkdir(mode=0o700, exist_ok=True)
        if target.exists():
            os.rename(target, staging.folder / "previous")
            remove_tree(staging.folder / "previous")
        os.rename(staging.folder, target)
        return BuildError(str(error).replace(str(staging.folder), str(target)))
    staging.keep = True
    return error
