"""Running ninja on a generated folder, and saying in words what failed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .emit.manifest import moved_text, read_manifest
from .errors import BuildError
from .failures import STATUS, CommandFailed, failure_error, parse_failures
from .jobs import cpus, job_count, memory_mb
from .locks import acquire
from .supervise import supervised
from .toolchain import which

Progress = Callable[[int, int, str], None]


def find_ninja() -> str:
    """The ninja of the ``ninja`` package, else the one on ``PATH``."""
    name = "ninja.exe" if os.name == "nt" else "ninja"
    try:
        from ninja import BIN_DIR
    except ImportError:
        BIN_DIR = ""
    for command in (os.path.join(BIN_DIR, name) if BIN_DIR else "", "ninja", "ninja-build"):
        path = which(command) if command else None
        if path is not None:
            return path
    raise BuildError("ninja is not installed; install it with: pip install ninja")


def default_jobs(job_memory_mb: int) -> int:
    """As many jobs as processors, fewer if they would not fit in the memory that is free."""
    return job_count(cpus(), memory_mb(available=True), job_memory_mb)


def build(
    folder: str | os.PathLike[str],
    *,
    targets: Sequence[str] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
    timeout: float | None = None,
    keep_depfiles: bool = False,
) -> Path:
    """Build a folder written by ``generate(..., emit="ninja")``; returns the library.

    ``targets`` are kernel names; none means the library. ``jobs`` is the number of commands at
    once. ``progress(done, total, what)`` is called after every command. What compilers print goes
    to stderr, also when all is well. A second build of the folder waits for the first.
    :class:`BuildError` names the kernel that failed, the first error line and the command to repeat
    it, or says that ``timeout`` seconds were over.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    if manifest is None or not (folder / "build.ninja").is_file():
        raise BuildError(
            f"{folder} holds no build.ninja of ckdisp with a whole manifest.json; write them with "
            "ckdisp.generate(kernels, folder, emit=('ninja',)) or `ckdisp generate`"
        )
    if jobs is None:
        jobs = default_jobs(int(manifest["job_memory_mb"]))
    elif jobs < 1:
        raise BuildError(f"jobs must be at least 1, not {jobs}")
    command = [find_ninja(), "-j", str(jobs)]
    if keep_depfiles:
        command += ["-d", "keepdepfile"]
    with _alone(folder, timeout):
        try:
            _run_ninja([*command, *targets], folder, progress, timeout)
        except BuildError as error:
            if moved := moved_text(Path(os.path.abspath(folder))):
                raise BuildError(f"{moved}\n{error}") from None
            unfit = isinstance(error, CommandFailed) and error.unfit_header
            if not unfit or not _discard_headers(folder):
                raise
            _run_ninja([*command, *targets], folder, progress, timeout)
    return folder / str(manifest["output"])


@contextlib.contextmanager
def _alone(folder: Path, timeout: float | None) -> Iterator[None]:
    """Keep two builds out of one folder, where there are locks.

    They would take each other's half-written files for their own.
    """
    try:
        lock = acquire(folder / ".ckdisp.build.lock", -1 if timeout is None else timeout)
    except TimeoutError:
        raise _over(folder, timeout) from None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _over(folder: Path, timeout: float | None) -> BuildError:
    return BuildError(
        f"the build in {folder} did not end within {timeout:g} s and was stopped; "
        "raise the timeout or build fewer kernels"
    )


def _discard_headers(folder: Path) -> bool:
    """Delete the precompiled headers made in ``folder``; whether there was one."""
    made = [path for path in folder.glob("pch/*.pch") if not path.is_symlink()]
    for path in made:
        path.unlink(missing_ok=True)
    return bool(made)


class _Ended(BaseException):
    """A signal that ends this process; the argument is its number."""


@contextlib.contextmanager
def _compilers_end_too() -> Iterator[None]:
    """Turn signals that would end this process into an exception, and then let them.

    The end of this process ends the compilers, but not before it: they would still be there for
    whoever waits for it. Handlers of the program stay.
    """

    def end(number: int, _frame: object) -> None:
        raise _Ended(number)

    numbers: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():  # others may set no handlers
        known = (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP"))
        numbers = [n for n in known if n is not None and signal.getsignal(n) is signal.SIG_DFL]
    ended: int | None = None
    try:
        for number in numbers:
            signal.signal(number, end)
        yield
    except _Ended as error:
        ended = error.args[0]
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
    if ended is not None:
        signal.raise_signal(ended)


def _run_ninja(
    command: Sequence[str], folder: Path, progress: Progress | None, timeout: float | None
) -> None:
    expired = threading.Event()
    lines: list[str] = []
    with (
        _compilers_end_too(),
        supervised(command, folder, env={**os.environ, "NINJA_STATUS": "[%f/%t] "}) as running,
    ):

        def expire() -> None:
            expired.set()
            running.end()

        timer = threading.Timer(timeout, expire) if timeout is not None else None
        try:
            if timer is not None:
                timer.start()
            _follow(running.process, lines, progress)
        finally:
            if timer is not None:
                timer.cancel()
    if expired.is_set():
        raise _over(folder, timeout)
    if running.process.returncode != 0:
        raise failure_error(folder, parse_failures(lines), "\n".join(lines))
    for line in lines:
        if not STATUS.fullmatch(line) and not line.startswith("ninja: "):
            print(line, file=sys.stderr)


def _follow(process: subprocess.Popen[str], lines: list[str], progress: Progress | None) -> None:
    """Collect what ninja prints, and report each command that is done, until it ends."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        status = STATUS.fullmatch(lines[-1])
        if status is not None and progress is not None:
            progress(int(status[1]), int(status[2]), _what(status[3]))
    process.wait()


def _what(description: str) -> str:
    """``compile units/NAME.cpp`` -> ``NAME``."""
    verb, _, path = description.partition(" ")
    return Path(path).stem if verb == "compile" and " " not in path else description
