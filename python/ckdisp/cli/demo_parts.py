"""What the demos of every op share."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .output import bold, colour, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .. import KernelSet, Registry

Say = Callable[[str], None]

# One rounding to the type of a result, relative to the value; what is above has another cause.
ROUNDING = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
# Two fp32 sums of thousands of products in another order differ by 1e-7 to 1e-6 of the largest.
SUMMATION = 1e-5


# The columns of text.
_LEFT = ("layer", "pass", "step", "kernel", "")


def silent(text: str) -> None:
    """Says nothing."""


class Checked(ABC):
    """A result: ``error`` is the largest |result - reference| over the largest |reference|."""

    error: float
    tolerance: float

    @property
    def ok(self) -> bool:
        return self.error <= self.tolerance  # false for NaN

    @property
    def mark(self) -> str:
        """What the table says of it in its last column."""
        return "" if self.ok else colour("WRONG", "red")

    @property
    @abstractmethod
    def place(self) -> str:
        """What it is the result of."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """The kernels that computed it."""

    @abstractmethod
    def cells(self) -> Sequence[str]:
        """Its line of the table."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """It as JSON."""

    def verdict(self) -> dict[str, Any]:
        """The error, as JSON has numbers, and whether it is right."""
        return {"error": self.error if math.isfinite(self.error) else None, "ok": self.ok}


def largest_error(out: NDArray[Any], reference: NDArray[Any]) -> float:
    """The error of a row, computed in the type of the reference."""
    import numpy as np

    difference = np.abs(out.astype(reference.dtype) - reference)
    return float(difference.max() / np.abs(reference).max())


def _line(columns: Mapping[str, int], cells: Sequence[str]) -> str:
    """A line of a table with these headers and widths."""
    parts = [
        f"{cell:<{width}}" if header in _LEFT else f"{cell:>{width}}"
        for cell, (header, width) in zip(cells, columns.items(), strict=True)
    ]
    return "  ".join(parts).rstrip()


@dataclass(frozen=True)
class Legend:
    """What a table needs explained.

    ``kernel`` says what is shown of a kernel, ``result`` what results are called, ``reference`` the
    type that NumPy computes in.
    """

    kernel: str
    result: str
    reference: str
    notes: tuple[str, ...] = ()


def show(
    results: Iterable[Checked],
    columns: Mapping[str, int],
    about: Mapping[str, Any],
    legend: Legend,
    say: Say,
) -> dict[str, Any]:
    """Say a table of results as they come, and what it means; they and ``about`` as JSON."""
    say(bold(_line(columns, tuple(columns))))
    rows = []
    for row in results:
        rows.append(row)
        say(_line(columns, row.cells()))
    failed = [row for row in rows if not row.ok]
    say(f"\nkernel: {legend.kernel}. In full:")
    for name in dict.fromkeys(name for row in rows for name in row.names()):
        say(f"  {name}")
    say(
        f"error:  largest |{legend.result} - NumPy| over the largest |NumPy|, all elements, NumPy "
        f"in {legend.reference} on the same inputs;\n"
        f"        more than {max(row.tolerance for row in rows):.1e} is no rounding of "
        f"{about['dtype']}"
    )
    for note in legend.notes:
        say(note)
    if failed:
        places = ", ".join(row.place for row in failed)
        say(colour(f"wrong: {plural(len(failed), 'result')}: {places}", "red"))
    else:
        say(colour(f"all {len(rows)} results are right", "green"))
    return {**about, "rows": [row.to_dict() for row in rows], "ok": not failed}


def kernels_at_hand(kernels: KernelSet, say: Say) -> tuple[Registry, str]:
    """The prebuilt kernels, where they hold what is asked for, or freshly built ones."""
    from .. import Registry
    from ..codegen.errors import Error

    try:
        prebuilt = Registry.prebuilt()
    except Error:
        return kernels_of(kernels, say)
    if set(kernels.names()) <= {kernel.name for kernel in prebuilt}:
        return prebuilt, "prebuilt kernels"
    return kernels_of(kernels, say)


def kernels_of(kernels: KernelSet, say: Say) -> tuple[Registry, str]:
    """Freshly built kernels, or the prebuilt ones where there is no compiler."""
    from .. import Registry
    from ..codegen.errors import BuildError

    say(f"Building {len(kernels)} kernels for this machine (a second run finds them in the cache)")
    start = time.perf_counter()
    try:
        registry = kernels.build()
    except BuildError as error:
        if _has_compiler():
            raise
        say(f"{colour('note:', 'yellow')} {error}\n")
        return Registry.prebuilt(), "prebuilt kernels"
    return registry, f"{len(registry)} kernels ready in {time.perf_counter() - start:.1f} s"


def _has_compiler() -> bool:
    from ..codegen.errors import BuildError
    from ..codegen.toolchain import Toolchain

    try:
        Toolchain.find()
    except BuildError:
        return False
    return True
