"""Rules of attention kernels on CPU levels, which read all but types and tile from a call."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...columns import Array, Columns, encode
from ...rules import Rule
from ...schema import fields_by_name
from ..kinds import fixed_on_cpu, kind_rule
from .columns import all_of, by_family
from .families import CPU_VALUES, FIELDS, cpu_value
from .key import FmhaKey

# Values that are the same in all families.
FIXED: dict[str, tuple[Any, str]] = {
    "hdim_q": (0, "CPU kernels take any head dimension"),
    "hdim_v": (0, "CPU kernels take any head dimension"),
    "mode": ("any", "a call says how its sequences are stored"),
    "vlayout": ("r", "a call says how V is stored"),
    "qscale": ("no", "CPU kernels use the scales that a call has"),
    "kv_memory_layout": ("none", "a call says how pages are stored"),
    "kv_lookup_table": ("none", "a call says how pages are found"),
    "page_size": (0, "a call says how large pages are"),
    "use_trload": (False, "a CPU has no LDS"),
    "simplified_mask": (False, "CPU kernels know every mask"),
    "wave": ((0,) * 9, "a CPU has no waves"),
    "warp": ((0,) * 9, "a CPU has no warp tiles"),
    "pipeline": ("online", "CPU kernels update a softmax tile by tile"),
    "padding": ((1, 1, 1, 1), "CPU kernels take any size"),
    "dropout_warp": (0, "CPU kernels draw numbers one by one"),
    "max_seq_len_q": (0, "CPU kernels take sequences of any length"),
    "num_wave_groups": (1, "a CPU has no waves"),
    "block_per_cu": (0, "a CPU has no blocks"),
}
# Those that follow from the family.
BY_FAMILY = tuple(CPU_VALUES)
MAX_QUERIES = 1 << 10
MAX_KEYS = 1 << 12


def _by_family(field: str) -> Rule:
    spec = fields_by_name(FmhaKey)[field]
    codes = by_family({f: encode(spec, cpu_value(f, field))[0] for f in FIELDS}, 0)

    def valid(c: Columns) -> Array:
        return np.asarray(c[field] == codes[c["family"]])

    def reason(k: FmhaKey) -> str:
        expected = str(cpu_value(k.family, field)).lower()
        why = "a call decides" if expected in ("any", "true") else "the family does not have it"
        return f"{field} must be {expected} in {k.family} on {k.arch}: {why}"

    doc = f"{field} is left to the call on CPU levels, in families that have it"
    return kind_rule("cpu", f"cpu_{field}", doc, f"family {field}", valid, reason)


def _tile(c: Columns) -> Array:
    sides = (c["tile_0"] > 0) & (c["tile_0"] <= MAX_QUERIES)
    sides &= (c["tile_1"] > 0) & (c["tile_1"] <= MAX_KEYS)
    return np.asarray(sides & all_of([c[f"tile_{i}"] == 0 for i in range(2, 9)]))


RULES: tuple[Rule, ...] = (
    *(fixed_on_cpu(FmhaKey, field, value, why) for field, (value, why) in FIXED.items()),
    *(_by_family(field) for field in BY_FAMILY),
    kind_rule(
        "cpu",
        "cpu_tile",
        "a cache block has queries and keys",
        " ".join(f"tile_{i}" for i in range(9)),
        _tile,
        lambda k: (
            f"tile {list(k.tile)} on {k.arch}: queries, at most {MAX_QUERIES}, and keys, at most "
            f"{MAX_KEYS}"
        ),
    ),
)
