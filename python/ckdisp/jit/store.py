"""The content-addressed store: entries are folders, published whole and never changed.

``<root>/<kind>/<2 digits>/<key>/<entry>/`` holds one artefact and ``entry.json``. The key is a
digest of everything known before compiling; the name of the entry is a digest of its content and
of what is only known afterwards: the headers read, the compiler, the flags. So no name is given
twice to different things, and an entry that was damaged no longer fits its name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import location
from .digest import digest, file_digest
from .headers import Headers, Listing

FORMAT = 2
KINDS = ("objects", "libraries", "headers")
_META = "entry.json"
_DAY = 86400.0


@dataclass(frozen=True)
class Entry:
    """What ``entry.json`` says of one artefact. ``context`` is compiler and flags."""

    kind: str
    key: str
    label: str
    context: str
    headers: Listing
    file: str
    size: int
    sha256: str
    format: int = FORMAT

    @property
    def name(self) -> str:
        headers = json.dumps(self.headers)
        return digest(str(self.format), self.kind, self.key, self.context, headers, self.sha256)

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1)


class Store:
    """The cache at ``root``. Reading never writes."""

    def __init__(self, root: Path) -> None:
        location.check_trust(root)
        self.root = root

    def folder(self, kind: str, key: str) -> Path:
        return self.root / kind / key[:2] / key

    def find(self, kind: str, key: str, context: str | None, headers: Headers) -> Path | None:
        """The artefact of a whole, undamaged entry that fits, or ``None``.

        Without a ``context`` (there is no compiler) any compiler's artefact fits, if the headers
        of ckdisp are still what they were.
        """
        for folder in subfolders(self.folder(kind, key)):
            entry = read_entry(folder)
            if entry is None or (entry.kind, entry.key) != (kind, key):
                continue
            if context is not None and entry.context != context:
                continue
            if not headers.matches(entry.headers, own_only=context is None):
                continue
            if is_whole(folder, entry):
                _note_use(folder)
                return folder / entry.file
        return None

    @contextlib.contextmanager
    def staging(self) -> Iterator[Staging]:
        """A private folder on the file system of the store; removed at the end unless kept."""
        base = self.root / "staging"
        try:
            location.create(self.root)
            base.mkdir(mode=0o700, exist_ok=True)
            _remove_old(base)
            folder = Path(tempfile.mkdtemp(prefix="build-", dir=base))
        except OSError as error:
            raise location.not_writable(self.root, error) from error
        staging = Staging(folder)
        try:
            yield staging
        finally:
            if not staging.keep:
                remove_tree(folder)

    def publish(
        self,
        staging: Staging,
        kind: str,
        key: str,
        source: Path,
        *,
        label: str,
        context: str,
        headers: Listing,
    ) -> Path:
        """Move the artefact ``source`` into the store; returns where it is now.

        If the store cannot take it, the artefact stays where it was built, still of use to this
        process, and a warning says why.
        """
        entry = Entry(
            kind,
            key,
            label,
            context,
            headers,
            source.name,
            source.stat().st_size,
            file_digest(source),
        )
        target = self.folder(kind, key) / entry.name
        try:
            staged = Path(tempfile.mkdtemp(prefix="entry-", dir=staging.folder))
            shutil.copyfile(source, staged / entry.file)
            os.chmod(staged / entry.file, 0o755 if kind == "libraries" else 0o644)
            _sync(staged / entry.file)
            (staged / _META).write_text(entry.text(), encoding="utf-8")
            _sync(staged / _META)
            os.chmod(staged, 0o755)
            target.parent.mkdir(parents=True, exist_ok=True)
            _move(staged, target, entry)
            if kind == "libraries":
                _sync(target.parent)
        except OSError as error:
            staging.keep = True
            warnings.warn(
                f"ckdisp: {label} could not be kept in the kernel cache {self.root}: "
                f"{error.strerror or error}; it will be built again next time",
                RuntimeWarning,
                stacklevel=2,
            )
            return source
        # A look-up on a network file system may still miss a folder that another machine has
        # just published; the copy made here is as good.
        if not (target / entry.file).is_file():
            staging.keep = True
            return source
        return target / entry.file


@dataclass
class Staging:
    """A folder to build in. ``keep`` it when something in it is still in use."""

    folder: Path
    keep: bool = False


def read_entry(folder: Path) -> Entry | None:
    """The entry in ``folder``, if its text is whole and fits the name of the folder."""
    try:
        values: dict[str, Any] = json.loads((folder / _META).read_text(encoding="utf-8"))
        values["headers"] = [(str(p), str(w), list(c)) for p, w, c in values["headers"]]
        entry = Entry(**values)
        fits = entry.format == FORMAT and entry.name == folder.name
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return entry if fits and os.path.basename(entry.file) == entry.file else None


def is_whole(folder: Path, entry: Entry) -> bool:
    """Whether the artefact has the content that the entry says."""
    path = folder / entry.file
    try:
        return path.stat().st_size == entry.size and file_digest(path) == entry.sha256
    except OSError:
        return False


def subfolders(folder: Path) -> list[Path]:
    """The folders in ``folder``, sorted; none if it cannot be read."""
    try:
        return sorted(p for p in folder.iterdir() if p.is_dir())
    except OSError:
        return []


def _move(staged: Path, target: Path, entry: Entry) -> None:
    """Put the folder in place in one step; a whole entry that is there already stays."""
    for _ in range(3):
        try:
            os.rename(staged, target)
            return
        except OSError as error:
            if error.errno == errno.EXDEV:
                # Some file systems (overlays) do not rename folders: copy next to the target.
                near = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
                shutil.copytree(staged, near, dirs_exist_ok=True)
                os.chmod(near, 0o755)
                staged = near
            elif error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            else:
                found = read_entry(target)
                if found is not None and is_whole(target, found):
                    return
                # Damaged. Never changed in place, since a process may have it loaded.
                aside = Path(tempfile.mkdtemp(prefix="damaged-", dir=staged.parent))
                os.rename(target, aside / "entry")
    os.rename(staged, target)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _note_use(folder: Path) -> None:
    """Keep the time of last use, to the day, for pruning alone. It never decides a look-up."""
    with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime > _DAY:
            os.utime(folder)


def _remove_old(base: Path) -> None:
    """Remove what builds that were killed have left behind."""
    for folder in subfolders(base):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _DAY:
                remove_tree(folder)


def remove_tree(folder: Path) -> bool:
    """Remove a folder; what cannot be removed (a busy file) is only worth a warning."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        warnings.warn(
            f"ckdisp: cannot remove {folder}: {error.strerror or error}; remove it by hand, or "
            "later with `ckdisp cache prune`",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True
