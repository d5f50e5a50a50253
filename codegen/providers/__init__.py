"""What the generator must know of each kernel library: headers, macros, flags, compiler."""

from __future__ import annotations

from ..arch import Arch
from ..enums import PROVIDER
from ..errors import BuildError
from .base import Provider
from .cpu import CPU

__all__ = ["Provider", "provider"]

_PROVIDERS: dict[str, Provider] = {p.name: p for p in (CPU,)}


def provider(name: str, arch: Arch) -> Provider:
    """The provider ``name`` for kernels of ``arch``.

    :class:`BuildError` if this version holds no kernels of it, or none for ``arch``.
    """
    PROVIDER.code(name, "provider")
    found = _PROVIDERS.get(name)
    if found is None:
        raise BuildError(
            f"provider {name} is declared, but its kernels are not part of this version of ckdisp: "
            f"its keys can be listed and checked, not built. Providers with kernels here: "
            f"{', '.join(_PROVIDERS)}"
        )
    if arch.provider != name:
        raise BuildError(
            f"provider {name} has no kernels for arch {arch.name}; that arch belongs to provider "
            f"{arch.provider}"
        )
    return found
