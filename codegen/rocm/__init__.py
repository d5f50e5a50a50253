"""AMD's side of the generator: finding ROCm, its HIP compiler and the CK Tile headers."""

from __future__ import annotations

from .toolchain import HipToolchain, NotInstalled

__all__ = ["HipToolchain", "NotInstalled"]
