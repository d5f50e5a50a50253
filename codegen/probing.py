"""Asking compilers what they can do, so that a failure that passes is never taken for an answer."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .errors import BuildError
from .supervise import supervised

_PROBE_SECONDS = 60
# What programs say, in the C locale, when the machine is at fault and not what they were asked.
_PASSING = (
    *("No space left on device", "Disk quota exceeded", "File too large", "Read-only file system"),
    *("Too many open files", "Resource temporarily unavailable", "Cannot fork"),
    *("Cannot allocate memory", "out of memory", "memory exhausted", "bad_alloc"),
    *("Input/output error", "Stale file handle", "Text file busy", "File size limit exceeded"),
    *("Killed", "Bus error"),
    *("Connection refused", "Connection reset", "Connection timed out"),
)
# What ends programs for such reasons; a crash is no such signal.
_SIGNALS = frozenset(
    getattr(signal, name)
    for name in ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGBUS", "SIGXFSZ", "SIGXCPU")
    if hasattr(signal, name)
)


@dataclass(frozen=True)
class Said:
    """How a command of a probe ended. ``good``: it worked, and what it makes is there."""

    good: bool
    code: int
    text: str

    @property
    def is_passing(self) -> bool:
        """Whether it failed for a reason that may be gone the next time."""
        killed = (-self.code if self.code < 0 else self.code - 128) in _SIGNALS
        silent = self.code == 0 and not self.good
        return killed or silent or any(text in self.text for text in _PASSING)

    @property
    def reason(self) -> str:
        """The line that says why it failed."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        telling = [line for line in lines if any(text in line for text in _PASSING)]
        telling += [line for line in lines if "error" in line]
        if self.code == 0:
            return "it reported success and wrote nothing"
        return next(iter(telling or lines), f"exit status {self.code}")


def run_compiler(
    arguments: Sequence[str], *, setting: str = "CXX"
) -> subprocess.CompletedProcess[str]:
    """Run a compiler quietly, in the C locale.

    :class:`BuildError` if it cannot be started, or ends for a reason that passes: no answer of it
    would be one to keep. ``setting`` is the variable that the message says to change.
    """
    try:
        result = subprocess.run(
            list(arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise cannot_run(arguments[0], error, setting) from error
    said = Said(result.returncode == 0, result.returncode, result.stderr)
    if not said.good and said.is_passing:
        raise BuildError(
            f"the compiler {arguments[0]} did not answer: {said.reason}; free space, memory or "
            f"processes and run again, or set {setting} to one that works"
        )
    return result


def cannot_run(
    program: str, error: OSError | subprocess.TimeoutExpired, setting: str
) -> BuildError:
    """The error for a compiler that cannot be started or does not end."""
    return BuildError(
        f"cannot run the compiler {program}: {error}; set {setting} to one that works"
    )


def compile_probe(
    command: Sequence[str], suffix: str, source: str, is_whole: Callable[[str], bool], setting: str
) -> Said:
    """Compile ``source`` by ``command``, to which source and output are added.

    :class:`BuildError` if the compiler cannot be started or there is no room for its files.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="ckdisp-", ignore_cleanup_errors=True) as folder:
            path, output = os.path.join(folder, f"probe{suffix}"), os.path.join(folder, "probe.out")
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(source)
            words = [*command, path, "-o", output]
            try:
                with supervised(words, env={**os.environ, "LC_ALL": "C"}) as running:
                    text, _ = running.process.communicate(timeout=_PROBE_SECONDS)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise cannot_run(command[0], error, setting) from error
            code = running.process.returncode
            return Said(code == 0 and is_whole(output), code, text)
    except OSError as error:
        raise BuildError(
            f"cannot write to the folder for temporary files: {error.strerror or error}; free "
            "space there or set TMPDIR to another folder"
        ) from error


def takes(ask: Callable[[bool], Said], program: str, flags: str) -> bool:
    """Whether ``program`` takes ``flags``.

    ``ask(True)`` compiles with them, ``ask(False)`` without, and needs no less of the machine. A
    "no" is one only if it is given before and after the compiler has worked without the flags.
    :class:`BuildError` if there is no such answer.
    """
    said = ask(True)
    if said.good:
        return True
    if not said.is_passing:
        control = ask(False)
        if control.good:
            said = ask(True)
            if said.good or not said.is_passing:
                return said.good
        else:
            said = control
    raise BuildError(
        f"cannot find out whether the compiler {program} takes {flags}: {said.reason}. It compiles "
        "nothing at the moment; free space, memory or processes, raise the limits of this process, "
        "or repair the compiler, and run again"
    )


def has_content(path: str) -> bool:
    """Whether there is a file at ``path`` with something in it."""
    try:
        return os.path.getsize(path) > 0
    except OSError:
        return False
