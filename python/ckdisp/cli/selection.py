"""The options that select a kernel set, shared by list, count, generate and the JIT options."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..codegen.enums import FAMILY_GROUPS, families_named, unknown
from ..codegen.errors import InvalidKey
from ..codegen.key import KernelKey
from ..codegen.ops import op_of_family
from ..codegen.schema import columns_of, fields_by_name
from .params import FieldsType, SizesType, WhereType

if TYPE_CHECKING:
    from ..kernel_set import KernelSet


class Conditions:
    """Whether a key has one of the ``families``, one of the ``arches`` and the values asked for.

    None of a kind means any. :class:`ckdisp.InvalidKey` for fields that no key has.
    """

    def __init__(
        self,
        families: Collection[str],
        where: Mapping[str, list[Any]],
        arches: Collection[str] = (),
    ) -> None:
        self.families = [f for name in families for f in FAMILY_GROUPS.get(name, (name,))]
        self.arches = arches
        self.where = where

    def __call__(self, key: KernelKey) -> bool:
        if self.families and key.family not in self.families:
            return False
        if self.arches and key.arch not in self.arches:
            return False
        return all(self._holds(key, name, values) for name, values in self.where.items())

    def _holds(self, key: KernelKey, name: str, values: list[Any]) -> bool:
        aliases = op_of_family(key.family).aliases
        columns = columns_of(type(key))
        specs = fields_by_name(type(key))
        for field in aliases.get(name, (name,)):
            if field in specs:
                spec, found = specs[field], getattr(key, field)
                if found not in [spec.validate(v) for v in values]:
                    return False
            elif field in columns:
                spec, component = columns[field]
                if getattr(key, spec.name)[component] not in values:
                    return False
            else:
                raise InvalidKey(unknown("field", field, (*specs, *aliases, *columns)))
        return True


@dataclass(frozen=True)
class Selection:
    """What the options of :func:`set_options` said."""

    family: str | None
    arches: tuple[str, ...]
    provider: str | None
    preset: str | None
    tiles: str | None
    where: Mapping[str, list[Any]]
    spec: Path | None
    receipt: str | None = None
    sweep: Path | None = None
    keep: str | None = None
    companions: bool = True
    model: Mapping[str, Any] | None = None

    def kernel_set(self) -> KernelSet:
        """The kernel set; :class:`ckdisp.InvalidKey` for names that do not exist."""
        found = self._declared()
        if self.keep is None:
            return found
        kept = found.filter(self.keep)
        if not kept:
            raise InvalidKey(f"none of {len(found)} kernels passes --filter {self.keep!r}")
        # An expression about kernels of one stage says nothing about those that come with them.
        return kept | (kept.with_companions() & found)

    def _declared(self) -> KernelSet:
        from ..kernel_set import KernelSet

        arches = list(self.arches) or ["native"]
        if self.spec is not None:
            self._refuse_with_spec()
            return KernelSet.from_spec(
                self.spec, archs=arches, provider=self.provider, companions=self.companions
            )
        if self.sweep is not None:
            if self.family or self.preset or self.provider:
                raise click.UsageError(
                    "--sweep names the families itself; leave out FAMILY, --preset and --provider"
                )
            return KernelSet.from_sweep(
                self.sweep,
                arches,
                receipt=self.receipt,
                tiles=self.tiles or "all",
                where=self.where,
                companions=self.companions,
            )
        if self.model is not None:
            self._refuse_with_model()
            return KernelSet.from_spec(
                {"ckdisp": 1, "sets": [{"model": dict(self.model)}]}, archs=arches
            )
        if self.preset is not None:
            if self.receipt:
                raise click.UsageError("--preset is a named set itself; leave --receipt out")
            if self.tiles:
                raise click.UsageError("--preset names its tiles itself; leave --tiles out")
            return self._preset(self.preset, arches)
        if self.family is None:
            raise click.UsageError(
                "give a FAMILY, such as gemm.standard, a --preset, a --model, or a file with --spec"
            )
        return KernelSet.sweep(
            self.family,
            arches,
            provider=self.provider,
            receipt=self.receipt,
            tiles=self.tiles or "curated",
            where=self.where,
            companions=self.companions,
        )

    def _preset(self, name: str, arches: list[str]) -> KernelSet:
        """The kernels of a preset: of every family that it holds, or of the one named."""
        from ..kernel_set import KernelSet

        if self.family is not None:
            families_named(self.family)
            op = self.family.partition(".")[0]
            name = name if name.startswith(f"{op}.") else f"{op}.{name}"
        found = KernelSet.preset(name, arches, provider=self.provider, companions=self.companions)
        kept = found.filter(Conditions([self.family] if self.family else [], self.where))
        if not kept:
            families = sorted({key.family for key in found})
            wanted = f"kernels of {self.family}" if self.family else "kernels"
            raise InvalidKey(
                f"preset {name} holds no {wanted} that --where accepts; it holds "
                f"{len(found)} kernels of {', '.join(families)}"
            )
        return kept

    def _refuse_with_model(self) -> None:
        given = {
            "FAMILY": self.family,
            "--preset": self.preset,
            "--provider": self.provider,
            "--tiles": self.tiles,
            "--where": self.where,
            "--receipt": self.receipt,
            "--no-companions": not self.companions,
        }
        extra = [name for name, value in given.items() if value]
        if extra:
            raise click.UsageError(
                f"--model declares the kernels itself; leave out {', '.join(extra)}"
            )

    def _refuse_with_spec(self) -> None:
        given = {
            "FAMILY": self.family,
            "--model": self.model,
            "--preset": self.preset,
            "--tiles": self.tiles,
            "--where": self.where,
            "--receipt": self.receipt,
            "--sweep": self.sweep,
        }
        extra = [name for name, value in given.items() if value]
        if extra:
            raise click.UsageError(
                f"--spec declares the kernels itself; leave out {', '.join(extra)}"
            )


_OPTIONS = (
    click.argument("family", required=False),
    click.option(
        "--arch",
        "arches",
        multiple=True,
        help="Architecture or CPU level, 'cpu' for all levels, 'native' (the default) for the best "
        "of this machine or, with a provider of GPU kernels, for the archs in CKDISP_ARCHS or of "
        "its GPUs; may be repeated.",
    ),
    click.option("--provider", help="Only kernels of this provider."),
    click.option(
        "--preset",
        help="A named set, such as gemm.fp16_rcr_essential; with FAMILY, its part of that family.",
    ),
    click.option(
        "--tiles",
        type=click.Choice(["curated", "all"]),
        help="The tiles worth building (curated, the default) or every legal one.",
    ),
    click.option(
        "--where",
        "where",
        type=WhereType(),
        multiple=True,
        help="Only keys whose field has one of these values; may be repeated.",
    ),
    click.option(
        "--receipt",
        help="The part of an op that a framework wants, by name or number: pytorch or 4.",
    ),
    click.option(
        "--hdim",
        type=SizesType("SIZES", "128,64"),
        help="Only these head dimensions of attention, of Q and V alike.",
    ),
    click.option(
        "--filter",
        "keep",
        help="Only keys for which an expression holds: 'hdim_q == 128 and not lse'.",
    ),
    click.option(
        "--companions/--no-companions",
        default=True,
        help="With or without the kernels of other stages that fmha.splitkv and "
        "fmha.bwd_dq_dk_dv need; default: with.",
    ),
    click.option(
        "--model",
        type=FieldsType(),
        help="The layers of a transformer, e.g. heads=32,kv_heads=8,head_dim=128,training=true; "
        "also dtype, mask, packed, dropout, deterministic.",
    ),
    click.option(
        "--sweep",
        type=click.Path(path_type=Path),
        help="JSON file of attention kernels with variant and trait_config.",
    ),
    click.option(
        "--spec",
        type=click.Path(path_type=Path),
        help="JSON or C++ file that declares the kernels.",
    ),
)


def set_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :class:`Selection`; it receives one ``selection``."""

    @functools.wraps(command)
    def wrapper(
        family: str | None,
        arches: tuple[str, ...],
        provider: str | None,
        preset: str | None,
        tiles: str | None,
        where: tuple[tuple[str, list[Any]], ...],
        spec: Path | None,
        receipt: str | None,
        hdim: tuple[int, ...] | None,
        keep: str | None,
        companions: bool,
        model: dict[str, Any] | None,
        sweep: Path | None,
        **rest: Any,
    ) -> None:
        conditions: dict[str, list[Any]] = {}
        for field, values in where:
            conditions.setdefault(field, []).extend(values)
        if hdim:
            conditions.setdefault("hdim", []).extend(hdim)
        arches = tuple(dict.fromkeys(arches))
        selection = Selection(
            *(family, arches, provider, preset, tiles, conditions, spec, receipt, sweep, keep),
            companions=companions,
            model=model,
        )
        command(selection=selection, **rest)

    for option in reversed(_OPTIONS):
        wrapper = option(wrapper)
    return wrapper
