"""Whether what a compiler wrote is whole; its exit status of 0 is no proof.

A full disk, a wrapper that loses a signal or a linker that is killed leave files that end early.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from ..code_objects.containers import check_device_code
from ..code_objects.elf import MAGIC, Elf
from ..code_objects.reading import Data, InspectError
from ..codegen.errors import BuildError
from ..codegen.probing import has_content
from ..codegen.steps import Step
from . import load_check

_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # of clang -flto, in place of an object
UNWRITTEN = "it was not written"
_SECONDS = 600
_BATCH = 64


def object_fault(path: Path) -> str:
    """Why the object at ``path`` cannot be linked; empty if it is whole."""
    return _fault(path, objects=True)


def step_fault(path: Path, step: Step) -> str:
    """Why what ``step`` wrote to ``path`` is of no use; empty if it is whole."""
    if step.rule.makes_object:
        return object_fault(path)
    return "" if has_content(str(path)) else UNWRITTEN


def library_fault(path: Path, kernels: Collection[str]) -> str:
    """Why the library at ``path`` cannot be used with these ``kernels``; empty if it can."""
    fault = _fault(path, objects=False)
    if fault:
        return fault
    results = _load([path])
    if path in results:
        fault, found = results[path]
        if not fault and sorted(found) != sorted(kernels):
            fault = f"it holds {len(found)} kernels, and not the {len(kernels)} that were built"
    return fault


def broken_libraries(paths: Iterable[Path]) -> list[Path]:
    """Those of the libraries at ``paths`` that are not whole or cannot be loaded."""
    broken: list[Path] = []
    whole: list[Path] = []
    for path in paths:
        (broken if _fault(path, objects=False) else whole).append(path)
    for i in range(0, len(whole), _BATCH):
        broken += [path for path, (fault, _) in _load(whole[i : i + _BATCH]).items() if fault]
    return broken


def _fault(path: Path, *, objects: bool) -> str:
    try:
        with path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                return "it is empty"
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            return _content_fault(Data(memoryview(content), path.name), objects)
    except FileNotFoundError:
        return UNWRITTEN
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"


def _content_fault(data: Data, objects: bool) -> str:
    if objects and any(map(data.starts, _BITCODE)):
        return ""
    machine = _machine()
    if machine is None:
        return ""  # not a system of 64-bit ELF files
    try:
        elf = Elf(data)
        if elf.machine != machine:
            return f"it is for another machine (ELF machine {elf.machine}, this one is {machine})"
        if not any(section.name and len(section.data) for section in elf.sections):
            return "it is damaged: its table of sections says nothing"
        check_device_code(elf)
    except InspectError as error:
        return str(error)
    return ""


def _machine() -> int | None:
    """The ELF machine of this Python."""
    try:
        with open("/proc/self/exe", "rb") as stream:
            header = stream.read(20)
    except OSError:
        return None
    if header[:4] != MAGIC or header[4:6] != b"\x02\x01" or len(header) < 20:
        return None
    (machine,) = struct.unpack("<H", header[18:20])
    return int(machine)


def _load(paths: list[Path]) -> dict[Path, tuple[str, list[str]]]:
    """Path -> why it cannot be loaded, and its kernels; nothing of what cannot be tried."""
    python = _python()
    results: dict[Path, tuple[str, list[str]]] = {}
    left = list(paths) if python else []
    while left:
        done = _run([python, "-I", "-S", load_check.__file__, *map(str, left)])
        for line in done.stdout.splitlines():
            path, fault, names = json.loads(line)
            tried = left.pop(0)
            # Where it depends on a library that only this process has loaded, the child cannot
            # tell; loading it here says the same without harm.
            if "cannot open shared object file" not in fault or path in fault:
                results[tried] = (fault, names)
        if left and done.returncode != 0:
            how = f"loading it ended a process with status {done.returncode}"
            results[left.pop(0)] = (how, [])
    return results


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(
            f"cannot check a library that was built, in a process of its own: {error}; free "
            "processes or memory and run again"
        ) from error


def _python() -> str:
    """A Python to start; none where this one is a part of another program."""
    name = os.path.basename(sys.executable or "")
    return sys.executable if name.startswith(("python", "pypy")) else ""
