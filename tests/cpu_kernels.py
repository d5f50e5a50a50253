"""CPU kernels for tests: taken from the package where it has them, else compiled once for all."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

import ckdisp
from ckdisp.jit import cache


def without_prebuilt(kernels: ckdisp.KernelSet) -> ckdisp.KernelSet:
    """Those of ``kernels`` that the package does not hold."""
    prebuilt = _prebuilt()
    return kernels.filter(lambda key: key.name not in prebuilt)


def build(kernels: ckdisp.KernelSet, cache_dir: Path) -> ckdisp.Registry:
    """A registry of ``kernels``; what the package holds need not be compiled again."""
    names = set(kernels.names())
    registry = ckdisp.Registry("tests")
    registry.merge(_prebuilt().filter(lambda kernel: kernel.name in names))
    missing = without_prebuilt(kernels)
    if len(missing):
        registry.merge(missing.build(cache_dir=cache_dir, progress=False))
    return registry


def _prebuilt() -> ckdisp.Registry:
    with suppress(ckdisp.LibraryError):  # an editable install may have none
        return ckdisp.Registry.prebuilt()
    return ckdisp.Registry("none")


def check_objects(kernels: ckdisp.KernelSet, cache_dir: Path) -> None:
    """Assert that each object in the cache defines its kernel and nothing else that is shared.

    The linker could merge a weak symbol of one CPU level into another level's kernel.
    """
    if shutil.which("nm") is None:
        pytest.skip("needs nm, which comes with the compiler's binutils")
    objects = {entry.label: entry for entry in cache.ls(cache_dir) if entry.kind == "objects"}
    for name in kernels.names():
        (file,) = objects[name].folder.glob("*.o")
        text = subprocess.run(
            ["nm", "--defined-only", "--extern-only", file],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        (line,) = text.splitlines()
        _, kind, symbol = line.split()
        assert symbol == f"ckdisp_k_{name}"
        assert kind in "RD"  # constant data, relocated or not
