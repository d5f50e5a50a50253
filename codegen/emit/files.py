"""Writing files so that nothing is torn and nothing unchanged is touched."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..errors import BuildError


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data`` in one step; on failure the old file stays as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:32]}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise BuildError(
            f"cannot write {path}: {error.strerror or error}; check that the folder is writable "
            "and the disk is not full, or choose another folder"
        ) from error


def write_if_changed(path: Path, text: str) -> bool:
    """Write ``text`` unless the file already holds exactly that; True if it was written."""
    data = text.encode("utf-8")
    try:
        if path.read_bytes() == data:
            return False
    except OSError:
        pass  # missing or unreadable: the write below succeeds or says why not
    write_atomic(path, data)
    return True
