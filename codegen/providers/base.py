"""What a provider tells the generator: how its kernels are written, compiled and linked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..cuda import CudaToolchain
from ..key import KernelKey
from ..rocm import HipToolchain
from ..steps import Command, Rule, Step
from ..toolchain import Toolchain

LIBRARY_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden")


@dataclass(frozen=True)
class Setup:
    """What the commands of a build depend on, apart from the kernels.

    ``targets`` maps an arch to the target it is compiled for, where that has features
    (``gfx942:xnack-``). ``group`` says which kernels share a unit: ``None`` or ``tile``.
    ``accepts`` and ``hip_accepts`` tell whether a compiler takes optional flags, by default by
    asking it.
    """

    toolchain: Toolchain | None
    include_dirs: tuple[str, ...]
    hip: HipToolchain | None = None
    cuda: CudaToolchain | None = None
    targets: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    accepts: Callable[[str], bool] | None = None
    hip_accepts: Callable[[tuple[str, ...]], bool] | None = None

    def cxx_takes(self, flag: str) -> bool:
        """Whether the C++ compiler takes ``flag``; without one, whoever builds will see."""
        ask = self.accepts or (self.toolchain.accepts if self.toolchain is not None else None)
        return ask is None or ask(flag)

    def hip_takes(self, flags: tuple[str, ...]) -> bool:
        """Whether the HIP compiler takes ``flags``."""
        if self.hip_accepts is not None:
            return self.hip_accepts(flags)
        return self.hip is not None and self.hip.accepts(*flags)


@dataclass(frozen=True)
class Unit:
    """One kernel: its source and the object it is in, relative to the folder."""

    name: str
    key: KernelKey
    source: str
    object: str


@dataclass(frozen=True)
class Recipe:
    """How the kernels of one provider become objects.

    ``bundles`` are generated sources that include others: path -> sources.
    """

    units: tuple[Unit, ...]
    steps: tuple[Step, ...]
    bundles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Keys = Sequence[tuple[str, KernelKey]]


@dataclass(frozen=True)
class Provider:
    """How the units of one kernel library are written, compiled and linked.

    ``kernels`` maps an op to the header a unit includes and the macro that defines its kernel.
    ``suffix`` and ``template`` are those of a unit. ``compilers`` are the C++ compilers tried, in
    order, when none is set; ``needs`` says which other there must be: ``hip``, ``cuda`` or none.
    ``optional_flags`` go to the C++ compiler and the linker, each only if a program can be linked
    with it. ``job_memory_mb`` is what one compile job may take at its peak.
    """

    name: str
    kernels: Mapping[str, tuple[str, str]]
    suffix: str
    template: str
    recipe: Callable[[Keys, Setup], Recipe]
    compilers: tuple[str, ...]
    job_memory_mb: int
    optional_flags: tuple[str, ...] = ()
    needs: str = ""


def short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def chunks(names: Sequence[str], size: int) -> list[list[str]]:
    """``names`` in parts that stay what they are, but for one, when a name comes or goes.

    What is not more than one part of ``size`` holds is one part. Else a part ends where the name
    says so.
    """
    if len(names) <= size:
        return [list(names)]
    parts: list[list[str]] = [[]]
    for name in names:
        parts[-1].append(name)
        if int(short_digest(name), 16) % (size // 2) == 0 or len(parts[-1]) == size:
            parts.append([])
    return [part for part in parts if part]


def own_file(path: str, setup: Setup) -> str:
    """A source of the providers, in the first of ckdisp's folders that has it."""
    places = [os.path.join(folder, "providers", path) for folder in setup.include_dirs]
    return next(filter(os.path.isfile, places), places[-1])


def include_flags(setup: Setup) -> tuple[str, ...]:
    """The folders of ckdisp's headers; those in the generated folder come first."""
    return tuple(f"-I{d}" for d in ("include", *setup.include_dirs))


def cxx_rule(
    name: str,
    flags: Sequence[str],
    source: str,
    output: str,
    setup: Setup,
    optional_flags: Sequence[str],
    pool: str,
) -> Rule:
    """A rule for the C++ compiler; without one it has no commands, only flags."""
    commands: tuple[Command, ...] = ()
    if setup.toolchain is not None:
        program = setup.toolchain.command
        extra = (*optional_flags, *setup.toolchain.cxx_flags)
        words = (*program, *flags, *extra, *include_flags(setup))
        commands = (Command(words, "-MD -MF $out.d -c $in -o $out", len(program)),)
    return Rule(name, "cxx", source, output, tuple(flags), commands, pool)
