"""The options that describe one GEMM problem, and where the kernels for it come from."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..codegen.enums import DTYPE, ELEMENTWISE, FAMILY, LAYOUT, unknown
from ..codegen.errors import InvalidArgument, InvalidKey

if TYPE_CHECKING:
    from .. import GemmProblem, Registry

_SHAPE = re.compile(r"(\d+)[x,](\d+)[x,](\d+)", re.ASCII)


@dataclass(frozen=True)
class Shape:
    """M, N and K of one GEMM."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> float:
        """Multiplications and additions of one run."""
        return 2.0 * self.m * self.n * self.k


class ShapeType(click.ParamType):
    """``MxNxK`` or ``M,N,K``."""

    name = "MxNxK"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Shape:
        if isinstance(value, Shape):
            return value
        match = _SHAPE.fullmatch(value.strip().lower())
        if match is None:
            self.fail(
                f"cannot read the shape {value!r}; write M, N and K as non-negative integers, "
                "e.g. 16x4096x4096",
                param,
                ctx,
            )
        return Shape(*(int(g) for g in match.groups()))
