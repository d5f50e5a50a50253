"""What is known about one kernel of a code object."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class KernelReport:
    """Figures of one kernel for one arch.

    ``kernel``, ``hot_loop``, ``tail`` and ``memory`` are those of a ckdisp kernel, else None.
    ``vgpr`` includes ``agpr`` from gfx90a on. ``instructions`` and ``matrix`` (opcode -> count) are
    None when the code could not be disassembled; ``unknown`` says why. The occupancy is None for an
    arch without figures.
    """

    name: str
    symbol: str
    arch: str
    file: str
    where: str
    kernel: str | None
    hot_loop: bool | None
    tail: str | None
    memory: str | None
    vgpr: int
    agpr: int
    sgpr: int
    lds_bytes: int
    scratch_bytes: int
    dynamic_stack: bool
    vgpr_spills: int
    sgpr_spills: int
    block_size: int
    wave_size: int
    argument_bytes: int
    code_bytes: int
    waves_per_simd: int | None
    blocks_per_cu: int | None
    limited_by: str | None
    instructions: int | None
    matrix: dict[str, int] | None
    unknown: str | None

    @property
    def matrix_instructions(self) -> int | None:
        """How many matrix instructions the code has, loops counted once."""
        return None if self.matrix is None else sum(self.matrix.values())

    def to_dict(self) -> dict[str, Any]:
        """Every figure as plain JSON values."""
        return {**asdict(self), "matrix_instructions": self.matrix_instructions}
