"""The fields of a GEMM kernel key: C = elementwise(A x B, D0, D1, ...)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...enums import (
    ARCH,
    DTYPE,
    ELEMENTWISE,
    EPILOGUE,
    FAMILY,
    LAYOUT,
    ORDER,
    PIPELINE,
    PROVIDER,
    SCHEDULER,
)
from ...key import KernelKey
from ...schema import enum_field, flag_field, int_field, ints_field

Triple = tuple[int, int, int]


@dataclass(frozen=True, order=True, slots=True)
class GemmKey(KernelKey):
    """One GEMM kernel. A is M x K, B is K x N, C and every D are M x N."""

    op: ClassVar[str] = "gemm"

    family: str = enum_field(FAMILY, "identity", "kind of GEMM")
    provider: str = enum_field(PROVIDER, "identity", "kernel library")
    arch: str = enum_field(ARCH, "identity", "GPU architecture or CPU level")

    dtype_a: str = enum_field(DTYPE, "signature", "element type of A")
    dtype_b: str = enum_field(DTYPE, "signature", "element type of B")
    dtype_c: str = enum_field(DTYPE, "signature", "element type of C")
    dtype_acc: str = enum_field(DTYPE, "signature", "type of the accumulator")
    layout: str = enum_field(LAYOUT, "signature", "storage of A, B and C")
    elementwise: str = enum_field(ELEMENTWISE, "signature", "fused element-wise operation")
    num_d: int = int_field("d", "signature", "number of D tensors")
    dtype_d: str = enum_field(DTYPE, "signature", "element type of every D")
    layout_d: str = enum_field(ORDER, "signature", "storage of every D")

    tile: Triple = ints_field("mnk", "t", "block tile; on a CPU the cache block")
    wave: Triple = ints_field("mnk", "w", "waves per block; on NVIDIA GPUs blocks per cluster")
    warp: Triple = ints_field(
        "mnk",
        "r",
        "warp tile; on a CPU the register tile, on NVIDIA GPUs the step of an instruction",
    )
    pipeline: str = enum_field(PIPELINE, "algorithm", "main loop")
    scheduler: str = enum_field(SCHEDULER, "algorithm", "order of loads and math")
    epilogue: str = enum_field(EPILOGUE, "algorithm", "how C is stored")
    pad_m: bool = flag_field("m", "any M, not only multiples of the tile")
    pad_n: bool = flag_field("n", "any N, not only multiples of the tile")
    pad_k: bool = flag_field("k", "any K, not only multiples of the tile")
    persistent: bool = flag_field("p", "blocks loop over tiles")
    split_k: bool = flag_field("s", "several blocks may share the K of one tile")
    num_wave_groups: int = int_field("g", "algorithm", "wave groups that alternate (compv5)")
    block_per_cu: int = int_field("b", "algorithm", "blocks per compute unit to aim for")

    @property
    def multiplied(self) -> tuple[str, str]:
        """The types of A and B."""
        return self.dtype_a, self.dtype_b
