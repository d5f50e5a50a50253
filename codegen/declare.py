"""From the words of a declaration (family, arch, where, preset) to the parts of a kernel set."""

from __future__ import annotations

import dataclasses
import os
import platform
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .arch import arch as find_arch
from .arch import arches
from .enums import FAMILY_GROUPS, PROVIDER, families_named, unknown
from .errors import InvalidKey, suggest
from .key import KernelKey
from .ops import op_of_family, ops
from .ops.definition import Op, Preset, SpaceRequest
from .parts import Declaration, KeyList, Part, SpacePart
from .schema import columns_of, fields_by_name
from .space import Space, column_names

ArchLike = str | Sequence[str]
TILES = ("curated", "all")


def resolve_archs(archs: ArchLike, provider: str | None = None) -> tuple[str, ...]:
    """Arch names, without repetition: of one name or several, ``cpu`` or ``native``.

    ``native`` is the best CPU level of this machine or, for a ``provider`` of GPU kernels, what
    :func:`.rocm.archs.find_archs` finds.
    """
    if not isinstance(archs, (str, list, tuple)):
        raise InvalidKey(f"arch must be a name or a list of names, not {archs!r}")
    names: dict[str, None] = {}
    for name in [archs] if isinstance(archs, str) else archs:
        if not isinstance(name, str):
            raise InvalidKey(f"arch must be a name, not {name!r}")
        if name == "cpu":
            names.update((n, None) for n, facts in arches().items() if not facts.is_gpu)
        elif name == "native":
            native = native_gpus() if serves_gpus(provider) else (native_level(),)
            names.update(dict.fromkeys(native))
        else:
            names[find_arch(name).name] = None
    if not names:
        raise InvalidKey("no arch given; name at least one, e.g. 'gfx942' or 'native'")
    return tuple(names)


def serves_gpus(provider: str | None) -> bool:
    """Whether ``provider`` is one of kernels for GPUs."""
    return any(facts.is_gpu and facts.provider == provider for facts in arches().values())


def native_gpus() -> tuple[str, ...]:
    """The GPU archs that settings name, else those of this machine; warns of those unknown."""
    from .rocm.archs import default_archs  # only for who asks: it looks for ROCm

    found = default_archs()
    if found.left_out:
        warnings.warn(found.warning(), stacklevel=2)
    return found.names


def native_level() -> str:
    """The most capable CPU level of this machine, or what ``CKDISP_CPU_LEVEL`` says.

    Reads the flags in ``/proc/cpuinfo``; where there are none, the level is ``generic``.
    """
    forced = os.environ.get("CKDISP_CPU_LEVEL")
    levels = [facts for facts in arches().values() if not facts.is_gpu]
    if forced:
        known = tuple(facts.name for facts in levels)
        if forced not in known:
            raise InvalidKey(unknown("CPU level in CKDISP_CPU_LEVEL", forced, known))
        return forced
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return "generic"
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "generic"
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    flags = set(map(_joined, line.partition(":")[2].split()))
    usable = [facts for facts in levels if flags.issuperset(map(_joined, facts.features))]
    return max(usable, key=lambda facts: len(facts.features)).name


def _joined(feature: str) -> str:
    """Linux writes ``avx512_bf16`` and ``amx_tile`` for what others call avx512bf16, amx-tile."""
    return feature.replace("_", "").replace("-", "")


def declare_sweep(
    family: str,
    arch: ArchLike,
    provider: str | None,
    receipt: str | int | None,
    tiles: str,
    where: Mapping[str, Any],
    *,
    allow_empty: bool = False,
    companions: bool = True,
) -> list[Part]:
    """For each arch a part and, where its kernels need any, their companions; see
    :meth:`KernelSet.sweep`."""
    if family in FAMILY_GROUPS and not companions:
        raise InvalidKey(
            f"{family} is all of {', '.join(FAMILY_GROUPS[family])}; to leave the companions of "
            "a family out, name that one"
        )
    leading, *_ = families_named(family)
    op = op_of_family(leading)
    if tiles not in TILES:
        raise InvalidKey(unknown("tiles", tiles, TILES))
    if provider is not None:
        PROVIDER.code(provider, "provider")
    receipt = _receipt_name(op, receipt)
    values = check_where(op, where)
    named = frozenset(
        column
        for name in values
        for field in op.aliases.get(name, (name,))
        for column in column_names(op.key_class, field)
    )
    parts: list[Part] = []
    for name in resolve_archs(arch, provider):
        facts = find_arch(name)
        chosen = provider or facts.provider
        if not facts.serves(family) and not allow_empty:
            raise InvalidKey(
                f"{family} on {name}: provider {facts.provider} has kernels there of "
                f"{', '.join(facts.served)} only"
            )
        request = SpaceRequest(leading, name, chosen, tiles, receipt, named)
        try:
            space = _narrow(op, request, values, allow_empty)
        except InvalidKey as error:
            raise InvalidKey(f"{family} on {name}: {_why(op, request, values, error)}") from None
        entry: dict[str, Any] = {"family": family, "arch": name, "tiles": tiles}
        if provider is not None:
            entry["provider"] = provider
        if receipt is not None:
            entry["receipt"] = receipt
        if values:
            entry["where"] = values
        parts += _with_companions([space], entry, {**entry, "family": leading}, companions)
    return parts


