"""Digests over fields and files."""

from __future__ import annotations

import hashlib
import os


def digest(*fields: str | bytes) -> str:
    """64 hex digits over ``fields``; each is preceded by its length, so that none can run over."""
    state = hashlib.sha256()
    for field in fields:
        data = field.encode() if isinstance(field, str) else field
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def file_digest(path: str | os.PathLike[str]) -> str:
    """64 hex digits over the content of a file. Raises :class:`OSError`."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
