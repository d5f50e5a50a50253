"""The options that describe one GEMM problem."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..codegen.enums import DTYPE, ELEMENTWISE, FAMILY, LAYOUT
from .params import EnumType, Shape, ShapeType

if TYPE_CHECKING:
    from .. import GemmProblem

MAX_D = 4
_NEEDS_D = ("add", "multiply", "multi_d_add", "multi_d_multiply")


@dataclass(frozen=True)
class ProblemOptions:
    """What the options of :func:`problem_options` said."""

    family: str
    shape: Shape
    dtype: str
    layout: str
    epilogue: str
    num_d: int
    out_dtype: str | None

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
            shuffled_b=self.family == "gemm.preshuffle",
        )

    def where(self) -> dict[str, list[Any]]:
        """The signature of the problem as a condition on keys."""
        wanted: dict[str, list[Any]] = {"dtype": [self.dtype], "layout": [self.layout]}
        if self.out_dtype:
            wanted["dtype_c"] = [self.out_dtype]
        if self.family != "gemm.standard":
            wanted |= {"elementwise": [self.epilogue], "num_d": [self.num_d]}
        return wanted

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
        }


_OPTIONS = (
    click.argument("family", type=EnumType(FAMILY, "FAMILY")),
    click.option("--shape", type=ShapeType(), required=True, help="Sizes, e.g. 16x4096x4096."),
    click.option(
        "--dtype",
        type=EnumType(DTYPE, "DTYPE"),
        default="fp32",
        show_default=True,
        help="Element type of A and B.",
    ),
    click.option(
        "--out-dtype", type=EnumType(DTYPE, "DTYPE"), help="Element type of C; default by --dtype."
    ),
    click.option(
        "--layout",
        type=EnumType(LAYOUT, "LAYOUT"),
        default="rcr",
        show_default=True,
        help="Storage of A, B and C: r is row-major, c is column-major.",
    ),
    click.option(
        "--epilogue",
        type=EnumType(ELEMENTWISE, "NAME"),
        default="passthrough",
        show_default=True,
        help="Fused element-wise operation.",
    ),
    click.option(
        "--num-d",
        type=click.IntRange(0, MAX_D),
        help="Number of D tensors; default: as few as the epilogue takes.",
    ),
)


def problem_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the problem options; it receives one ``problem``."""

    @functools.wraps(command)
    def wrapper(
        family: str,
        shape: Shape,
        dtype: str,
        out_dtype: str | None,
        layout: str,
        epilogue: str,
        num_d: int | None,
        **rest: Any,
    ) -> None:
        if family == "gemm.standard" and (epilogue != "passthrough" or num_d):
            raise click.UsageError(
                "gemm.standard has no epilogue and no D tensors; use the family gemm.multi_d"
            )
        if num_d is None:
            num_d = 1 if epilogue in _NEEDS_D else 0
        problem = ProblemOptions(family, shape, dtype, layout, epilogue, num_d, out_dtype)
        command(problem=problem, **rest)

    for option in reversed(_OPTIONS):
        wrapper = option(wrapper)
    return wrapper