def _with_companions(
    spaces: Sequence[Space],
    entry: Mapping[str, Any],
    alone: Mapping[str, Any],
    companions: bool,
) -> list[Part]:
    """The parts of an entry; ``alone`` is the one that says what ``spaces`` hold."""
    keys: dict[KernelKey, None] = {}
    if companions:
        listed = [SpacePart(space) for space in spaces]
        needed = (key for part in listed for key in part.companions())
        keys = {key: None for key in needed if not any(key in part for part in listed)}
    else:
        entry = {**entry, "companions": False}
    count = len(spaces) + bool(keys)
    without = {**alone, "companions": False} if keys and len(spaces) == 1 else None
    parts: list[Part] = [
        SpacePart(space, declaration=Declaration(entry, i, count, without))
        for i, space in enumerate(spaces)
    ]
    if keys:
        parts.append(KeyList(tuple(keys), Declaration(entry, count - 1, count)))
    return parts


def _narrow(
    op: Op, request: SpaceRequest, where: Mapping[str, Sequence[Any]], allow_empty: bool
) -> Space:
    space = op.space(request)
    for name, values in where.items():
        space = space.restrict(name, values, op.aliases.get(name))
    if not len(space) and not allow_empty:
        raise InvalidKey(f"no kernel: {space.why_empty()}")
    return space


def _why(
    op: Op, request: SpaceRequest, where: Mapping[str, Sequence[Any]], error: InvalidKey
) -> str:
    """What is wrong with a sweep: the curated list being short, or a rule."""
    if request.tiles == "all":
        return str(error)
    try:
        _narrow(op, dataclasses.replace(request, tiles="all"), where, allow_empty=False)
    except InvalidKey as deeper:
        return str(deeper)
    return f"{error}; tiles='all' has kernels for it"


def _receipt_name(op: Op, receipt: str | int | None) -> str | None:
    """The name of a receipt, which may be given as its number."""
    if receipt is None or (isinstance(receipt, str) and receipt in op.receipts):
        return receipt
    if not op.receipts:
        presets = ", ".join(op.presets())
        raise InvalidKey(
            f"{op.name} has no receipts, so {receipt!r} means nothing; its named sets are presets: "
            f"{presets}"
        )
    by_number = {str(number): name for name, number in op.receipts.items()}
    if not isinstance(receipt, bool) and str(receipt) in by_number:
        return by_number[str(receipt)]
    known = ", ".join(f"{name} ({number})" for name, number in op.receipts.items())
    raise InvalidKey(
        f"unknown receipt {receipt!r}{suggest(str(receipt), tuple(op.receipts))}; known: {known}"
    )


def check_where(op: Op, where: Mapping[str, Any]) -> dict[str, list[Any]]:
    """``where`` with every value checked and in a list."""
    fields, columns = fields_by_name(op.key_class), columns_of(op.key_class)
    known = tuple(dict.fromkeys((*fields, *op.aliases, *columns)))
    checked: dict[str, list[Any]] = {}
    for name, given in where.items():
        if name not in known:
            raise InvalidKey(unknown("field", name, known))
        spec = fields.get(name)
        if name in op.aliases:
            spec = dataclasses.replace(fields[op.aliases[name][0]], name=name)
        values = _as_list(given, triple=spec is not None and bool(spec.components))
        if not values:
            raise InvalidKey(f"{name} lists no value")
        if spec is not None:
            checked[name] = [_plain(spec.validate(value)) for value in values]
        else:
            checked[name] = [columns[name][0].component(value, name) for value in values]
    return checked


def _as_list(given: Any, *, triple: bool) -> list[Any]:
    if not isinstance(given, (list, tuple, set, frozenset, range)):
        return [given]
    values = list(given)
    single = triple and values and not isinstance(values[0], (list, tuple, str))
    return [values] if single else values


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def preset_table() -> dict[str, Preset]:
    """Every preset of every op, by name."""
    return {name: preset for op in ops() for name, preset in op.presets().items()}


def preset_names(arch: str) -> tuple[str, ...]:
    """The presets that select at least one kernel on ``arch``."""
    name = find_arch(arch).name
    return tuple(p for p, preset in preset_table().items() if preset.spaces(name))


def declare_preset(
    name: str, arch: ArchLike, provider: str | None, *, companions: bool = True
) -> list[Part]:
    """The parts of a preset; see :meth:`KernelSet.preset`."""
    table = preset_table()
    if name not in table:
        raise InvalidKey(unknown("preset", name, tuple(table)))
    parts: list[Part] = []
    for target in resolve_archs(arch, provider):
        expected = find_arch(target).provider
        if provider not in (None, expected):
            raise InvalidKey(
                f"preset {name} on {target}: it is served by provider {expected}, not "
                f"{provider!r}{suggest(provider, PROVIDER.values)}"
            )
        spaces = table[name].spaces(target)
        if not spaces:
            known = ", ".join(preset_names(target)) or "none"
            raise InvalidKey(f"preset {name} has no kernels on {target}; presets there: {known}")
        entry = {"preset": name, "arch": target}
        parts += _with_companions(spaces, entry, entry, companions)
    return parts
