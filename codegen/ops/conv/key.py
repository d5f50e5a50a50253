"""The fields of a grouped convolution kernel key, of all three directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...enums import (
    ARCH,
    CONV_LAYOUT,
    DTYPE,
    EPILOGUE,
    FAMILY,
    PIPELINE,
    PROVIDER,
    SCHEDULER,
    SPECIALIZATION,
)
from ...key import KernelKey
from ...schema import enum_field, flag_field, int_field, ints_field
from .operands import types

Triple = tuple[int, int, int]


@dataclass(frozen=True, order=True, slots=True)
class ConvKey(KernelKey):
    """One grouped convolution kernel, which is an implicit GEMM.

    With N images, C input and K output channels per group and a filter of F taps, C = A x B is:
    forward (N out-pixels x C F) x (C F x K), backward data (N in-pixels x K F) x (K F x C),
    backward weight (K x N out-pixels) x (N out-pixels x C F).
    """

    op: ClassVar[str] = "conv"

    family: str = enum_field(FAMILY, "identity", "direction")
    provider: str = enum_field(PROVIDER, "identity", "kernel library")
    arch: str = enum_field(ARCH, "identity", "GPU architecture or CPU level")

    dtype_in: str = enum_field(DTYPE, "signature", "element type of the input")
    dtype_wei: str = enum_field(DTYPE, "signature", "element type of the weights")
    dtype_out: str = enum_field(DTYPE, "signature", "element type of the output")
    dtype_acc: str = enum_field(DTYPE, "signature", "type of the accumulator")
    layout: str = enum_field(CONV_LAYOUT, "signature", "storage, and with it the spatial rank")

    tile: Triple = ints_field("mnk", "t", "block tile; on a CPU the cache block")
    wave: Triple = ints_field("mnk", "w", "waves per block")
    warp: Triple = ints_field("mnk", "r", "warp tile; on a CPU the register tile")
    pipeline: str = enum_field(PIPELINE, "algorithm", "main loop")
    scheduler: str = enum_field(SCHEDULER, "algorithm", "order of loads and math")
    epilogue: str = enum_field(EPILOGUE, "algorithm", "how C is stored")
    specialization: str = enum_field(SPECIALIZATION, "algorithm", "filters it is restricted to")
    vector: Triple = ints_field("abc", "v", "elements per access of A, B and C")
    double_buffer: bool = flag_field("d", "two tiles in LDS in turn")
    split_k: bool = flag_field("s", "several blocks may share the sum of one tile")
    two_stage: bool = flag_field("t", "sums in fp32 in a workspace, then converts")
    split_image: bool = flag_field("i", "splits images that 32-bit offsets cannot span")
    explicit_gemm: bool = flag_field("e", "calls a GEMM kernel where the filter is one pixel")
    groups_to_merge: int = int_field("m", "algorithm", "groups that one block computes together")
    num_wave_groups: int = int_field("g", "algorithm", "wave groups that alternate (compv5)")
    block_per_cu: int = int_field("b", "algorithm", "blocks per compute unit to aim for")

    @property
    def operands(self) -> tuple[str, str, str]:
        """The types of A, B and C of the implicit GEMM."""
        return types(self.family, (self.dtype_in, self.dtype_wei, self.dtype_out))

    @property
    def multiplied(self) -> tuple[str, str]:
        """The types of A and B of the implicit GEMM."""
        return self.operands[:2]
