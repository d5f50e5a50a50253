"""NVIDIA's side of the generator: finding nvcc and the headers of CUTLASS."""

from __future__ import annotations

from .toolchain import CudaToolchain, NotInstalled

__all__ = ["CudaToolchain", "NotInstalled"]
