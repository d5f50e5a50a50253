"""The named kernel sets of an op, from its ``presets.json``.

A preset is a list of sweeps over curated algorithms: a family, what it must equal (``where``) and
which part of the curated space it takes. It exists on an arch if it selects at least one kernel
there.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..arch import arch as find_arch
from ..errors import InvalidKey
from ..key import KernelKey
from ..space import Space, column_names
from .definition import Preset, SpaceRequest

Sweep = Mapping[str, Any]


@dataclass(frozen=True)
class Presets:
    """How an op makes its presets; ``curated`` gives the curated space of some roles, or of all."""

    path: Path
    key_class: type[KernelKey]
    aliases: Mapping[str, tuple[str, ...]]
    curated: Callable[[SpaceRequest, Sequence[str]], Space]

    def read(self) -> Mapping[str, Preset]:
        """Preset name -> preset, in the order of the data file."""
        document: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return {
            name: Preset(entry["doc"], functools.partial(self._spaces, entry["sweeps"]))
            for name, entry in document.items()
        }

    def _spaces(self, sweeps: Sequence[Sweep], arch: str) -> list[Space]:
        kind = find_arch(arch).kind
        chosen = [self._space(s, arch) for s in sweeps if s.get("kind", kind) == kind]
        return [space for space in chosen if space is not None and len(space)]

    def _space(self, sweep: Sweep, arch: str) -> Space | None:
        where, aliases = sweep["where"], self.aliases
        columns = (column_names(self.key_class, n) for n in where if n not in aliases)
        named = frozenset(column for names in columns for column in names)
        provider = find_arch(arch).provider
        request = SpaceRequest(sweep["family"], arch, provider, "curated", None, named)
        try:
            space = self.curated(request, sweep.get("roles", ()))
            for name, values in where.items():
                space = space.restrict(name, values, aliases.get(name))
        except InvalidKey:  # the arch has nothing curated for one of the types: no such preset
            return None
        return space
