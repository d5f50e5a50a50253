"""The facts of one provider, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..arch import Arch


@dataclass(frozen=True)
class Provider:
    """How the units of one kernel library are written, compiled and linked.

    ``kernels`` maps an op to the header a unit includes and the macro that defines its kernel.
    ``compilers`` are the commands tried, in order, when none is set. ``optional_flags`` go to
    compiler and linker, each only if the compiler can link a program with it. ``job_memory_mb``
    is what one compile job may take at its peak.
    """

    name: str
    kernels: Mapping[str, tuple[str, str]]
    suffix: str
    compilers: tuple[str, ...]
    compile_flags: tuple[str, ...]
    optional_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    job_memory_mb: int

    def arch_flags(self, arch: Arch) -> tuple[str, ...]:
        """The flags that make a unit run on ``arch`` and use what it offers."""
        return arch.compile_flags
