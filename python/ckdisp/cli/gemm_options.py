"""One GEMM problem, as options describe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..codegen.arch import arch as find_arch
from ..codegen.enums import LAYOUT
from .params import Shape

if TYPE_CHECKING:
    from .. import GemmProblem
    from .operands import GemmOperands


@dataclass(frozen=True)
class GemmOptions:
    """What the options of a GEMM family said."""

    family: str
    shape: Shape
    dtype: str
    layout: str
    epilogue: str
    num_d: int
    out_dtype: str | None
    k_batch: int = 1

    def __str__(self) -> str:
        out = f" -> {self.out_dtype}" if self.out_dtype else ""
        fused = "" if self.epilogue == "passthrough" else f" {self.epilogue}"
        d = f" d={self.num_d}" if self.num_d else ""
        return f"{self.family} {self.shape} {self.dtype}{out} {self.layout}{fused}{d}"

    def make(self) -> GemmProblem:
        """The problem for a dispatcher; :class:`ckdisp.InvalidArgument` if it can never work."""
        from .. import GemmProblem

        return GemmProblem(
            self.shape.m,
            self.shape.n,
            self.shape.k,
            dtype=self.dtype,
            dtype_c=self.out_dtype,
            layout=self.layout,
            elementwise=self.epilogue,
            num_d=self.num_d,
            k_batch=self.k_batch,
            shuffled_b=self.family == "gemm.preshuffle",
        )

    def stages(self, arch: str) -> dict[str, dict[str, list[Any]]]:
        """The family, and the signature of the problem as a condition on keys of any arch."""
        wanted: dict[str, list[Any]] = {"dtype": [self.dtype], "layout": [self.layout]}
        if self.out_dtype:
            wanted["dtype_c"] = [self.out_dtype]
        if self.k_batch != 1 and arch != "native" and find_arch(arch).is_gpu:
            wanted["split_k"] = [True]
        if self.family != "gemm.standard":
            wanted |= {"elementwise": [self.epilogue], "num_d": [self.num_d]}
        return {self.family: wanted}

    def to_dict(self) -> dict[str, Any]:
        return {
            "family": self.family,
            "m": self.shape.m,
            "n": self.shape.n,
            "k": self.shape.k,
            "dtype": self.dtype,
            "out_dtype": self.out_dtype,
            "layout": self.layout,
            "epilogue": self.epilogue,
            "num_d": self.num_d,
            "k_batch": self.k_batch,
        }

    @property
    def flops(self) -> float:
        return self.shape.flops

    def operands(self) -> GemmOperands:
        """Random data for the problem."""
        from .operands import GemmOperands

        return GemmOperands(self)


def gemm_options(
    family: str,
    shape: tuple[int, ...],
    dtype: str,
    out_dtype: str | None,
    layout: str = "rcr",
    epilogue: str = "passthrough",
    num_d: int | None = None,
    k_batch: int = 1,
) -> GemmOptions:
    """The problem, or a :class:`click.UsageError` for options that do not fit."""
    if len(shape) != 3:
        raise click.UsageError(
            f"--shape of {family} is M, N and K, e.g. 16x4096x4096, not {len(shape)} sizes"
        )
    LAYOUT.code(layout, "layout")
    if family == "gemm.standard" and (epilogue != "passthrough" or num_d):
        raise click.UsageError(
            "gemm.standard has no epilogue and no D tensors; use the family gemm.multi_d"
        )
    if num_d is None:
        from ..codegen.ops.gemm import tables

        num_d, _ = tables.d_count(epilogue)
    return GemmOptions(family, Shape(*shape), dtype, layout, epilogue, num_d, out_dtype, k_batch)
