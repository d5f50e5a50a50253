"""The options that describe one problem of any op."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import click

from ..codegen.enums import DTYPE, ELEMENTWISE, FAMILY, FAMILY_GROUPS
from . import fmha_options
from .conv_options import conv_options
from .gemm_options import gemm_options
from .params import EnumType, SizesType, WindowType

if TYPE_CHECKING:
    from .. import FmhaProblem, GemmProblem, GroupedConvProblem
    from .operands import Operands

MAX_D = 4


class ProblemOptions(Protocol):
    """What the options of :func:`problem_options` said."""

    @property
    def family(self) -> str: ...
    @property
    def flops(self) -> float:
        """Multiplications and additions of one run."""

    def make(self) -> GemmProblem | GroupedConvProblem | FmhaProblem:
        """The problem for a dispatcher; :class:`ckdisp.InvalidArgument` if it can never work."""

    def stages(self, arch: str) -> dict[str, dict[str, list[Any]]]:
        """Family of each stage -> the signature of the problem as a condition on its keys."""

    def to_dict(self) -> dict[str, Any]: ...
    def operands(self) -> Operands:
        """Random data for the problem."""


_SHAPE = (
    "e.g. 16x4096x4096 (M, N, K of a GEMM), 8x64x56x56 (N, C, height, width) or 2x8x1024x1024x64 "
    "(batch, heads, rows of Q and of K, head dimension)"
)
_EACH = "one, or one for each spatial dimension, e.g. 2x2"


class _FamilyType(EnumType):
    """A family, or a group by its leading one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(FAMILY_GROUPS.get(value, (value,))[0], param, ctx)


_COMMON = (
    click.argument("family", type=_FamilyType(FAMILY, "FAMILY")),
    click.option(
        "--shape", type=SizesType("SIZES", _SHAPE), required=True, help=f"Sizes, {_SHAPE}."
    ),
    click.option(
        "--dtype",
        type=EnumType(DTYPE, "DTYPE"),
        default="fp32",
        show_default=True,
        help="Element type of A and B, of the input and the weights, or of Q, K and V.",
    ),
    click.option(
        "--out-dtype",
        type=EnumType(DTYPE, "DTYPE"),
        help="Element type of C, or of the output; default by --dtype.",
    ),
)
_LAYOUT = click.option(
    "--layout",
    help="gemm: storage of A, B and C: r is row-major, c is column-major; default rcr. fmha: bhsd "
    "(batch, heads, rows, size; the default) or bshd.",
)
_OF_GEMM = (
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
_PARTS = click.option(
    "--k-batch",
    type=click.IntRange(0),
    help="gemm, conv.bwd_weight: parts that sums are split into, 0 as many as the kernel chooses; "
    "default: 1 of a GEMM, 0 of a convolution.",
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
_OF_FMHA = (
    click.option("--nhead-k", type=click.IntRange(1), help="fmha: heads of K and V; as of Q."),
    click.option(
        "--mask",
        type=click.Choice(["no", "top_left", "bottom_right"]),
        help="fmha: where the diagonal lies behind which no key is seen; default no.",
    ),
    click.option(
        "--window", type=WindowType(), help="fmha: keys seen on each side of it, -1 for all."
    ),
    click.option("--sink", type=click.IntRange(0), help="fmha: first keys that are always seen."),
    click.option(
        "--bias",
        type=click.Choice(["no", "bias", "alibi"]),
        help="fmha: what is added to the scores; default no.",
    ),
    click.option(
        "--dropout",
        type=click.FloatRange(0, 1, max_open=True),
        help="fmha: the probability with which a weight becomes 0; default 0.",
    ),
    click.option("--logits-soft-cap", type=click.FloatRange(0), help="fmha: default none."),
    click.option("--lse", is_flag=True, default=None, help="fmha: return the LSE too."),
    click.option(
        "--num-splits",
        type=click.IntRange(0),
        help="fmha.splitkv: parts of the keys; default: as many as keep all threads busy.",
    ),
    click.option(
        "--page-size",
        type=click.IntRange(1),
        help="fmha: K and V lie in pages of so many keys; default 16 where they must.",
    ),
    click.option(
        "--rope",
        type=click.Choice(["interleaved", "half_rotated"]),
        help="fmha.appendkv: how Q and the new keys are rotated; default not at all.",
    ),
    click.option(
        "--deterministic", is_flag=True, default=None, help="fmha.bwd: a fixed order of sums."
    ),
    click.option(
        "--dbias", is_flag=True, default=None, help="fmha.bwd: compute the gradient of the bias."
    ),
)


def _names(options: tuple[Callable[..., Any], ...]) -> dict[str, str]:
    """Parameter -> the option as it is written."""

    def holder() -> None: ...

    for option in reversed(options):
        option(holder)
    return {p.name: p.opts[0] for p in getattr(holder, "__click_params__", ())}


_ONLY = {
    "gemm": _names((_LAYOUT, _PARTS, *_OF_GEMM)),
    "conv": _names((_PARTS, *_OF_CONV)),
    "fmha": _names((_LAYOUT, *_OF_FMHA)),
}
_MAKE: dict[str, Callable[..., ProblemOptions]] = {
    "gemm": gemm_options,
    "conv": conv_options,
    "fmha": fmha_options.fmha_options,
}
_ALL = (*_COMMON, _LAYOUT, _PARTS, *_OF_GEMM, *_OF_CONV, *_OF_FMHA)


def _make(
    family: str, shape: tuple[int, ...], dtype: str, out_dtype: str | None, given: dict[str, Any]
) -> ProblemOptions:
    op = family.partition(".")[0]
    for other, names in _ONLY.items():
        for name, option in names.items():
            if name in given and name not in _ONLY[op]:
                raise click.UsageError(f"{option} is an option of {other}, not of {family}")
    return _MAKE[op](family, shape, dtype, out_dtype, **given)


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

    for option in reversed(_ALL):
        wrapper = option(wrapper)
    return wrapper
