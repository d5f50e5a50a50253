"""Run kernels on drawn problems and compare them with the references."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.arch import arch
from ..codegen.errors import DeviceError, Error, InvalidArgument, UnsupportedProblem
from ..gpu import DeviceLike, device_of, devices
from . import conv, gemm
from .place import Place

if TYPE_CHECKING:
    from .. import Kernel, Registry

# A case: its name, and what runs it and says what differs.
Case = tuple[str, Callable[[], str]]


@dataclass
class Row:
    """What became of one kernel.

    ``right``, ``refused`` and ``wrong`` count its cases. ``differences`` has a line for each wrong
    one, ``refusals`` the reasons of the refused ones. ``unverified`` says why no case was run.
    """

    kernel: str
    family: str
    arch: str
    right: int = 0
    refused: int = 0
    wrong: int = 0
    differences: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    unverified: str = ""

    @property
    def cases(self) -> int:
        return self.right + self.refused + self.wrong


def verify(
    registry: Registry,
    *,
    device: DeviceLike | None = None,
    cases: int = 8,
    sample: int | None = None,
    seed: int = 0,
    report: Callable[[Row], None] | None = None,
) -> list[Row]:
    """A :class:`Row` for each kernel of ``registry``; all is well where no row is ``wrong``.

    GPU kernels run on ``device``, else on the first one of their arch; CPU kernels on this machine.
    For each kernel ``cases`` problems are drawn from its own key: sizes at, below and above its
    tiles, one and several trips of its loop, strides, nothing at all. Memory has the exact size and
    lies between guards; whatever no kernel may read holds NaN. Each problem runs twice and must
    give the same bits. ``sample`` kernels, drawn by ``seed``, are run instead of all. ``report`` is
    called with each row when it is done.

    Raises :class:`DeviceError` when no kernel can run here, :class:`InvalidArgument` for counts
    below 1.
    """
    if cases < 1 or (sample is not None and sample < 1):
        raise InvalidArgument(f"cases is {cases} and sample {sample}; pass 1 or more")
    chosen = device_of(device) if device is not None else None
    kernels = list(registry)
    random = np.random.default_rng(seed)
    if sample is not None and sample < len(kernels):
        kernels = [kernels[i] for i in sorted(random.permutation(len(kernels))[:sample])]
    rows = []
    for kernel in kernels:
        row = _verify_one(registry, kernel, _place(kernel, chosen), cases, seed)
        rows.append(row)
        if report is not None:
            report(row)
    if rows and not any(row.cases for row in rows):
        raise DeviceError(f"no kernel could be run: {rows[0].kernel}: {rows[0].unverified}")
    return rows


def _place(kernel: Kernel, chosen: Any) -> Place | str:
    """Where a kernel runs, or why it cannot."""
    if kernel.arch in _host_arches():
        return Place(None)
    if not arch(kernel.arch).is_gpu:
        return f"this CPU does not run kernels for {kernel.arch}"
    found = [chosen] if chosen is not None else devices()
    for device in found:
        if device.arch == kernel.arch:
            return Place(device)
    here = ", ".join(f"{d} is {d.arch}" for d in found) or "there is no GPU"
    return f"it runs on {kernel.arch} devices, and {here}"


def _host_arches() -> list[str]:
    from ..registry import host_arches

    return host_arches()


def _verify_one(
    registry: Registry, kernel: Kernel, place: Place | str, count: int, seed: int
) -> Row:
    from ..dispatcher import Dispatcher

    row = Row(kernel.name, kernel.family, kernel.arch)
    draw = {"gemm": gemm.cases, "conv": conv.cases}.get(kernel.family.partition(".")[0])
    if isinstance(place, str):
        row.unverified = place
    elif draw is None:
        row.unverified = f"verify does not draw problems of {kernel.family} yet"
    else:
        random = np.random.default_rng([seed, *kernel.name.encode()])
        drawn: Iterator[Case] = draw(Dispatcher(registry), kernel, place, random, count)
        for name, run in drawn:
            _count(row, name, run)
    return row


def _count(row: Row, name: str, run: Callable[[], str]) -> None:
    try:
        difference = run()
    except UnsupportedProblem as refusal:
        row.refused += 1
        row.refusals.append(f"{name}: {refusal}")
        return
    except Error as error:
        difference = f"{type(error).__name__}: {error}"
    if difference:
        row.wrong += 1
        row.differences.append(f"{name}: {difference}")
    else:
        row.right += 1


__all__ = ["Row", "verify"]
