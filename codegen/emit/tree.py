"""What a generated folder holds: units, how each is compiled, and the library they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..arch import arch
from ..errors import BuildError
from ..jobs import memory_mb
from ..key import KernelKey
from ..providers import Provider, provider
from ..toolchain import Toolchain, shared_library_name

LIBRARY_SOURCE = "library.cpp"
LIBRARY_OBJECT = "obj/library.o"


@dataclass(frozen=True)
class Variant:
    """A way to compile: all kernels of one provider and arch share it."""

    name: str
    provider: Provider
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Unit:
    """One kernel: its source and its object, relative to the folder."""

    name: str
    key: KernelKey
    variant: str
    source: str
    object: str


@dataclass(frozen=True)
class Regenerate:
    """The command that writes the folder again, and the files whose change asks for it."""

    command: tuple[str, ...]
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Tree:
    """A generated folder. Paths are relative to it, but for ``include_dirs``."""

    library: str
    units: tuple[Unit, ...]
    variants: Mapping[str, Variant]
    include_dirs: tuple[str, ...]
    optional_flags: tuple[str, ...] = ()
    toolchain: Toolchain | None = None
    regenerate: Regenerate | None = None
    prebuilt: Mapping[str, str] = field(default_factory=dict)

    @property
    def output(self) -> str:
        return shared_library_name(self.library)

    @property
    def header(self) -> str:
        return f"include/{self.library}.hpp"

    @property
    def base(self) -> Variant:
        """How the registration unit is compiled: no flags of any arch."""
        first = next(iter(self.variants.values())).provider
        return Variant("library", first, first.compile_flags)

    def libraries(self) -> tuple[str, ...]:
        """Flags at the end of the link command."""
        return tuple(
            dict.fromkeys(f for v in self.variants.values() for f in v.provider.link_flags)
        )

    def pools(self) -> dict[str, int]:
        """Provider -> compile jobs that the memory of this machine can hold."""
        total = memory_mb(available=False)
        needs = {v.provider.name: v.provider.job_memory_mb for v in self.variants.values()}
        return {name: max(1, total // need) for name, need in needs.items()}


def make_tree(
    library: str,
    keys: Sequence[tuple[str, KernelKey]],
    *,
    toolchain: Toolchain | None,
    include_dirs: Sequence[Path],
    regenerate: Regenerate | None = None,
    prebuilt: Mapping[str, str] | None = None,
    accepts: Callable[[str], bool] | None = None,
) -> Tree:
    """The tree of ``keys``, given as (canonical name, key) pairs.

    ``prebuilt`` maps names of kernels to objects that are linked as they are. ``accepts`` tells
    whether the compiler takes an optional flag, by default by asking it.
    """
    if accepts is None:
        accepts = toolchain.accepts if toolchain is not None else lambda flag: True
    variants: dict[tuple[str, str], Variant] = {}
    units = []
    for name, key in keys:
        variant = variants.get((key.provider, key.arch))
        if variant is None:
            variant = variants[key.provider, key.arch] = _variant(key)
        if key.op not in variant.provider.kernels:
            raise BuildError(f"provider {key.provider} has no kernels of op {key.op}")
        source = f"units/{name}{variant.provider.suffix}"
        units.append(Unit(name, key, variant.name, source, f"obj/{name}.o"))
    wanted = dict.fromkeys(f for v in variants.values() for f in v.provider.optional_flags)
    return Tree(
        library=library,
        units=tuple(units),
        variants={v.name: v for v in variants.values()},
        include_dirs=tuple(str(d) for d in include_dirs),
        optional_flags=tuple(filter(accepts, wanted)),
        toolchain=toolchain,
        regenerate=regenerate,
        prebuilt=prebuilt or {},
    )


def compiler_commands(keys: Sequence[tuple[str, KernelKey]]) -> tuple[str, ...]:
    """The compilers to look for, best first, if none is set.

    :class:`BuildError` if there are no kernels of a provider to compile.
    """
    owners = {(key.provider, key.arch): key for _, key in keys}.values()
    return tuple(dict.fromkeys(c for key in owners for c in _owner(key).compilers))


def _owner(key: KernelKey) -> Provider:
    return provider(key.provider, arch(key.arch))


def _variant(key: KernelKey) -> Variant:
    facts, owner = arch(key.arch), _owner(key)
    name = f"{owner.name}_{facts.name}".replace("-", "_")
    return Variant(name, owner, (*owner.compile_flags, *owner.arch_flags(facts)))
