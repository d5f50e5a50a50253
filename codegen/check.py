"""Checking a whole set by the rules before anything is written."""

from __future__ import annotations

from collections.abc import Iterable

from .errors import InvalidKey
from .key import KernelKey
from .rules import check_all

_SHOWN = 5


def checked_keys(kernels: Iterable[KernelKey]) -> list[tuple[str, KernelKey]]:
    """(canonical name, key) of every kernel, in order, without repeats.

    :class:`InvalidKey` lists the first keys that break a rule, with rule and reason.
    """
    keys = {key.name: key for key in kernels}
    reports = zip(keys, check_all(list(keys.values())), strict=True)
    broken = [(name, found) for name, found in reports if found]
    if broken:
        lines = [f"  {name}: " + "; ".join(map(str, found)) for name, found in broken[:_SHOWN]]
        more = [f"  and {len(broken) - _SHOWN} more"] if len(broken) > _SHOWN else []
        raise InvalidKey(
            f"{len(broken)} of {len(keys)} kernels break a rule and cannot be built:\n"
            + "\n".join(lines + more)
        )
    return list(keys.items())
