"""LLVM's tools: those of the HIP compiler, else those on the path."""

from __future__ import annotations

import functools
import shutil

from ..codegen.errors import BuildError


@functools.cache
def find(name: str) -> str | None:
    """The path of a tool such as ``llvm-objdump``."""
    from ..codegen.rocm import HipToolchain

    try:
        return HipToolchain.find().tool(name)
    except BuildError:  # no ROCm, or one without the tool
        return shutil.which(name)
