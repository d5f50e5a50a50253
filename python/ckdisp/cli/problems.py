"""The options that describe one problem of any op."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import click

from ..codegen.enums import DTYPE, ELEMENTWISE, FAMILY, LAYOUT
from .conv_options import conv_options
from .gemm_options import gemm_options
from .params import EnumType, SizesType

if TYPE_CHECKING:
    from .. import GemmProblem, GroupedConvProblem
    from .operands import Operands

MAX_D = 4


class ProblemOptions(Protocol):
    """What the options of :func:`problem_options` said."""

    @property
    def family(self) -> str: ...
    @property
    def flops(self) -> float:
        """Multiplications and additions of one run."""

    def make(self) -> GemmProblem | GroupedConvProblem:
        """The problem for a dispatcher; :class:`ckdisp.InvalidArgument` if it can never work."""

    def where(self) -> dict[str, list[Any]]:
        """The signature of the problem as a condition on keys."""

    def to_dict(self) -> dict[str, Any]: ...
    def operands(self) -> Operands:
        """Random data for the problem."""


_SHAPE = "e.g. 16x4096x4096 (M, N, K of a GEMM) or 8x64x56x56 (N, C, height, width)"
_EACH = "one, or one for each spatial dimension, e.g. 2x2"

_COMMON = (
    click.argument("family", type=EnumType(FAMILY, "FAMILY")),
    click.option(
        "--shape", type=SizesType("SIZES", _SHAPE), required=True, help=f"Sizes, {_SHAPE}."
    ),
    click.option(
        "--dtype",
        type=EnumType(DTYPE, "DTYPE"),
        default="fp32",
        show_default=True,
        help="Element type of A and B, or of the input and the weights.",
    ),
    click.option(
        "--out-dtype",
        type=EnumType(DTYPE, "DTYPE"),
        help="Element type of C, or of the output; default by --dtype.",
    ),
)
_OF_GEMM = (
    click.option(
        "--layout",
        type=EnumType(LAYOUT, "LAYOUT"),
        help="gemm: storage of A, B and C: r is row-major, c is column-major; default rcr.",
    ),
    click.option(
        "--epilogue",
        type=EnumType(ELEMENTWISE, "NAME"),
        help="gemm: fused element-wise operation; default passthrough.",
    ),
    click.option(
        "--num-d",
        type=click.IntRange(0, MAX_D),
        help="gemm: number of D tensors; default: as few as the epilogue takes.",
    ),
)
_OF_CONV = (
    click.option(
        "--filter",
        "filter_",
        type=SizesType("SIZES", "e.g. 128x3x3 (K, height, width)"),
        help="conv: output channels and sizes of the filter, e.g. 128x3x3.",
    ),
    click.option("--stride", type=SizesType("SIZES", _EACH), help="conv: default 1."),
    click.option("--padding", type=SizesType("SIZES", _EACH), help="conv: default 0."),
    click.option("--dilation", type=SizesType("SIZES", _EACH), help="conv: default 1."),
    click.option("--groups", type=click.IntRange(1), help="conv: default 1."),
)


def _names(options: tuple[Callable[..., Any], ...]) -> dict[str, str]:
    """Parameter -> the option as it is written."""

    def holder() -> None: ...

    for option in reversed(options):
        option(holder)
    return {p.name: p.opts[0] for p in getattr(holder, "__click_params__", ())}


_ONLY = {"gemm": _names(_OF_GEMM), "conv": _names(_OF_CONV)}


def _make(
    family: str, shape: tuple[int, ...], dtype: str, out_dtype: str | None, given: dict[str, Any]
) -> ProblemOptions:
    op = family.partition(".")[0]
    if op not in _ONLY:
        raise click.UsageError(
            f"problems of {family} cannot be written on the command line; from Python, pass an "
            "FmhaProblem to Dispatcher.select, explain or plan"
        )
    for other, names in _ONLY.items():
        for name, option in names.items():
            if other != op and name in given:
                raise click.UsageError(f"{option} is an option of {other}, not of {family}")
    if op == "conv":
        return conv_options(family, shape, dtype, out_dtype, **given)
    return gemm_options(family, shape, dtype, out_dtype, **given)


def problem_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the problem options; it receives one ``problem``."""

    @functools.wraps(command)
    def wrapper(
        family: str, shape: tuple[int, ...], dtype: str, out_dtype: str | None, **rest: Any
    ) -> None:
        special = {name for names in _ONLY.values() for name in names}
        given = {name: rest.pop(name) for name in special}
        given = {name: value for name, value in given.items() if value is not None}
        problem = _make(family, shape, dtype, out_dtype, given)
        problem.make()  # what can never work is refused before anything is compiled or loaded
        command(problem=problem, **rest)

    for option in reversed((*_COMMON, *_OF_GEMM, *_OF_CONV)):
        wrapper = option(wrapper)
    return wrapper
