"""Sweep files: which attention kernels to enumerate, in the form of earlier enumerators.

``{"variant": "fwd", "trait_config": {"data_type": {"values": ["fp16"]}, ...}}``: the variant names
one or several families, each trait the values that a field may have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...arch import arch as find_arch
from ...enums import unknown
from ...errors import InvalidKey
from ...schema import fields_by_name
from . import families
from .columns import warp_tiles
from .families import FIELDS
from .key import FmhaKey
from .signature_rules import FAMILY_DTYPES

VARIANTS = {
    "fwd": ("fmha.fwd",),
    "splitkv": ("fmha.splitkv", "fmha.splitkv_combine"),
    "pagedkv": ("fmha.pagedkv",),
    "appendkv": ("fmha.appendkv",),
    "batch_prefill": ("fmha.batch_prefill",),
    "bwd": families.BACKWARD,
}
# Traits and the fields that they are.
_TRAITS = {
    "data_type": "dtype",
    "pipeline": "pipeline",
    "mask": "mask",
    "bias": "bias",
    "mode": "mode",
    "lse": "lse",
    "dropout": "dropout",
    "logits": "logits",
    "sink": "sink",
    "paged_kv": "paged_kv",
    "block_per_cu": "block_per_cu",
}
# Other names of values.
_VALUES: dict[str, dict[Any, Any]] = {
    "mask": {"causal": "top_left"},
    "pipeline": {"qr_async_trload_v3": "v3"},
    "block_per_cu": {-1: 0},
}
_EVERYWHERE = ("dtype", "mode", "block_per_cu")


def read_sweep(
    source: str | Path | Mapping[str, Any], arch: str
) -> list[tuple[str, dict[str, Any]]]:
    """The families of a sweep file, each with what its fields may be on ``arch``.

    ``source`` is a path, JSON text or a loaded document. :class:`InvalidKey` says where the
    document is wrong.
    """
    place, document = _load(source)
    _members(place, document, ("variant", "trait_config"), "a sweep")
    variant = document.get("variant", "fwd")
    if not isinstance(variant, str) or variant not in VARIANTS:
        raise InvalidKey(f"{place}.variant: {unknown('variant', variant, tuple(VARIANTS))}")
    traits = document.get("trait_config", {})
    _members(f"{place}.trait_config", traits, tuple(_TRAITS), "trait_config")
    wanted = {
        _TRAITS[trait]: _trait(f"{place}.trait_config.{trait}", _TRAITS[trait], entry)
        for trait, entry in traits.items()
    }
    for trait, field in _TRAITS.items():
        if field in wanted and not any(_has(f, field) for f in VARIANTS[variant]):
            raise InvalidKey(f"{place}.trait_config.{trait}: variant {variant} has no {field}")
    found = []
    for family in VARIANTS[variant]:
        where = {field: values for field, values in wanted.items() if _has(family, field)}
        if "dtype" in where:
            where["dtype"] = [d for d in where["dtype"] if _on_arch(family, d, arch)]
        if where.get("dtype", True):
            found.append((family, where))
    if not found:
        raise InvalidKey(
            f"{place}.trait_config.data_type: {arch} has no kernels of {variant} of "
            f"{', '.join(wanted['dtype'])}"
        )
    return found


def _has(family: str, field: str) -> bool:
    """Whether a sweep of ``family`` chooses ``field``."""
    if field == "pipeline":
        return len(families.PIPELINES[family]) > 1
    return field in FIELDS[family] or field in _EVERYWHERE


def _on_arch(family: str, dtype: str, arch: str) -> bool:
    if not find_arch(arch).is_gpu:
        return family not in families.BACKWARD or dtype in families.BACKWARD_DTYPES
    return dtype in FAMILY_DTYPES[family] and bool(warp_tiles(arch, dtype))


def _load(source: str | Path | Mapping[str, Any]) -> tuple[str, Any]:
    if isinstance(source, Mapping):
        return "sweep", source
    place, text = "sweep", source
    if isinstance(source, Path) or not source.lstrip().startswith("{"):
        place = str(source)
        try:
            text = Path(source).read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidKey(f"cannot read the sweep {source}: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise InvalidKey(f"{source}: not UTF-8 text ({error})") from None
    try:
        return place, json.loads(str(text))
    except json.JSONDecodeError as error:
        raise InvalidKey(
            f"{place}: not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidKey(f"{place}: not JSON that can be read: {error}") from None


def _members(place: str, value: Any, known: Sequence[str], what: str) -> None:
    if not isinstance(value, Mapping):
        raise InvalidKey(f"{place}: {what} is an object with {', '.join(known)}, not {value!r}")
    for member in value:
        if member not in known:
            raise InvalidKey(f"{place}: {unknown('member', member, known)}")


def _trait(place: str, field: str, entry: Any) -> list[Any]:
    """The values of a trait, as the field has them."""
    _members(place, entry, ("values",), "a trait")
    if "values" not in entry:
        raise InvalidKey(f'{place}: a trait has "values"')
    values = entry["values"]
    if field == "block_per_cu" and isinstance(values, int) and not isinstance(values, bool):
        values = [values]
    if not isinstance(values, list) or not values:
        raise InvalidKey(f"{place}.values: a list of at least one value, not {values!r}")
    spec = fields_by_name(FmhaKey)[field]
    other = _VALUES.get(field, {})
    found = []
    for i, value in enumerate(values):
        plain = isinstance(value, (str, int))
        try:
            found.append(spec.validate(other.get(value, value) if plain else value))
        except InvalidKey as error:
            raise InvalidKey(f"{place}.values[{i}]: {error}") from None
    return list(dict.fromkeys(found))
