"""Loader of ``arches.json``. Facts are read once and handed out as frozen objects."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InvalidKey, suggest

_PATH = Path(__file__).with_name("arches.json")

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Arch:
    """Facts of one GPU architecture or CPU level.

    ``device_kind`` is whose devices have a GPU architecture: ``hip`` or ``cuda``. ``served`` are
    the families that the provider has kernels of, if not all.
    ``lds_bytes`` and ``wave_size`` are 0 for CPU levels; ``vector_bytes``, ``vector_registers``,
    ``features``, ``compile_flags`` and ``implies`` are empty for GPUs. ``waves`` holds the allowed
    (M, N, K) waves per block; ``warp_tiles`` the allowed (M, N, K) warp tiles per
    ``dtypeA_dtypeB_accumulator``; on a CPU a warp tile is a register tile. ``fp8`` is the encoding
    of fp8 and bf8 on a GPU that has them: ``fnuz`` or ``ocp``. ``target_features`` may follow the
    name of an arch that has them: ``gfx942:xnack-``.
    """

    name: str
    kind: str
    provider: str
    device_kind: str
    family: str
    wave_size: int
    fp8: str
    target_features: tuple[str, ...]
    lds_bytes: int
    vector_bytes: int
    vector_registers: int
    features: tuple[str, ...]
    compile_flags: tuple[str, ...]
    implies: tuple[str, ...]
    served: tuple[str, ...]
    waves: tuple[Triple, ...]
    warp_tiles: Mapping[str, tuple[Triple, ...]]
    preshuffle_warp_tiles: Mapping[str, tuple[Triple, ...]]
    fmha: Mapping[str, Any]

    def lds_budget(self, pipeline: str) -> int:
        """Bytes of LDS that one A tile and one B tile may take in a GEMM ``pipeline``."""
        return int(self.lds_bytes * _lds_fraction().get(pipeline, 1.0))

    @property
    def is_gpu(self) -> bool:
        return self.kind == "gpu"

    def serves(self, family: str) -> bool:
        """Whether the provider has kernels of ``family``."""
        return not self.served or family in self.served

    def to_dict(self) -> dict[str, Any]:
        """All facts as plain JSON values."""
        return {"name": self.name, **_document()["arches"][self.name]}


@functools.cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_PATH.read_text(encoding="utf-8"))
    return document


def _lds_fraction() -> Mapping[str, float]:
    fractions: Mapping[str, float] = _document()["lds_fraction"]
    return fractions


def _triples(rows: list[list[int]]) -> tuple[Triple, ...]:
    return tuple((m, n, k) for m, n, k in rows)


@functools.cache
def arches() -> dict[str, Arch]:
    """Every arch by name, in table order."""
    table = {}
    for name, facts in _document()["arches"].items():
        table[name] = Arch(
            name=name,
            kind=facts["kind"],
            provider=facts["provider"],
            device_kind=facts.get("device_kind", ""),
            family=facts["family"],
            wave_size=facts.get("wave_size", 0),
            fp8=facts.get("fp8", ""),
            target_features=tuple(facts.get("target_features", ())),
            lds_bytes=facts.get("lds_bytes", 0),
            vector_bytes=facts.get("vector_bytes", 0),
            vector_registers=facts.get("vector_registers", 0),
            features=tuple(facts.get("features", ())),
            compile_flags=tuple(facts.get("compile_flags", ())),
            implies=tuple(facts.get("implies", ())),
            served=tuple(facts.get("served", ())),
            waves=_triples(facts["waves"]),
            warp_tiles={k: _triples(v) for k, v in facts["warp_tiles"].items()},
            preshuffle_warp_tiles={
                k: _triples(v) for k, v in facts["preshuffle_warp_tiles"].items()
            },
            fmha=facts.get("fmha", {}),
        )
    return table


def arch_names() -> tuple[str, ...]:
    """Every arch name, in table order; the order is that of the C++ ``Arch`` enum."""
    return tuple(_document()["arches"])


def parse_target(target: str) -> tuple[str, dict[str, bool]]:
    """Split an AMD target id such as ``gfx942:sramecc+:xnack-`` into arch name and features."""
    name, *parts = target.split(":")
    features: dict[str, bool] = {}
    for part in parts:
        feature, sign = part[:-1], part[-1:]
        if sign not in ("+", "-") or feature not in ("sramecc", "xnack") or feature in features:
            raise InvalidKey(
                f"target {target!r}: cannot read {part!r}; write each feature once, as "
                "'sramecc+', 'sramecc-', 'xnack+' or 'xnack-', e.g. 'gfx942:sramecc+:xnack-'"
            )
        features[feature] = sign == "+"
    return name, features


def arch(name: str) -> Arch:
    """The facts of ``name``, which may carry target features (``gfx942:xnack-``).

    Raises :class:`InvalidKey` that lists the known names.
    """
    base, features = parse_target(name)
    try:
        found = arches()[base]
    except KeyError:
        known = arch_names()
        raise InvalidKey(
            f"unknown arch {name!r}{suggest(base, known)}; known: {', '.join(known)}"
        ) from None
    if not features.keys() <= set(found.target_features):
        raise InvalidKey(f"arch {name!r}: {base} takes no target features; write {base!r}")
    return found
