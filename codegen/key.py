"""The base of every kernel key: identity, canonical name, JSON form."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from .enums import FAMILY, families, token, unknown
from .errors import InvalidKey
from .schema import FieldSpec, canonical, fields_of

if TYPE_CHECKING:
    from .rules import Rejection


class KernelKey:
    """Signature + algorithm + arch + provider of one kernel.

    Keys are immutable, hashable and ordered. ``name`` is injective: two different keys never
    share one, and :func:`ckdisp.parse_name` gives the key back.
    """

    __slots__ = ()
    op: ClassVar[str]

    family: str
    provider: str
    arch: str

    if TYPE_CHECKING:
        # The other fields depend on the op.
        def __getattr__(self, name: str) -> Any: ...

    @property
    def name(self) -> str:
        """The canonical name, a valid C identifier: field tokens joined by ``_``."""
        return "_".join(_tokens(self))

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain JSON values; :meth:`from_dict` is the inverse."""
        return {
            f.name: list(f.written(v)) if f.kind == "ints" else v
            for f in fields_of(type(self))
            for v in (getattr(self, f.name),)
        }

    def check(self) -> list[Rejection]:
        """Every rule that the key breaks, with the reason; an empty list for a valid key."""
        from .rules import check  # the rules load NumPy and the op's tables

        return check(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The key with exactly these field values; :class:`InvalidKey` for any other shape."""
        checked = canonical(cls, values)
        if checked["family"] not in families(cls.op):
            raise InvalidKey(unknown(f"family of {cls.op}", checked["family"], families(cls.op)))
        return cls(**checked)

    @classmethod
    def from_name(cls, name: str) -> Self:
        """Parse a canonical name; :class:`InvalidKey` says which part cannot be read."""
        key = cls(**_parse(cls, name))
        if key.name != name:
            raise InvalidKey(f"{name!r} is not a canonical kernel name; did you mean {key.name!r}?")
        return key


def _flag_runs(key_class: type) -> list[tuple[FieldSpec, ...]]:
    """Fields grouped as name tokens: consecutive flags share one token."""
    runs: list[tuple[FieldSpec, ...]] = []
    for spec in fields_of(key_class):
        if spec.kind == "flag" and runs and runs[-1][0].kind == "flag":
            runs[-1] = (*runs[-1], spec)
        else:
            runs.append((spec,))
    return runs


name_runs: Callable[[type], list[tuple[FieldSpec, ...]]] = functools.cache(_flag_runs)


def _tokens(key: KernelKey) -> list[str]:
    parts: list[str] = []
    for run in name_runs(type(key)):
        parts += name_tokens(run, [getattr(key, spec.name) for spec in run])
    return parts


def name_tokens(run: Sequence[FieldSpec], values: Sequence[Any]) -> list[str]:
    """The tokens of a name that say the ``values`` of the fields of ``run``."""
    spec, value = run[0], values[0]
    if spec.kind == "enum" and spec.enum is FAMILY:
        op, _, family = value.partition(".")
        return [op, token(family)]
    if spec.kind == "enum":
        return [token(value)]
    if spec.kind == "flag":
        return ["f" + "".join(f.tag for f, on in zip(run, values, strict=True) if on)]
    if spec.kind == "int":
        return [f"{spec.tag}{value}"]
    return [spec.tag + "x".join(map(str, spec.written(value)))]


def _parse(key_class: type, name: str) -> dict[str, Any]:
    op, *texts = name.split("_")
    runs = name_runs(key_class)
    if len(texts) != len(runs):
        raise InvalidKey(
            f"{name!r} is not a kernel name of {op}: it has {len(texts) + 1} parts, "
            f"not {len(runs) + 1}"
        )
    values: dict[str, Any] = {}
    for text, run in zip(texts, runs, strict=True):
        try:
            values.update(_parse_run(op, text, run))
        except InvalidKey as error:
            raise InvalidKey(f"kernel name {name!r}: {error}") from None
    return values


def _parse_run(op: str, text: str, run: tuple[FieldSpec, ...]) -> dict[str, Any]:
    spec = run[0]
    if spec.enum is not None:
        full = op + text if spec.enum is FAMILY else text
        return {spec.name: spec.enum.from_token(full, spec.name)}
    if spec.kind == "flag":
        letters = set(text[1:])
        if not text.startswith("f") or not letters <= {f.tag for f in run}:
            raise InvalidKey(f"cannot read the flags {text!r}")
        return {f.name: f.tag in letters for f in run}
    digits = text.removeprefix(spec.tag).split("x")
    if spec.kind == "ints" and spec.least == 0 and text == spec.tag:
        digits = []
    if not text.startswith(spec.tag) or not all(d.isascii() and d.isdigit() for d in digits):
        raise InvalidKey(f"cannot read {spec.name} from {text!r}")
    numbers = tuple(int(d) for d in digits)
    value = spec.validate(numbers if spec.kind == "ints" else numbers[0])
    if spec.kind == "int" and len(numbers) != 1:
        raise InvalidKey(f"cannot read {spec.name} from {text!r}")
    return {spec.name: value}
