"""Where the cache lies, and whether it is safe to load code from there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..codegen.errors import BuildError

VARIABLE = "CKDISP_CACHE_DIR"
# Of the 4095 bytes of a path, what lies below the folder needs some: two digests and a file name.
_MAX_PATH = 4095 - 500


def cache_dir(path: str | os.PathLike[str] | None = None) -> Path:
    """The cache folder: ``path``, else ``$CKDISP_CACHE_DIR``, else the user's cache folder.

    Creates nothing. :class:`BuildError` for a value that cannot be a folder.
    """
    origin = "cache_dir" if path is not None else VARIABLE
    text = os.fspath(path) if path is not None else os.environ.get(VARIABLE, "")
    if not text.strip():
        if path is not None:
            raise BuildError("cache_dir is empty; give a folder, or None for the default")
        return _default()
    if text.startswith(os.pathsep) or text.endswith(os.pathsep):
        raise BuildError(
            f"{origin}={text!r} looks like a list of folders; it must name one folder, "
            f"without {os.pathsep!r} at either end"
        )
    if "\n" in text or "\0" in text:
        raise BuildError(f"{origin}={text!r} holds a line break or a zero byte; choose another")
    expanded = os.path.expanduser(text)
    if expanded.startswith("~"):
        raise BuildError(
            f"{origin}={text!r}: the home folder is not known, or there is no such user; give a "
            "path without '~'"
        )
    folder = Path(os.path.abspath(expanded))
    length = len(os.fsencode(folder))
    if length > _MAX_PATH:
        raise BuildError(
            f"the path of the kernel cache has {length} bytes, and the system takes no longer path "
            f"than 4096 with what lies below it; set {VARIABLE} to one of at most {_MAX_PATH}"
        )
    return folder


def _default() -> Path:
    """The user's cache folder."""
    from platformdirs import user_cache_dir

    try:
        folder = Path(user_cache_dir("ckdisp", appauthor=False))
    except (RuntimeError, KeyError, OSError):  # no HOME, and no entry for the user id either
        folder = Path("~")
    if not folder.is_absolute():
        raise BuildError(
            f"there is no place for the kernel cache: HOME ({os.environ.get('HOME', 'not set')}) "
            "names no folder, and the user has no other home; set "
            f"{VARIABLE} to a folder of your own"
        )
    return folder


def check_trust(folder: Path) -> None:
    """:class:`BuildError` if someone else could have put code into ``folder``.

    The folder may belong to this user or to root, and must not be writable by everyone. A folder
    that does not exist is fine.
    """
    try:
        facts = os.stat(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BuildError(
            f"cannot use the kernel cache {folder}: {error.strerror}; set {VARIABLE} to a folder "
            "of your own"
        ) from error
    if not stat.S_ISDIR(facts.st_mode):
        raise BuildError(f"the kernel cache {folder} is not a folder; set {VARIABLE} to one")
    if not hasattr(os, "geteuid"):
        return
    if facts.st_uid not in (os.geteuid(), 0):
        raise BuildError(
            f"the kernel cache {folder} belongs to user id {facts.st_uid}, not to you "
            f"({os.geteuid()}): code in it would run as you. Set {VARIABLE} to a folder of your own"
        )
    if facts.st_mode & stat.S_IWOTH:
        raise BuildError(
            f"everyone can write in the kernel cache {folder}: code in it would run as you. "
            f"Make it private (chmod o-w {folder}) or set {VARIABLE} to a folder of your own"
        )


def create(folder: Path) -> None:
    """Make ``folder``, private to this user, with what leads to it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error) from error
    check_trust(folder)


def not_writable(folder: Path, error: OSError) -> BuildError:
    """The error for a cache that a kernel must be built into and that cannot be written."""
    return BuildError(
        f"cannot write to the kernel cache {folder}: {error.strerror or error}. The kernels asked "
        f"for are not in it yet; set {VARIABLE} to a writable folder with free space, or build "
        "them beforehand"
    )
