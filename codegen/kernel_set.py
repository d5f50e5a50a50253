"""Kernel sets: declared by sweep, preset, spec or single keys; enumerated lazily."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, overload

import numpy as np

from .columns import Array
from .declare import ArchLike, declare_preset, declare_sweep, resolve_archs
from .errors import BuildError, InvalidKey
from .key import KernelKey
from .parts import Declaration, KeyList, Part, SpacePart, remove


class KernelSet:
    """An ordered collection of distinct kernel keys.

    Sets are values: every operation gives a new set. Counting never enumerates. Union keeps the
    order of the left side and adds what is new on the right. Two sets are equal if they hold the
    same keys, in any order, and equal sets build the same library. They have no hash, since equal
    sets may be declared in different ways; a ``frozenset`` of the keys has one. Sets can be copied
    and pickled, with their order; the declarations in them stay declarations.
    """

    def __init__(self, keys: Iterable[KernelKey] = (), *, _parts: tuple[Part, ...] = ()) -> None:
        """The set of ``keys``, in their order; repeated keys count once."""
        self._parts = _parts
        listed = tuple(dict.fromkeys(keys))
        for key in listed:
            if not isinstance(key, KernelKey):
                raise InvalidKey(f"a kernel set holds kernel keys, not {key!r}")
        if listed:
            self._parts = (*_parts, KeyList(listed))

    @classmethod
    def sweep(
        cls,
        family: str,
        arch: ArchLike,
        *,
        provider: str | None = None,
        receipt: str | int | None = None,
        tiles: str = "curated",
        where: Mapping[str, Any] | None = None,
        allow_empty: bool = False,
        companions: bool = True,
    ) -> Self:
        """Every valid key of ``family`` on ``arch``, narrowed by ``where``.

        With the ``companions`` that these need: the kernels of the other stages of
        ``fmha.splitkv`` and ``fmha.bwd_dq_dk_dv``, see :meth:`with_companions`. ``fmha.bwd`` names
        all stages of the backward pass.
        ``arch`` is a name, several names, ``"cpu"`` (every CPU level) or ``"native"`` (the best
        level of this machine). ``tiles`` is ``"curated"`` (what a deployment builds) or ``"all"``
        (every legal key, for tuning). ``receipt`` is a named profile of the op, or its number,
        and leaves the keys that a framework wants. ``where`` maps a field (``pipeline``), a column
        (``tile_m``) or a shorthand (``dtype``) to one value or a list of them; with
        ``tiles="all"`` numbers
        may lie outside the listed ones. Raises :class:`InvalidKey` for anything unknown, and for
        an empty result unless ``allow_empty``.
        """
        parts = declare_sweep(
            *(family, arch, provider, receipt, tiles, where or {}),
            allow_empty=allow_empty,
            companions=companions,
        )
        return cls._from_parts(parts)

    @classmethod
    def preset(
        cls, name: str, arch: ArchLike, *, provider: str | None = None, companions: bool = True
    ) -> Self:
        """The named set ``name``, e.g. ``gemm.fp16_rcr_essential``, on ``arch``.

        ``companions`` is that of :meth:`sweep`. Raises :class:`InvalidKey`, which lists the
        presets that exist there.
        """
        return cls._from_parts(declare_preset(name, arch, provider, companions=companions))

    @classmethod
    def for_model(
        cls,
        arch: ArchLike,
        *,
        heads: int,
        head_dim: int,
        kv_heads: int | None = None,
        dtype: str = "bf16",
        mask: str = "top_left",
        training: bool = False,
        packed: bool = False,
        dropout: bool = False,
        deterministic: bool = False,
        layouts: str | Sequence[str] | None = None,
    ) -> Self:
        """The kernels that the layers of a transformer need on ``arch``.

        These are attention with ``heads`` heads of Q on ``kv_heads`` of K and V (default: as many)
        of size ``head_dim``, and GEMMs of the same ``dtype``: ``fp32``, ``fp16`` or ``bf16``.
        With ``training`` forward and backward pass and GEMMs of the layouts ``rcr``, ``rrr`` and
        ``crr`` (results, and the gradients of inputs and weights), else the forward pass, its form
        in parts for decoding, and GEMMs of layout ``rcr``; ``layouts`` names others, or none.
        ``mask`` is ``"no"``, ``"top_left"`` or ``"bottom_right"``; kernels of a diagonal take
        windows, too. ``packed`` is for sequences of many lengths in one tensor, ``dropout`` for
        calls with a probability, ``deterministic`` for sums of dQ in a fixed order. A CPU level's
        kernels take any head dimension, mask and mode. Raises :class:`InvalidKey` for values that
        do not fit, and where an arch has no such kernels.
        """
        from .model import Model, declare_model

        model = Model(
            heads=heads,
            head_dim=head_dim,
            kv_heads=kv_heads,
            dtype=dtype,
            mask=mask,
            training=training,
            packed=packed,
            dropout=dropout,
            deterministic=deterministic,
            layouts=layouts,
        )
        return cls._from_parts(declare_model(model, arch))

    @classmethod
    def from_sweep(
        cls,
        source: str | Path | Mapping[str, Any],
        arch: ArchLike,
        *,
        receipt: str | int | None = None,
        tiles: str = "all",
        where: Mapping[str, Any] | None = None,
        companions: bool = True,
    ) -> Self:
        """The attention kernels that a sweep file (``variant``, ``trait_config``) asks for.

        ``source`` is a path, JSON text or a loaded document; ``where`` restricts it further, to
        head dimensions, say; ``companions`` is that of :meth:`sweep`. Raises
        :class:`InvalidKey` with the place in the document.
        """
        from .ops.fmha.sweep import read_sweep  # the op loads its tables

        parts: list[Part] = []
        for name in resolve_archs(arch):
            for family, wanted in read_sweep(source, name):
                both = {**wanted, **(where or {})}
                parts += declare_sweep(
                    *(family, name, None, receipt, tiles, both),
                    allow_empty=True,
                    companions=companions,
                )
        found = cls._from_parts(parts)
        if not found:
            raise InvalidKey("the sweep asks for no kernel: its values exclude each other")
        return found

    @classmethod
    def from_json(cls, source: str | Path) -> Self:
        """The set that ``source``, a path or JSON text, declares; see :meth:`from_spec`."""
        return cls.from_spec(source)

    @classmethod
    def from_spec(
        cls,
        source: str | Path | Mapping[str, Any],
        *,
        archs: ArchLike | None = None,
        provider: str | None = None,
        companions: bool = True,
    ) -> Self:
        """The set declared by a spec: a path (JSON or C++), JSON text, or a loaded document.

        ``archs`` serves the entries that name no arch, ``companions``, see :meth:`sweep`, those
        that do not say. Raises :class:`InvalidKey` with the file,
        the position in the document and the nearest known name.
        """
        from .spec import parse_spec  # it loads compilers for C++ specs

        return cls._from_parts(parse_spec(source, archs, provider, companions))

    @classmethod
    def _from_parts(cls, parts: Iterable[Part]) -> Self:
        """Parts one after the other, without the keys that an earlier part has."""
        kept: list[Part] = []
        for part in parts:
            for earlier in kept:
                part = remove(part, earlier)
            if len(part):
                kept.append(part)
        return cls(_parts=tuple(kept))

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __iter__(self) -> Iterator[KernelKey]:
        for part in self._parts:
            yield from part

    @overload
    def __getitem__(self, index: int) -> KernelKey: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> KernelKey | Self:
        size = len(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(size)
            if step < 0:
                return type(self)(self[i] for i in range(start, stop, step))
            return self._pick(np.arange(start, stop, step))
        position = index + size if index < 0 else index
        if not 0 <= position < size:
            raise IndexError(f"index {index} is outside a set of {size} keys")
        for part in self._parts:
            if position < len(part):
                break
            position -= len(part)
        return part.keys(np.array([position]))[0]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, KernelKey) and any(key in part for part in self._parts)

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same keys; :class:`InvalidKey` for sets too large to compare."""
        if not isinstance(other, KernelSet):
            return NotImplemented
        return len(self) == len(other) and not self._without(other)

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: KernelSet) -> Self:
        return self._from_parts((*self._parts, *other._parts))

    def __sub__(self, other: KernelSet) -> Self:
        return self._without(other)

    def __and__(self, other: KernelSet) -> Self:
        return self._without(self._without(other))

    def _without(self, other: KernelSet) -> Self:
        parts = []
        for part in self._parts:
            for removed in other._parts:
                part = remove(part, removed)
            parts.append(part)
        return type(self)(_parts=tuple(part for part in parts if len(part)))

    def _pick(self, wanted: Array) -> Self:
        parts, start = [], 0
        for part in self._parts:
            inside = wanted[(wanted >= start) & (wanted < start + len(part))] - start
            if len(inside):
                parts.append(part.select(inside))
            start += len(part)
        return type(self)(_parts=tuple(parts))

    def names(self) -> list[str]:
        """The canonical name of every key, in order."""
        return list(self.iter_names())

    def iter_names(self) -> Iterator[str]:
        """The canonical names, made as they are read: for sets that are too large for a list."""
        for part in self._parts:
            yield from part.names()

    def with_companions(self) -> Self:
        """The set, and the kernels of other stages that its own need to solve a problem.

        These are ``fmha.splitkv_combine`` for ``fmha.splitkv``, ``fmha.bwd_dot_do_o`` and
        ``fmha.bwd_convert_dq`` for ``fmha.bwd_dq_dk_dv``: the curated ones of the same types,
        head dimensions, mode and paddings. Sweeps, presets and specs have them already; lists of
        keys, and sets that were filtered, may lack some.
        """
        needed = (KeyList(tuple(part.companions())) for part in self._parts)
        return self._from_parts((*self._parts, *needed))

    def filter(self, keep: Callable[[KernelKey], object] | str) -> Self:
        """The keys for which ``keep`` is true.

        ``keep`` is a function, which enumerates the set, or an expression such as
        ``"hdim_q == 128 and not lse"``: fields and columns of keys, literals, comparisons, ``in``,
        ``and``, ``or``, ``not``, arithmetic. An expression that does not read ``name`` narrows a
        space of over a million keys as ``where`` does: nothing is enumerated, and the order of the
        keys may change.
        """
        if isinstance(keep, str):
            return self._filter_text(keep)
        kept = [i for i, key in enumerate(self) if keep(key)]
        return self._pick(np.array(kept, np.int64))

    def _filter_text(self, text: str) -> Self:
        from .filter import compile_filter  # only for who filters by text

        keep = compile_filter(text)
        parts: list[Part] = []
        for part in self._parts:
            narrowed = part.filter(text) if isinstance(part, SpacePart) else None
            if narrowed is None:
                parts.append(part.select(np.flatnonzero([keep(key) for key in part])))
            else:
                parts.append(narrowed)
        return type(self)(_parts=tuple(part for part in parts if len(part)))

    def sample(self, count: int, seed: int = 0) -> Self:
        """``count`` different keys (all, if there are fewer) drawn at random, in set order."""
        size = len(self)
        if count < 0:
            raise InvalidKey(f"cannot draw {count} keys; count must not be negative")
        if count >= size:
            return type(self)(_parts=self._parts)
        drawn = np.random.default_rng(seed).choice(size, count, replace=False, shuffle=False)
        return self._pick(np.sort(drawn))

    def to_json(self, path: str | Path | None = None, *, expand: bool = False) -> str:
        """The set as a spec document, also written to ``path`` if given.

        Sweeps and presets stay declarations; ``expand`` writes every key instead, which freezes
        the set against later changes of presets and rules.
        """
        entries: list[dict[str, Any]] = []
        left = list(self._parts)
        while left:
            declared = None if expand else left[0].declaration
            size = declared.count if declared is not None else 1
            group, left = left[:size], left[size:]
            if declared is not None and _complete(declared, group):
                entries.append(dict(declared.entry))
                continue
            group, left = group[:1], [*group[1:], *left]
            if declared is not None and declared.alone is not None:
                entries.append(dict(declared.alone))
            else:
                entries += [{"keys": [key.to_dict() for key in part]} for part in group]
        text = json.dumps({"ckdisp": 1, "sets": entries}, indent=1) + "\n"
        if path is not None:
            try:
                Path(path).write_text(text, encoding="utf-8")
            except OSError as error:
                raise BuildError(f"cannot write {path}: {error.strerror or error}") from error
        return text

    def __repr__(self) -> str:
        families = sorted({part.family for part in self._parts})
        return f"<{type(self).__name__}: {len(self)} kernels of {', '.join(families) or 'nothing'}>"


def _complete(declared: Declaration, group: Sequence[Part]) -> bool:
    """Whether ``group`` is all that one declaration gave, unchanged."""
    expected = [Declaration(declared.entry, i, declared.count) for i in range(declared.count)]
    return [part.declaration for part in group] == expected
