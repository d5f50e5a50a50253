"""Checking a whole set by the rules before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from .errors import BuildError, InvalidKey
from .key import KernelKey
from .rules import Rejection, check_all

_SHOWN = 5
# More than anyone builds. A sweep over all tiles may declare millions, which would fill the memory.
MOST_KERNELS = 100_000


def checked_keys(kernels: Iterable[KernelKey]) -> list[tuple[str, KernelKey]]:
    """(canonical name, key) of every kernel, sorted by name, without repeats.

    The order in which a set was declared decides nothing: equal sets make equal files.

    :class:`InvalidKey` lists the first keys that break a rule, with rule and reason, or says that
    there are more than :data:`MOST_KERNELS`.
    """
    keys: dict[str, KernelKey] = {}
    for key in kernels:
        if len(keys) >= MOST_KERNELS and key.name not in keys:
            raise InvalidKey(
                f"the kernel set has more than {MOST_KERNELS} kernels, the most that are built at "
                "once; narrow it with `where`, or take the curated tiles or a sample of it"
            )
        keys[key.name] = key
    reports = zip(keys, check_all(list(keys.values())), strict=True)
    broken = [(name, found) for name, found in reports if found]
    if broken:
        count = f"{len(broken)} of {len(keys)} kernels"
        raise InvalidKey(f"{count} break a rule and cannot be built:\n{_lines(broken)}")
    return sorted(keys.items())


def check_features(keys: Sequence[tuple[str, KernelKey]], features: Collection[str]) -> None:
    """:class:`BuildError` if kernels need what the headers of their provider have not.

    ``features`` is what these headers have.
    """
    from .ops import op

    reports = [(name, op(key.op).missing_features(key, features)) for name, key in keys]
    broken = [(name, found) for name, found in reports if found]
    if broken:
        count = f"{len(broken)} of {len(keys)} kernels"
        raise BuildError(f"{count} cannot be built with these headers:\n{_lines(broken)}")


def _lines(broken: Sequence[tuple[str, Sequence[Rejection]]]) -> str:
    lines = [f"  {name}: " + "; ".join(map(str, found)) for name, found in broken[:_SHOWN]]
    more = [f"  and {len(broken) - _SHOWN} more"] if len(broken) > _SHOWN else []
    return "\n".join(lines + more)
