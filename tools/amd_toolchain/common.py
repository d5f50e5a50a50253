"""What the parts of the installer share: errors, commands, folders that are replaced whole."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Failure(Exception):
    """The installation cannot go on; the text says why and what to do."""


def program() -> str:
    """What is being installed: the folder of the program, as in ``make amd-toolchain``."""
    return Path(sys.argv[0]).resolve().parent.name.replace("_", "-")


def say(message: str) -> None:
    print(f"[{program()}] {message}", flush=True)


def run(
    *command: str | Path,
    text: str | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    hint: str = "",
) -> str:
    """Standard output of a command; its failure is a :class:`Failure` with the last messages."""
    line = [str(part) for part in command]
    try:
        done = subprocess.run(
            line,
            input=text,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise Failure(f"cannot run {line[0]}: {error.strerror}") from None
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        name = " ".join([Path(line[0]).name, *line[1:]])
        if len(name) > 120:
            name = f"{name[:60]} ... {name[-55:]}"
        raise Failure(
            f"`{name}` failed with exit status {done.returncode}:\n{tail}"
            + (f"\n{hint}" if hint else "")
        )
    return done.stdout


def digest(*parts: str | Path) -> str:
    """A hash over texts and the contents of files."""
    total = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()[:16]


@contextlib.contextmanager
def locked(prefix: Prefix) -> Iterator[None]:
    """The prefix to ourselves; a killed run leaves no lock behind."""
    prefix.root.mkdir(parents=True, exist_ok=True)
    with (prefix.root / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that installs to {prefix.root}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def guarded(prefix: Prefix, install: Callable[[], None]) -> int:
    """The exit status of ``install()``, which has the prefix to itself; failures are printed."""
    # A polite kill unwinds, so that no command goes on without its parent.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with locked(prefix):
            install()
    except Failure as failure:
        print(f"[{program()}] error: {failure}", file=sys.stderr)
        return 1
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"[{program()}] error: {place}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


@dataclass(frozen=True)
class Prefix:
    """The folder that is installed to, with its private parts.

    ``raw`` keeps what was taken out of packages, so that a change of the later steps fetches
    nothing again.
    """

    root: Path
    force: bool

    @property
    def work(self) -> Path:
        return self.root / ".work"

    @property
    def raw(self) -> Path:
        return self.root / ".raw"

    @property
    def stamps(self) -> Path:
        return self.root / ".stamps"

    def step(self, name: str, key: str, make: Callable[[Path], None]) -> bool:
        """Run ``make(folder)`` unless it ran before with the same ``key``; whether it ran.

        ``make`` fills an empty folder with the tree to be put below the prefix: each entry
        replaces the installed one of its name. A run that is killed leaves no stamp, so the
        next one does the step again.
        """
        stamp = self.stamps / name
        if not self.force and stamp.exists() and stamp.read_text() == key:
            return False
        say(f"{name} ...")
        stamp.unlink(missing_ok=True)
        fresh = self.work / name
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        make(fresh)
        for entry in sorted(fresh.iterdir()):
            self._replace(entry, self.root / entry.name)
        shutil.rmtree(fresh)
        stamp.write_text(key)
        return True

    def _replace(self, fresh: Path, target: Path) -> None:
        if target.is_dir() and not target.is_symlink():
            if fresh.name in _SHARED:
                for entry in sorted(fresh.iterdir()):
                    self._replace(entry, target / entry.name)
                return
            old = self.work / f"old-{target.name}"
            shutil.rmtree(old, ignore_errors=True)
            target.rename(old)
            fresh.rename(target)
            shutil.rmtree(old)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(fresh, target)


# Folders that several steps put entries into.
_SHARED = {".raw", "bin", "lib", "share"}
