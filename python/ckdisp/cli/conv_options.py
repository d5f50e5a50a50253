"""One grouped convolution, as options describe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..codegen.enums import CONV_LAYOUT

if TYPE_CHECKING:
    from .. import GroupedConvProblem
    from .operands import ConvOperands

Sizes = tuple[int, ...]
# The tensor that a direction computes, whose type --out-dtype names.
RESULT = {"conv.fwd": "dtype_out", "conv.bwd_data": "dtype_in", "conv.bwd_weight": "dtype_wei"}


@dataclass(frozen=True)
class ConvOptions:
    """What the options of a conv family said; sizes are those of the command line."""

    family: str
    input: Sizes
    weights: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    groups: int
    dtype: str
    out_dtype: str | None
    k_batch: int = 0

    def __str__(self) -> str:
        out = f" -> {self.out_dtype}" if self.out_dtype else ""
        group = f" groups {self.groups}" if self.groups != 1 else ""
        usual = {"stride": 1, "padding": 0, "dilation": 1}
        said = "".join(
            f" {name} {_text(sizes)}"
            for name, value in usual.items()
            if set(sizes := getattr(self, name)) != {value}
        )
        return (
            f"{self.family} {_text(self.input)} filter {_text(self.weights)}{said}{group} "
            f"{self.dtype}{out}"
        )

    @property
    def motion(self) -> dict[str, Any]:
        """The keywords that say how the filter moves."""
        names = ("stride", "padding", "dilation", "groups")
        return {name: getattr(self, name) for name in names}

    def make(self) -> GroupedConvProblem:
        """The problem for a dispatcher; :class:`ckdisp.InvalidArgument` if it can never work."""
        from .. import GroupedConvProblem

        types: dict[str, Any] = dict.fromkeys(RESULT.values(), self.dtype)
        if self.out_dtype:
            types[RESULT[self.family]] = self.out_dtype
        elif self.family == "conv.fwd":
            del types["dtype_out"]  # by default that of the input, or wider
        return GroupedConvProblem(
            self.family, self.input, self.weights, **types, **self.motion, k_batch=self.k_batch
        )

    @property
    def flops(self) -> float:
        return self.make().flops

    def stages(self, arch: str) -> dict[str, dict[str, list[Any]]]:
        """The family, and the signature of the problem as a condition on keys of any arch."""
        read = [name for name in RESULT.values() if name != RESULT[self.family]]
        wanted: dict[str, list[Any]] = {name: [self.dtype] for name in read}
        wanted["layout"] = [CONV_LAYOUT.values[len(self.input) - 3]]
        if self.out_dtype:
            wanted[RESULT[self.family]] = [self.out_dtype]
        return {self.family: wanted}

    def to_dict(self) -> dict[str, Any]:
        return {"direction": self.family, **self.make().to_dict()}

    def operands(self) -> ConvOperands:
        """Random data for the problem."""
        from .operands import ConvOperands

        return ConvOperands(self)


def _text(sizes: Sizes) -> str:
    return "x".join(map(str, sizes))


def conv_options(
    family: str,
    shape: Sizes,
    dtype: str,
    out_dtype: str | None,
    filter_: Sizes | None = None,
    stride: Sizes = (1,),
    padding: Sizes = (0,),
    dilation: Sizes = (1,),
    groups: int = 1,
    k_batch: int = 0,
) -> ConvOptions:
    """The problem, or a :class:`click.UsageError` for options that do not fit."""
    if not 3 <= len(shape) <= 5:
        raise click.UsageError(
            f"--shape of {family} is N, C and one to three spatial sizes, e.g. 8x64x56x56, not "
            f"{len(shape)} sizes"
        )
    rank = len(shape) - 2
    if filter_ is None:
        raise click.UsageError(f"{family} needs --filter: K and the filter, e.g. 128x3x3")
    if len(filter_) != rank + 1:
        raise click.UsageError(
            f"--filter holds {_text(filter_)}; for this --shape it is K and {rank} "
            f"size{'s' if rank > 1 else ''} of the filter, e.g. {_text((128, *(3,) * rank))}"
        )
    if groups < 1 or shape[1] % groups:
        raise click.UsageError(f"--groups {groups} does not divide the {shape[1]} input channels")
    for name, sizes in (("stride", stride), ("padding", padding), ("dilation", dilation)):
        if len(sizes) not in (1, rank):
            raise click.UsageError(
                f"--{name} holds {len(sizes)} sizes for {rank} spatial dimensions; give one, or "
                "one for each"
            )
    weights = (filter_[0], shape[1] // groups, *filter_[1:])
    each = [sizes * rank if len(sizes) == 1 else sizes for sizes in (stride, padding, dilation)]
    return ConvOptions(
        *(family, shape, weights), each[0], each[1], each[2], groups, dtype, out_dtype, k_batch
    )
