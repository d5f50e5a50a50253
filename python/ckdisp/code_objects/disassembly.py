"""Instructions of kernels, by way of ``llvm-objdump``."""

from __future__ import annotations

import bisect
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import tools
from .reading import Data

_SECONDS = 120
_LINE = re.compile(r"^\s+(\w+).*// ([0-9A-F]{8,}):", re.MULTILINE)
_MATRIX = re.compile(r"v_(?:mfma|smfmac|wmma|swmmac)_")


@dataclass
class Instructions:
    """How many instructions a kernel has, and its matrix instructions by name."""

    count: int = 0
    matrix: Counter[str] = field(default_factory=Counter)


def count(
    code: Data, functions: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, Instructions], str]:
    """Instructions of each function, given with address and size; or why they are not known."""
    objdump = tools.find("llvm-objdump")
    if objdump is None:
        return {}, "there is no llvm-objdump; install ROCm's or the system's LLVM tools"
    with tempfile.NamedTemporaryFile(prefix="ckdisp-", suffix=".co") as file:
        file.write(code.view)
        file.flush()
        command = [objdump, "--disassemble", "--no-show-raw-insn", file.name]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return {}, f"{objdump} failed: {error}"
    if done.returncode != 0:
        why = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return {}, f"{objdump} failed: {why[0].replace(file.name, code.name)}"

    # What lies between two functions is padding, which is shown as instructions too.
    ordered = sorted((start, start + size, name) for name, (start, size) in functions.items())
    starts = [start for start, _, _ in ordered]
    found = {name: Instructions() for name in functions}
    for opcode, address in _LINE.findall(done.stdout):
        at = int(address, 16)
        index = bisect.bisect_right(starts, at) - 1
        if index < 0 or at >= ordered[index][1]:
            continue
        instructions = found[ordered[index][2]]
        instructions.count += 1
        if _MATRIX.match(opcode):
            instructions.matrix[opcode] += 1
    return found, ""
