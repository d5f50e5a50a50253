"""What failed in a build, told by the line that matters."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError

STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")
_UNIT = re.compile(r"\bunits/(\w+)\.(?:cpp|cu|hip):")
# What compilers and the linkers of GNU, LLVM, mold and Apple say of what is wrong.
_ERROR = re.compile(
    r"\b(error|fatal|undefined reference|undefined symbol|multiple definition)\b[: ]"
    r"|\bcannot (find|open)\b|\bunable to find\b|\bnot recognized\b|\bcan not be used\b"
    r"|\b(library|symbol\(s\)) not found\b|\bfinal link failed\b|\brelocation\b.*\b(out of range"
    r"|truncated)\b|\bNo space left on device\b",
    re.I,
)
# What a compiler says when the linker, which has said why, failed.
_SUMMARY = re.compile(
    r"^\S*(collect2|clang(\+\+)?(-\d+)?|g\+\+|c\+\+)(\.exe)?: (fatal )?error: "
    r"(ld returned|linker command failed|unable to execute)|^(ld|mold): fatal error: too many",
    re.I,
)
_REMARK = re.compile(r"\b(warning|note|remark):", re.I)
_FULL = re.compile(r"No space left on device|Disk quota exceeded|writing to (build|deps) log", re.I)
# A linker that maps its output into memory is killed when the disk is full.
_BUS_ERROR = re.compile(r"\bsignal 7\b|\bBus error\b")
# What clang says of a precompiled header that another clang made, or from other files.
_UNFIT_HEADER = re.compile(r"precompiled (?:file|header)|PCH file|AST file")
_LITTLE_SPACE = 1 << 24  # bytes; a compiler that failed has often removed what it wrote


@dataclass(frozen=True)
class Failure:
    """One command of a build that failed."""

    target: str
    command: str
    output: str

    @property
    def kernel(self) -> str:
        """The kernel, or the file, whose command failed; one object may hold several kernels."""
        named = _UNIT.search(self.output) if self.target.endswith(".o") else None
        return named[1] if named is not None else Path(self.target).stem

    @property
    def step(self) -> str:
        """What the command was to do: compilation, generation or link."""
        kinds = {".o": "compilation", ".pch": "compilation", ".ninja": "generation"}
        return kinds.get(Path(self.target).suffix, "link")

    @property
    def first_error(self) -> str:
        """The line of the output that says what is wrong."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        telling = [line for line in lines if _ERROR.search(line) and not _REMARK.search(line)]
        found = next((line for line in telling if not _SUMMARY.search(line)), None)
        return found or next(iter((*telling, *lines)), "the command printed nothing")


def failure_error(folder: Path, failures: Sequence[Failure], output: str = "") -> BuildError:
    """The error for ``failures``: kernel, first error line, command to repeat it, all output.

    ``output`` is what ninja printed, for when it failed before it ran any command.
    """
    if not failures:
        text = f"the build in {folder} failed: {output.strip()}"
        return (
            DiskFull(f"{full}: {text}") if (full := disk_full(folder, output)) else BuildError(text)
        )
    first = failures[0]
    head = f"{first.step} of {first.kernel} failed: {first.first_error}"
    if (unwritten := _unwritten(folder, first)) is not None:
        head = unwritten
    full = disk_full(folder, "\n".join(f.output for f in failures) + output)
    parts = [
        f"{full}: {head}" if full else head,
        f"{REPEAT}cd {shlex.quote(str(folder))} && {first.command}",
    ]
    parts += [f"also failed: {f.kernel}: {f.first_error}" for f in failures[1:]]
    if first.output.strip() and first.output.strip() != first.first_error:
        parts.append(f"its output:\n{first.output.rstrip()}")
    error = DiskFull("\n".join(parts)) if full else CommandFailed("\n".join(parts))
    error.failures = failures
    return error


REPEAT = "repeat it with: "


class CommandFailed(BuildError):
    """A command of a build ended with an error; ``failures`` are those that did."""

    failures: Sequence[Failure] = ()

    @property
    def in_link(self) -> bool:
        """Whether it was the link of the library, and nothing else."""
        return all(failure.step == "link" for failure in self.failures)

    @property
    def unfit_header(self) -> bool:
        """Whether a compiler refused a precompiled header."""
        return any(_UNFIT_HEADER.search(failure.output) for failure in self.failures)


class DiskFull(CommandFailed):
    """A :class:`CommandFailed` for want of space: nothing more should be written there."""


def disk_full(folder: Path, output: str) -> str:
    """``no space left on FOLDER`` if ``output`` says so; else an empty string."""
    places = {str(folder): _free(folder)}
    places.setdefault(temporary := tempfile.gettempdir(), _free(Path(temporary)))
    if _BUS_ERROR.search(output) and min(places.values()) < _LITTLE_SPACE:
        return f"no space left on {min(places, key=places.__getitem__)}"
    if not _FULL.search(output):
        return ""
    full = [place for place, free in places.items() if free < _LITTLE_SPACE]
    return f"no space left on {' or '.join(full or places)}"


def _free(folder: Path) -> int:
    """Bytes that may still be written in ``folder``; 0 if it can hold no more files."""
    try:
        facts = os.statvfs(folder)
    except OSError:
        return 1 << 62
    return facts.f_bavail * facts.f_frsize if facts.f_favail or not facts.f_files else 0


def unwritten_error(name: str, output: str, command: str) -> str:
    """The text of an error for a command that ended well without its result."""
    return (
        f"compilation of {name} failed: the compiler ended without an error but wrote no output, "
        f"{output}; run {command.split()[0]} by hand, and look for a wrapper around it"
    )


def _unwritten(folder: Path, failure: Failure) -> str | None:
    """The text for a link that failed since a command before it, or the linker, wrote nothing."""
    if failure.step != "link":
        return None
    compiler = failure.command or "the compiler"
    try:
        objects = (folder / f"{failure.target}.rsp").read_text(encoding="utf-8").split("\n")
    except OSError:
        return None
    missing = next((o for o in objects if o and not (folder / o).exists()), None)
    if missing is not None:
        return unwritten_error(Path(missing).stem, missing, compiler)
    lines = [line for line in failure.output.splitlines() if line.strip()]
    if lines and all(re.match(r"\S*\bmv: ", line) for line in lines):
        return (
            f"link of {failure.kernel} failed: the compiler ended without an error but wrote no "
            f"output, {failure.target}; run the command by hand, and look for a wrapper around it"
        )
    return None


def parse_failures(lines: Sequence[str]) -> list[Failure]:
    """The failed commands in the output of ninja."""
    failures = []
    for i, line in enumerate(lines):
        if not line.startswith("FAILED: "):
            continue
        end = next((j for j in range(i + 2, len(lines)) if _ends(lines[j])), len(lines))
        target = re.sub(r"^\[code=-?\d+\] ", "", line.removeprefix("FAILED: ")).strip()
        command = lines[i + 1] if i + 1 < len(lines) else ""
        failures.append(Failure(target, command, "\n".join(lines[i + 2 : end])))
    return failures


def _ends(line: str) -> bool:
    return STATUS.fullmatch(line) is not None or line.startswith(("FAILED: ", "ninja: "))
