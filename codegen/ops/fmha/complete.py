"""The defaults of single attention keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...arch import arch, arches
from ...errors import InvalidKey
from . import curated, families, receipts, space
from .columns import table
from .families import FIELDS, FORWARD, NEUTRAL, cpu_value

# What a kernel computes that is not said, where the family leaves a choice.
_USUAL: dict[str, Any] = {
    "kv_memory_layout": "linear",
    "kv_lookup_table": "sglang",
    "page_size": 1,
}
_TEXTS = ("tile", "wave", "warp")


def complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of a key: those ``given``, the rest from the curated algorithm nearest to them.

    ``given`` holds at least family, arch and provider.
    """
    family, values = given["family"], dict(given)
    if not arch(values["arch"]).is_gpu:
        return _cpu(family) | values
    values.setdefault("dtype", "fp16")
    if "hdim_q" not in values:
        values["hdim_q"] = values.get("hdim_v", 128)
    row = _nearest(values)
    if "hdim_v" not in values:
        same = row.hdim_q == values["hdim_q"]
        values["hdim_v"] = row.hdim_v if same else values["hdim_q"]
    features = _features(row, values)
    return features | _algorithm(row, values) | values


def _cpu(family: str) -> dict[str, Any]:
    return {
        "dtype": "fp32",
        **{field: cpu_value(family, field) for field in NEUTRAL},
        "hdim_q": 0,
        "hdim_v": 0,
        "mode": "any",
        "pipeline": "online",
        "block_per_cu": 0,
        "tile": space.cpu_tiles(family)[0],
        "wave": (),
        "warp": (),
        "padding": (1, 1, 1, 1),
    }


def _nearest(values: Mapping[str, Any]) -> curated.Curated:
    """The curated algorithm that agrees most with ``values``; of equal ones the most general."""
    rows = curated.curated(values["arch"], values["family"])
    if not rows:
        archs = [name for name in arches() if curated.curated(name, values["family"])]
        raise InvalidKey(
            f"{values['arch']} has no kernels of {values['family']}; archs that have: "
            + ", ".join(archs)
        )
    return max(rows, key=lambda row: _agreement(row, values))


def _agreement(row: curated.Curated, values: Mapping[str, Any]) -> tuple[float, ...]:
    numbers = {f: space.numbers(getattr(row, f)) for f in _TEXTS}

    def same(field: str) -> bool:
        if field not in values:
            return True
        if field in numbers:
            return bool(values[field] == numbers[field] + (0,) * (9 - len(numbers[field])))
        return bool(values[field] == getattr(row, field))

    asked = row.receipts is None or receipts.DEFAULT in row.receipts
    features = sum(values.get(f, v[0]) in v for f, v in row.features.items())
    free = all(values.get(f, _default(values["family"], f)) in v for f, v in row.features.items())
    group = (
        values.get("mode") == "group"
        and not row.padding[0]
        and values["family"] != families.GRADIENT
    )
    return (
        same("pipeline") and (asked or "pipeline" in values),
        same("dtype"),
        -abs(row.hdim_q - values["hdim_q"]),
        same("hdim_v"),
        free and not group,
        features / max(len(row.features), 1),
        sum(map(same, (*_TEXTS, "padding", "use_trload", "block_per_cu", "max_seq_len_q"))),
        -row.use_trload,
        sum(map(bool, row.padding)) + sum(p == 1 for p in row.padding),
        numbers["tile"][0],
    )


def _default(family: str, field: str) -> Any:
    if field == "mode":
        return "group" if family == "fmha.batch_prefill" else "batch"
    if field in _USUAL and field in FIELDS[family]:
        return _USUAL[field]
    return NEUTRAL[field]


def _features(row: curated.Curated, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the kernel computes: the plainest that the algorithm is built with."""
    family = values["family"]
    found = {}
    for field in ("mode", *NEUTRAL):
        default = _default(family, field)
        known = row.features.get(field, [default])
        found[field] = default if default in known else known[0]
    if values.get("dropout", found["dropout"]) and family == families.GRADIENT:
        found["dropout_warp"] = space.numbers(row.warp)[0]
    if "mask" in FIELDS[family] and row.pipeline != "v3":
        found["simplified_mask"] = values.get("mask", "no") in ("no", "generic")
    return found


def _algorithm(row: curated.Curated, values: Mapping[str, Any]) -> dict[str, Any]:
    tile = list(space.numbers(row.tile))
    q, v = values["hdim_q"], values["hdim_v"]
    if values["family"] in FORWARD and (row.hdim_q, row.hdim_v) != (q, v):
        # Of other head dimensions, the numbers that span them.
        tile[3] = v
        tile[5] = next((n for n in table("head_lengths") if n >= q), q)
    return {
        "tile": tuple(tile),
        "wave": space.numbers(row.wave),
        "warp": space.numbers(row.warp),
        **{f: getattr(row, f) for f in ("pipeline", "padding", "block_per_cu", "max_seq_len_q")},
        **{f: getattr(row, f) for f in ("use_trload", "num_wave_groups")},
    }
