"""Where the cache lies, and whether it is safe to load code from there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ..codegen.errors import BuildError

VARIABLE = "CKDISP_CACHE_DIR"
SHARED = "CKDISP_CACHE_SHARED"
KINDS = ("objects", "libraries", "headers")  # of artefacts, each with a folder of its own
FOLDERS = (*KINDS, "staging", "failed", "locks", "compilers", "include")  # all that ckdisp makes
_REMEDY = (
    f"Or set {VARIABLE} to a folder of your own; {SHARED}=1 lets the members of one of your groups "
    "share a cache"
)
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


def is_shared() -> bool:
    """Whether a group may keep a cache together: ``CKDISP_CACHE_SHARED=1``."""
    return os.environ.get(SHARED, "") not in ("", "0")


def check_trust(folder: Path) -> None:
    """:class:`BuildError` if someone else could have put code into the cache at ``folder``.

    It and the folders right below it must belong to this user or to root, and nobody else may be
    able to write in them. A folder that does not exist is fine.
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
    _check(folder, folder, facts)
    check_parts(folder, [folder / name for name in FOLDERS])


def check_parts(root: Path, paths: Iterable[Path]) -> None:
    """:func:`check_trust` for files and folders in the cache ``root``, those that exist."""
    for path in paths:
        try:
            facts = os.stat(path)
        except OSError:
            continue  # gone, or of no use: whoever reads it will see
        _check(root, path, facts)


def _check(root: Path, path: Path, facts: os.stat_result) -> None:
    if not hasattr(os, "geteuid"):
        return
    is_root = path == root
    what = f"the kernel cache {root}" if is_root else f"{path} in the kernel cache {root}"
    shared = is_shared() and facts.st_gid in (os.getegid(), *os.getgroups())
    if facts.st_uid not in (os.geteuid(), 0) and not shared:
        raise BuildError(
            f"{what} belongs to user id {facts.st_uid}, not to you ({os.geteuid()}): code in it "
            f"would run as you. {_REMEDY}"
        )
    for bit, who, letter in ((stat.S_IWOTH, "everyone", "o"), (stat.S_IWGRP, "its group", "g")):
        if facts.st_mode & bit and not (shared and letter == "g"):
            raise BuildError(
                f"{who} can write in {what}: code in it would run as you. Make it private (chmod "
                f"{letter}-w {path}; chmod -R go-w {root} for all of it). {_REMEDY}"
            )


def make(root: Path, folder: Path) -> None:
    """Make ``folder``, in the cache ``root`` or the cache itself. Raises :class:`OSError`.

    The cache is private to this user, and nobody else can write below it, whatever the umask; in a
    shared one folders are as open to the group as the cache itself.
    """
    if folder == root:
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
        return
    try:
        os.mkdir(folder, 0o755)
    except FileNotFoundError:
        make(root, folder.parent)
        os.mkdir(folder, 0o755)
    except FileExistsError:
        return
    open_to_group(root, folder)


def open_to_group(root: Path, folder: Path) -> None:
    """Let the group of a shared cache write in a folder that was just made there."""
    if is_shared():
        os.chmod(folder, 0o755 | stat.S_IMODE(os.stat(root).st_mode) & 0o2020)


def create(folder: Path) -> None:
    """Make the cache ``folder``, private to this user, with what leads to it."""
    try:
        make(folder, folder)
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
