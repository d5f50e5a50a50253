"""The later stages of a plan: which kernels a set needs beside the leading ones that it has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...arch import arch
from ...columns import Columns, distinct_rows, from_keys
from ...errors import InvalidKey
from ..definition import SpaceRequest
from . import space
from .complete import complete
from .families import GRADIENT
from .key import FmhaKey

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Companion:
    """A family of a later stage that kernels of ``leading`` need.

    A kernel of it serves those with the same values in the columns ``shared``, of paddings the
    same in whether there is any.
    """

    leading: str
    family: str
    shared: tuple[str, ...]
    needed: Callable[[Row], bool] = lambda row: True

    def side(self) -> tuple[str, str]:
        """The columns of the head dimension that its kernels work on, and of its padding."""
        return ("hdim_v", "padding_dv") if "hdim_v" in self.shared else ("hdim_q", "padding_d")


def _sums_dq(row: Row) -> bool:
    """Whether a kernel sums dQ in fp32, for another to convert: as accumulates_dq() in C++."""
    if not arch(row["arch"]).is_gpu:
        return bool(row["dtype"] != "fp32")
    return not (row["use_trload"] and row["max_seq_len_q"])


_ANY = ("arch", "provider", "dtype", "mode")
COMPANIONS = (
    Companion("fmha.splitkv", "fmha.splitkv_combine", (*_ANY, "qscale", "hdim_v", "padding_dv")),
    Companion(GRADIENT, "fmha.bwd_dot_do_o", (*_ANY, "hdim_v", "padding_dv")),
    Companion(
        GRADIENT,
        "fmha.bwd_convert_dq",
        (*_ANY, "hdim_q", "padding_d", "deterministic", "tile_1"),
        _sums_dq,
    ),
)
_SHARED = (name for companion in COMPANIONS for name in companion.shared)
COLUMNS = tuple(dict.fromkeys(("family", "use_trload", "max_seq_len_q", *_SHARED)))


def companions(columns: Columns) -> list[FmhaKey]:
    """The kernels of later stages that leading ones with these :data:`COLUMNS` need.

    They are the curated ones with the shared values; where there is none, one is made up.
    """
    found: dict[FmhaKey, None] = {}
    rows = distinct_rows(FmhaKey, columns)
    for companion in COMPANIONS:
        wanted = {
            _shared(companion, row): row
            for row in rows
            if row["family"] == companion.leading and companion.needed(row)
        }
        for row in wanted.values():
            found.update(dict.fromkeys(_serving(companion, row)))
    return list(found)


def _serving(companion: Companion, row: Row) -> Sequence[FmhaKey]:
    listed = _curated(companion, row["arch"], row["provider"])
    same = listed.get(_shared(companion, row))
    return same or _larger(companion, row, listed) or _made(companion, row)


def _larger(
    companion: Companion, row: Row, listed: Mapping[tuple[Any, ...], Sequence[FmhaKey]]
) -> Sequence[FmhaKey]:
    """Those of the next larger head dimension, which pad."""
    size, padding = companion.side()
    sizes = sorted({getattr(key, size) for keys in listed.values() for key in keys})
    for larger in sizes:
        if larger > row[size]:
            keys = listed.get(_shared(companion, {**row, size: larger, padding: 1}))
            if keys:
                return keys
    return ()


@functools.cache
def _curated(
    companion: Companion, arch_name: str, provider: str
) -> Mapping[tuple[Any, ...], Sequence[FmhaKey]]:
    """The curated kernels of a companion, by what they share with the kernels they serve."""
    found: dict[tuple[Any, ...], list[FmhaKey]] = {}
    for key in space.build(SpaceRequest(companion.family, arch_name, provider)):
        assert isinstance(key, FmhaKey)
        columns = from_keys(FmhaKey, [key])
        (row,) = distinct_rows(FmhaKey, {name: columns[name] for name in companion.shared})
        found.setdefault(_shared(companion, row), []).append(key)
    return found


def _shared(companion: Companion, row: Row) -> tuple[Any, ...]:
    # Only a GPU's sums in a fixed order have a part for each tile of keys.
    in_parts = arch(row["arch"]).is_gpu and row.get("deterministic", False)
    names = [name for name in companion.shared if name != "tile_1" or in_parts]
    return tuple(bool(row[n]) if n.startswith("padding") else row[n] for n in names)


def _made(companion: Companion, row: Row) -> list[FmhaKey]:
    named = {name: row[name] for name in companion.shared if "_" not in name or "dim" in name}
    values = complete({"family": companion.family, **named})
    if row.get("deterministic") and "tile_1" in companion.shared:
        values["tile"] = (values["tile"][0], row["tile_1"])
    key = FmhaKey.from_dict(values)
    if key.check():
        raise InvalidKey(
            f"no legal kernel of {companion.family} serves {companion.leading} with {row}: "
            f"{key.check()[0]}; leave its companions out"
        )
    return [key]
