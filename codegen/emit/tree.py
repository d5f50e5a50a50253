"""What a generated folder holds: units, the steps that make objects of them, and the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..arch import arch
from ..errors import BuildError
from ..jobs import memory_mb
from ..key import KernelKey
from ..providers import CPU, LIBRARY_FLAGS, Provider, Setup, Unit, cxx_rule, provider
from ..steps import Rule, Step
from ..toolchain import shared_library_name

LIBRARY_SOURCE = "library.cpp"
LIBRARY_OBJECT = "obj/library.o"


@dataclass(frozen=True)
class Regenerate:
    """The command that writes the folder again, and the files whose change asks for it."""

    command: tuple[str, ...]
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Tree:
    """A generated folder. Paths are relative to it, but for those of ckdisp's own files.

    ``steps`` make everything but the library itself, what others need first. ``bundles`` are the
    generated sources that include others. ``refused_flags`` are optional flags that the
    C++ compiler does not take. ``done`` are the outputs that are there already.
    ``seal`` is the command that writes sums into the library at the path that follows it, if any.
    """

    library: str
    units: tuple[Unit, ...]
    steps: tuple[Step, ...]
    setup: Setup
    providers: tuple[Provider, ...]
    bundles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional_flags: tuple[str, ...] = ()
    refused_flags: tuple[str, ...] = ()
    regenerate: Regenerate | None = None
    done: frozenset[str] = frozenset()
    seal: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        return shared_library_name(self.library)

    @property
    def header(self) -> str:
        return f"include/{self.library}.hpp"

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of all steps, in order of their first use."""
        return tuple({step.rule.name: step.rule for step in self.steps}.values())

    @property
    def objects(self) -> tuple[str, ...]:
        """What is linked, in order."""
        return tuple(step.output for step in self.steps if step.rule.makes_object)

    def open_steps(self) -> tuple[Step, ...]:
        """The steps that are left to do: not done, and of use to one that is not done."""
        left = [step for step in self.steps if step.output not in self.done]
        needed = {need for step in left if step.rule.makes_object for need in step.rule.needs}
        return tuple(s for s in left if s.rule.makes_object or s.output in needed)

    def pools(self) -> dict[str, int]:
        """Provider -> compile jobs that the memory of this machine can hold."""
        total = memory_mb(available=False)
        needs = {p.name: p.job_memory_mb for p in self.providers}
        return {name: max(1, total // need) for name, need in needs.items()}


def make_tree(
    library: str,
    keys: Sequence[tuple[str, KernelKey]],
    setup: Setup,
    *,
    regenerate: Regenerate | None = None,
    done: frozenset[str] = frozenset(),
    seal: tuple[str, ...] = (),
) -> Tree:
    """The tree of ``keys``, given as (canonical name, key) pairs."""
    owned: dict[str, list[tuple[str, KernelKey]]] = {}
    owners: dict[str, Provider] = {}
    for (provider_name, _), owner in _owners(keys).items():
        owners[provider_name] = owner
    for name, key in keys:
        owned.setdefault(key.provider, []).append((name, key))
    recipes = [owners[p].recipe(members, setup) for p, members in owned.items()]
    wanted = dict.fromkeys(f for owner in owners.values() for f in owner.optional_flags)
    optional = tuple(filter(setup.cxx_takes, wanted))
    providers = tuple(owners.values()) or (CPU,)
    base = cxx_rule(
        "library",
        LIBRARY_FLAGS,
        LIBRARY_SOURCE,
        LIBRARY_OBJECT,
        setup,
        optional,
        providers[0].name,
    )
    made = {unit.name: unit for recipe in recipes for unit in recipe.units}
    return Tree(
        library=library,
        units=tuple(made[name] for name, _ in keys),
        steps=(Step("library", base), *(s for recipe in recipes for s in recipe.steps)),
        setup=setup,
        providers=providers,
        bundles={path: parts for r in recipes for path, parts in r.bundles.items()},
        optional_flags=optional,
        refused_flags=tuple(flag for flag in wanted if flag not in optional),
        regenerate=regenerate,
        done=done,
        seal=seal,
    )


def compiler_commands(keys: Sequence[tuple[str, KernelKey]]) -> tuple[str, ...]:
    """The C++ compilers to look for, best first, if none is set.

    :class:`BuildError` if there are no kernels of a provider to compile.
    """
    return tuple(dict.fromkeys(c for owner in _owners(keys).values() for c in owner.compilers))


def needs(kind: str, keys: Sequence[tuple[str, KernelKey]]) -> bool:
    """Whether some of the kernels are compiled by a compiler of ``kind``, ``hip`` or ``cuda``."""
    return any(owner.needs == kind for owner in _owners(keys).values())


def _owners(keys: Sequence[tuple[str, KernelKey]]) -> dict[tuple[str, str], Provider]:
    """(provider, arch) -> provider, of every key."""
    found: dict[tuple[str, str], Provider] = {}
    for _, key in keys:
        if (key.provider, key.arch) not in found:
            owner = provider(key.provider, arch(key.arch))
            if key.op not in owner.kernels:
                raise BuildError(f"provider {key.provider} has no kernels of op {key.op}")
            found[key.provider, key.arch] = owner
    return found
