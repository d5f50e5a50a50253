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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import live, location
from .digest import digest, file_digest
from .headers import Headers, Listing
from .progress import Callback
from .retry import again

FORMAT = 2
_META = "entry.json"
_DAY = 86400.0
_REMOVALS = 20


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


@dataclass(frozen=True)
class Artefact:
    """A file of the cache, and its entry."""

    path: Path
    entry: Entry


class Store:
    """The cache at ``root``. Reading never writes."""

    def __init__(self, root: Path) -> None:
        location.check_trust(root)
        self.root = root

    def folder(self, kind: str, key: str) -> Path:
        return self.root / kind / key[:2] / key

    def find(self, kind: str, key: str, context: str | None, headers: Headers) -> Path | None:
        """The file of :meth:`artefact`."""
        found = self.artefact(kind, key, context, headers)
        return found.path if found is not None else None

    def artefact(
        self, kind: str, key: str, context: str | None, headers: Headers
    ) -> Artefact | None:
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
                self._check_trust(folder, entry)
                _note_use(folder)
                return Artefact(folder / entry.file, entry)
        return None

    def _check_trust(self, folder: Path, entry: Entry) -> None:
        """:class:`BuildError` if someone else could have written the entry."""
        key, prefix = folder.parent, folder.parent.parent
        parts = (prefix, key, folder, folder / _META, folder / entry.file)
        location.check_parts(self.root, parts)

    @contextlib.contextmanager
    def staging(self) -> Iterator[Staging]:
        """A private folder on the file system of the store; removed at the end unless kept."""
        location.create(self.root)
        try:
            remove_dead(self.root)
            folder = again(lambda: self._private_folder("build-"))
        except OSError as error:
            raise location.not_writable(self.root, error) from error
        lock = live.hold(folder)
        staging = Staging(folder)
        try:
            yield staging
        finally:
            if not staging.keep:
                remove_tree(folder)
                if lock is not None:
                    lock.release()
            elif lock is not None:
                _kept.append(lock)

    def _private_folder(self, prefix: str) -> Path:
        base = self.root / "staging"
        location.make(self.root, base)
        return Path(tempfile.mkdtemp(prefix=prefix, dir=base))

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
            again(lambda: self._place(staging, source, target, entry))
        except OSError as error:
            if not source.exists():
                raise  # the staging folder was removed; the store itself may be in order
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

    def _place(self, staging: Staging, source: Path, target: Path, entry: Entry) -> None:
        staged = Path(tempfile.mkdtemp(prefix="entry-", dir=staging.folder))
        shutil.copyfile(source, staged / entry.file)
        os.chmod(staged / entry.file, 0o755 if entry.kind == "libraries" else 0o644)
        _sync(staged / entry.file)
        (staged / _META).write_text(entry.text(), encoding="utf-8")
        os.chmod(staged / _META, 0o644)
        _sync(staged / _META)
        os.chmod(staged, 0o755)
        location.open_to_group(self.root, staged)
        location.make(self.root, target.parent)
        _move(staged, target, entry)
        if entry.kind == "libraries":
            _sync(target.parent)


# Of staging folders that hold what this process still uses: held to its end.
_kept: list[object] = []


@dataclass
class Staging:
    """A folder to build in. ``keep`` it when something in it is still in use.

    ``expected`` are the files that were put there, and those elsewhere that a build there reads.
    """

    folder: Path
    keep: bool = False
    expected: list[Path] = field(default_factory=list)

    def in_use(self, progress: Callback) -> Callback:
        """``progress``, which also marks the folder as in use."""

        def mark(done: int, total: int, what: str) -> None:
            live.touch(self.folder)
            progress(done, total, what)

        return mark

    def take(self, artefact: Path, output: str) -> None:
        """Put ``artefact`` of the cache into the folder as ``output``.

        As a second name of the file, if that can be: it stays when the cache is cleared.
        Precompiled headers are named by links, so that nobody takes them for made here.
        """
        place = self.folder / output
        place.parent.mkdir(exist_ok=True)
        try:
            if place.suffix != ".o":
                raise OSError(errno.EPERM, "a precompiled header")
            os.link(artefact, place)
        except OSError:
            place.symlink_to(artefact)
        self.expected.append(place)

    def is_lost(self) -> bool:
        """Whether somebody removed the folder, or a part of it, while it was in use."""
        return not all(path.exists() for path in (self.folder, *self.expected))


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


def remove_dead(root: Path) -> int:
    """Remove what builds and removals that were killed have left; how many builds go on."""
    count = 0
    for folder in subfolders(root / "staging"):
        with live.dead(folder) as is_dead:
            if is_dead or folder.name.startswith(_GONE):
                remove_tree(folder)
            else:
                count += 1
    return count


_GONE = "gone-"


def discard(root: Path, folder: Path) -> bool:
    """Take a folder of the cache out of sight in one step, then delete it; whether it is gone."""
    try:
        location.make(root, root / "staging")
        aside = Path(tempfile.mkdtemp(prefix=_GONE, dir=root / "staging"))
    except OSError:
        return remove_tree(folder)  # in place is as good: a damaged entry is never used
    with contextlib.suppress(OSError):
        os.rename(folder, aside / "folder")
    return remove_tree(aside) and remove_tree(folder)


def remove_tree(folder: Path) -> bool:
    """Remove a folder; what cannot be removed (a busy file) is only worth a warning."""
    problem: OSError | None = None
    for _ in range(_REMOVALS):
        try:
            shutil.rmtree(folder)
            return True
        except FileNotFoundError:
            if not os.path.lexists(folder):
                return True
            # Somebody else removes it, too: whatever one of them does not find, the other removed.
        except OSError as error:
            problem = error
            if error.errno not in (errno.ENOTEMPTY, errno.ESTALE):
                break  # else somebody still writes into it
    if problem is None:
        return not os.path.lexists(folder)
    warnings.warn(
        f"ckdisp: cannot remove {folder}: {problem.strerror or problem}; remove it by hand, or "
        "later with `ckdisp cache prune`",
        RuntimeWarning,
        stacklevel=2,
    )
    return False
