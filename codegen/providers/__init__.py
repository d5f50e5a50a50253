"""What the generator must know of each kernel library: headers, macros, flags, compiler."""

from __future__ import annotations

from ..arch import Arch
from ..enums import PROVIDER
from ..errors import BuildError
from .base import LIBRARY_FLAGS, Provider, Recipe, Setup, Unit, cxx_rule
from .ck_tile import CK_TILE, COMPILER_FILE
from .cpu import CPU
from .cutlass import CUTLASS

__all__ = [
    "CPU",
    "COMPILER_FILE",
    "LIBRARY_FLAGS",
    "Provider",
    "Recipe",
    "Setup",
    "Unit",
    "cxx_rule",
    "provider",
]

_PROVIDERS: dict[str, Provider] = {p.name: p for p in (CPU, CK_TILE, CUTLASS)}


def provider(name: str, arch: Arch) -> Provider:
    """The provider ``name`` for kernels of ``arch``; :class:`BuildError` if it has none for it."""
    PROVIDER.code(name, "provider")
    if arch.provider != name:
        raise BuildError(
            f"provider {name} has no kernels for arch {arch.name}; that arch belongs to provider "
            f"{arch.provider}"
        )
    return _PROVIDERS[name]
