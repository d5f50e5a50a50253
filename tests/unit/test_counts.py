"""How many kernels there are: whole families, what receipts leave of them, named sets; by arch.

A rule or a filter that takes away more than it should is seen here. After a change that is wanted,
`make golden` writes the numbers anew.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from ckdisp.codegen.arch import arch, arch_names
from ckdisp.codegen.declare import preset_names
from ckdisp.codegen.enums import FAMILY
from ckdisp.codegen.errors import InvalidKey
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.ops.fmha import receipts

GOLDEN = Path(__file__).parent.parent / "golden" / "counts.json"
GPUS = [name for name in arch_names() if arch(name).is_gpu]
Counts = dict[str, dict[str, int]]  # of a set, by arch; none where there is no kernel


def count(family: str, archs: list[str], **how: Any) -> dict[str, int]:
    how = {"allow_empty": True, "companions": False, **how}
    found = {a: len(KernelSet.sweep(family, a, **how)) for a in archs}
    return {arch: number for arch, number in found.items() if number}


def of_family(family: str) -> Counts:
    """All legal keys, the curated ones, and what receipts have of these on GPUs."""
    counts = {tiles: count(family, list(arch_names()), tiles=tiles) for tiles in ("all", "curated")}
    for receipt in receipts.numbers() if family.startswith("fmha.") else ():
        with suppress(InvalidKey):  # it has no kernels of the family
            counts[receipt] = count(family, GPUS, receipt=receipt)
    return counts


def of_presets() -> Counts:
    counts: Counts = {}
    for place in arch_names():
        for name in preset_names(place):
            counts.setdefault(name, {})[place] = len(KernelSet.preset(name, place))
    return counts


def write(part: str, counts: Counts) -> None:
    """A line for each set."""
    with FileLock(f"{GOLDEN}.lock"):
        known = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {}
        known[part] = counts
        parts = [
            f'  "{part}": {{\n'
            + ",\n".join(f'    "{name}": {json.dumps(row)}' for name, row in known[part].items())
            + "\n  }"
            for part in (*FAMILY.values, "presets")
            if part in known
        ]
        GOLDEN.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")
    Path(f"{GOLDEN}.lock").unlink(missing_ok=True)


@pytest.mark.parametrize("part", (*FAMILY.values, "presets"))
def test_as_many_kernels_as_before(part: str) -> None:
    counts = of_presets() if part == "presets" else of_family(part)
    if os.environ.get("CKDISP_UPDATE_GOLDEN"):
        write(part, counts)
    wanted = json.loads(GOLDEN.read_text("utf-8"))[part]
    assert counts == wanted, "if that is wanted, `make golden` takes the new numbers"
