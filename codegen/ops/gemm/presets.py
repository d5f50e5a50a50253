"""The named GEMM kernel sets, from ``presets.json``.

A preset is a list of sweeps over curated tiles: a family, what it must equal (``where``) and which
roles of tile it takes. It exists on an arch if it selects at least one kernel there.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...arch import arch as find_arch
from ...errors import InvalidKey
from ...space import Space, column_names
from ..definition import Preset, SpaceRequest
from .key import GemmKey
from .space import ALIASES, curated_space


@functools.cache
def presets() -> Mapping[str, Preset]:
    """Preset name -> preset, in the order of the data file."""
    path = Path(__file__).with_name("presets.json")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Preset(entry["doc"], functools.partial(_spaces, entry["sweeps"]))
        for name, entry in document.items()
    }


def _spaces(sweeps: Sequence[Mapping[str, Any]], arch: str) -> list[Space]:
    kind = find_arch(arch).kind
    chosen = [_space(s, arch) for s in sweeps if s.get("kind", kind) == kind]
    return [space for space in chosen if space is not None and len(space)]


def _space(sweep: Mapping[str, Any], arch: str) -> Space | None:
    where = sweep["where"]
    named = frozenset(c for n in where if n not in ALIASES for c in column_names(GemmKey, n))
    request = SpaceRequest(sweep["family"], arch, find_arch(arch).provider, "curated", None, named)
    space = curated_space(request, sweep.get("roles", ()))
    try:
        for name, values in where.items():
            space = space.restrict(name, values, ALIASES.get(name))
    except InvalidKey:  # the arch has no curated tile for one of the types: no such preset there
        return None
    return space
