"""Where a HIP compilation looks for headers."""

from __future__ import annotations

import functools
import os

from ..toolchain import search_dirs, signature
from .toolchain import HipToolchain


def include_dirs(hip: HipToolchain) -> tuple[str, ...]:
    """The folders searched for headers: that of CK Tile, then those of the compiler."""
    found = _system_dirs(hip.compiler, hip.flags, signature(os.path.realpath(hip.compiler)))
    return (hip.ck_include, *found)


@functools.cache
def _system_dirs(
    compiler: str, flags: tuple[str, ...], _signature: tuple[int, ...]
) -> tuple[str, ...]:
    language = () if "-x" in flags else ("-x", "hip")
    return search_dirs(compiler, *flags, "--offload-host-only", *language)
