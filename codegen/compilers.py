"""The compilers that a kernel set needs: found, or missed with the kernels that go without."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from .arch import arch, parse_target
from .cuda import CudaToolchain
from .emit.tree import Tree, compiler_commands, needs
from .enums import unknown
from .errors import BuildError, InvalidKey
from .key import KernelKey
from .rocm import HipToolchain
from .toolchain import CXX_COMMANDS, Toolchain

Keys = list[tuple[str, KernelKey]]
GROUPS = ("tile",)


@dataclass(frozen=True)
class LeftOut:
    """A kernel that cannot be built here, and why."""

    name: str
    reason: str


def check_group(group: str | None) -> None:
    """:class:`BuildError` for a way of grouping kernels that does not exist."""
    if group is not None and group not in GROUPS:
        raise BuildError(f"{unknown('group', group, GROUPS)}; None gives each kernel its own unit")


def targets_of(archs: Sequence[str]) -> dict[str, str]:
    """Arch -> what it is compiled for, of those of ``archs`` that name target features.

    :class:`InvalidKey` if one arch comes with two sets of features: a library holds it once.
    """
    targets: dict[str, str] = {}
    for text in archs:
        if ":" not in text:
            continue
        name = arch(text).name
        features = sorted(parse_target(text)[1].items())
        target = ":".join((name, *(f + ("+" if on else "-") for f, on in features)))
        if targets.setdefault(name, target) != target:
            raise InvalidKey(
                f"{name} is asked for as {targets[name]} and as {target}, and one library holds "
                "an arch once; build two libraries"
            )
    return targets


def find_hip(keys: Keys) -> HipToolchain | None:
    """The HIP compiler, if some of the kernels need one; :class:`BuildError` if it is missing."""
    return HipToolchain.find() if needs("hip", keys) else None


def find_cuda(keys: Keys) -> CudaToolchain | None:
    """nvcc, if some of the kernels need it; :class:`BuildError` if it is missing."""
    return CudaToolchain.find() if needs("cuda", keys) else None


def find_cxx(keys: Keys, hip: HipToolchain | None) -> Toolchain:
    """The C++ compiler; the clang of ``hip`` will do if there is no other."""
    commands = compiler_commands(keys) or CXX_COMMANDS
    return Toolchain.find(commands=(*commands, hip.tool("clang++")) if hip else commands)


def refused_text(cxx: Toolchain, flag: str) -> tuple[str, str]:
    """What kernels go without, and what to do, where the C++ compiler does not take ``flag``."""
    command = " ".join(cxx.command)
    if flag == "-fopenmp":
        return (
            f"{command} does not link with {flag}: built kernels use one thread",
            "install the OpenMP runtime of the compiler (Debian: libomp-dev for clang)",
        )
    return f"{command} does not link with {flag}: kernels are built without", "use another compiler"


def warn_of_refused(tree: Tree, afterwards: str) -> None:
    """Warn of the optional flags that the kernels of ``tree`` go without.

    ``afterwards`` is what makes them anew, once the compiler takes the flags.
    """
    cxx = tree.setup.toolchain
    if cxx is None:
        return
    for flag in tree.refused_flags:
        lack, todo = refused_text(cxx, flag)
        warnings.warn(f"ckdisp: {lack}; {todo}, then {afterwards}", RuntimeWarning, stacklevel=3)


def split(kind: str, keys: Keys, reason: str) -> tuple[Keys, tuple[LeftOut, ...]]:
    """The kernels that need no compiler of ``kind``, and the others, left out for ``reason``."""
    kept = [pair for pair in keys if not needs(kind, [pair])]
    names = {name for name, _ in kept}
    return kept, tuple(LeftOut(name, reason) for name, _ in keys if name not in names)
