"""Where the kernels of a command come from: a library, a build on demand, or the wheel."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .problems import ProblemOptions
from .selection import Selection

if TYPE_CHECKING:
    from .. import Dispatcher, Registry

threads_option = click.option(
    "--threads", type=click.IntRange(1, 4096), help="Threads; default: all usable CPUs."
)


def limit_threads(threads: int | None) -> None:
    """Make the BLAS of NumPy use ``threads`` too; it asks once, when NumPy is imported."""
    if threads is None or "numpy" in sys.modules:
        return
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(threads)


@dataclass(frozen=True)
class Source:
    """What the options of :func:`source_options` said."""

    libraries: tuple[Path, ...]
    jit: bool
    preset: str | None
    tiles: str | None
    threads: int | None

    def registry(self, problem: ProblemOptions, arch: str = "native") -> Registry:
        """The kernels of the source; ``arch`` is what --jit compiles for."""
        from .. import KernelSet, Registry

        if self.jit:
            kernels = KernelSet()
            for family, where in problem.stages(arch).items():
                kernels |= Selection(
                    family=family,
                    arches=(arch,),
                    provider=None,
                    preset=self.preset,
                    tiles=self.tiles,
                    where=where,
                    spec=None,
                    companions=False,  # each stage is named
                ).kernel_set()
            return kernels.build()
        if not self.libraries:
            return Registry.prebuilt()
        registry = Registry.load(self.libraries[0])
        for path in self.libraries[1:]:
            registry.add(path)
        return registry

    def dispatcher(self, problem: ProblemOptions, arch: str | None = None) -> Dispatcher:
        """A dispatcher over the kernels of the stages of ``problem``, for this machine or ``arch``.

        What ``arch`` names need not be here.
        """
        from .. import Dispatcher

        families = problem.stages(arch or "native")
        registry = self.registry(problem, arch or "native")
        stages = registry.filter(lambda kernel: kernel.family in families)
        return Dispatcher(stages, num_threads=self.threads, arch=arch)


_OPTIONS = (
    click.option(
        "--library",
        "libraries",
        type=click.Path(path_type=Path),
        multiple=True,
        help="Kernel library to use in place of the prebuilt kernels; may be repeated.",
    ),
    click.option("--jit", is_flag=True, help="Compile the kernels of the problem, or reuse them."),
    click.option("--preset", help="With --jit: compile this preset."),
    click.option(
        "--tiles",
        type=click.Choice(["curated", "all"]),
        help="With --jit: the curated tiles or every legal one; default: curated.",
    ),
    threads_option,
)


def source_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :class:`Source`; it receives one ``source``."""

    @functools.wraps(command)
    def wrapper(
        libraries: tuple[Path, ...],
        jit: bool,
        preset: str | None,
        tiles: str | None,
        threads: int | None,
        **rest: Any,
    ) -> None:
        if jit and libraries:
            raise click.UsageError("--jit and --library exclude each other; give one")
        if (preset or tiles) and not jit:
            raise click.UsageError("--preset and --tiles say what to compile; add --jit")
        limit_threads(threads)
        command(source=Source(libraries, jit, preset, tiles, threads), **rest)

    for option in reversed(_OPTIONS):
        wrapper = option(wrapper)
    return wrapper
