"""Spec files: kernel sets declared in JSON, or in C++ through ``ckdisp/kernel_set.hpp``.

A document is ``{"ckdisp": 1, "sets": [...]}``. Each entry is a sweep (``family``, ``arch``,
``provider``, ``receipt``, ``tiles``, ``where``), a preset (``preset``, ``arch``, ``provider``), one
``key`` (fields; those left out take defaults), a list of ``keys`` (full fields, or names) or a
``model`` (the arguments of :meth:`KernelSet.for_model`) with its ``arch``. Sweeps, presets and a
``key`` have the companions that their kernels need unless ``companions`` is false.
The manifest of a generated folder is a spec of its kernels.
``arch`` may be left out where the caller names the archs, and where ``provider`` is one of GPU
kernels: then it is ``native``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arch import arch as find_arch
from .declare import (
    ArchLike,
    check_where,
    declare_preset,
    declare_sweep,
    resolve_archs,
    serves_gpus,
)
from .enums import families_named, unknown
from .errors import InvalidKey
from .key import KernelKey
from .make import make_key, parse_name
from .model import Model, declare_model
from .ops import op_of_family
from .parts import KeyList, Part
from .rules import check_all

if TYPE_CHECKING:
    from .kernel_set import KernelSet

VERSION = 1
CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".hpp")
_MAX_BYTES = 1 << 26
_MEMBERS = {
    "family": ("family", "arch", "provider", "receipt", "tiles", "where", "companions"),
    "preset": ("preset", "arch", "provider", "companions"),
    "model": ("model", "arch"),
    "key": ("key", "companions"),
    "keys": ("keys",),
}


def load_spec(
    path: str | Path, archs: ArchLike | None = None, provider: str | None = None
) -> KernelSet:
    """The set that the file at ``path`` declares; see :meth:`KernelSet.from_spec`."""
    from .kernel_set import KernelSet

    return KernelSet.from_spec(Path(path), archs=archs, provider=provider)


def parse_spec(
    source: str | Path | Mapping[str, Any],
    archs: ArchLike | None,
    provider: str | None,
    companions: bool = True,
) -> list[Part]:
    """The parts that a spec declares: from a path, JSON text or a loaded document."""
    document: Any
    if isinstance(source, Mapping):
        name, document = "spec", source
    elif isinstance(source, str) and source.lstrip()[:1] in ("{", "["):
        name, document = "spec", _parse(source, "spec")
    else:
        name, document = str(source), _read(Path(source))
    if isinstance(document, Mapping) and document.get("generator") == "ckdisp":
        document = _declared_by(document)  # the manifest of a generated folder
    with _at(name):
        return list(_Reader(archs, provider, companions).parts(document))


def _declared_by(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of the kernels that a manifest lists."""
    kernels = manifest.get("kernels")
    rows = kernels if isinstance(kernels, list) else []
    keys = [row.get("key") if isinstance(row, Mapping) else row for row in rows]
    return {"ckdisp": VERSION, "sets": [{"keys": keys}]}


def _read(path: Path) -> Any:
    if path.suffix in CPP_SUFFIXES:
        from .cpp_spec import run_cpp_spec

        return _parse(run_cpp_spec(path), str(path))
    try:
        with open(path, "rb") as stream:
            data = stream.read(_MAX_BYTES + 1)  # a device may have no end
        if len(data) > _MAX_BYTES:
            raise InvalidKey(f"{path}: more than {_MAX_BYTES} bytes; this is no spec file")
        text = data.decode("utf-8")
    except OSError as error:
        raise InvalidKey(f"cannot read the spec {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidKey(f"{path}: not UTF-8 text ({error}); a spec is a JSON file") from None
    return _parse(text, str(path))


def _parse(text: str, name: str) -> Any:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen = [key for key, _ in pairs]
            twice = next(key for key in seen if seen.count(key) > 1)
            raise InvalidKey(f"{name}: member {twice!r} is given twice in one object")
        return found

    try:
        return json.loads(text, object_pairs_hook=members)
    except json.JSONDecodeError as error:
        raise InvalidKey(
            f"{name}: not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except InvalidKey:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidKey(f"{name}: not JSON that can be read: {error}") from None


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Put the place in the document in front of every error inside."""
    try:
        yield
    except InvalidKey as error:
        text = str(error)
        joint = "" if text.startswith(".") else ": "
        raise InvalidKey(f"{place}{joint}{text}") from None


class _Reader:
    def __init__(self, archs: ArchLike | None, provider: str | None, companions: bool) -> None:
        if archs is not None:
            resolve_archs(archs)  # a wrong name is refused also where every entry has its own
        self._archs = "native" if archs is None else archs
        self._named = archs is not None
        self._provider = provider
        self._companions = companions

    def parts(self, document: Any) -> Iterator[Part]:
        self._members(document, ("ckdisp", "sets"), "a spec")
        version = document.get("ckdisp")
        if version is True or version != VERSION:
            raise InvalidKey(
                f'member "ckdisp" must be {VERSION}, the version of the format, not {version!r}'
            )
        entries = document.get("sets")
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            raise InvalidKey(f'member "sets" must be a list of declarations, not {entries!r}')
        for position, entry in enumerate(entries):
            with _at(f"sets[{position}]"):
                yield from self._entry(entry)

    def _members(self, value: Any, known: Sequence[str], what: str) -> None:
        if not isinstance(value, Mapping):
            raise InvalidKey(f"{what} must be an object with {', '.join(known)}, not {value!r}")
        for member in value:
            if member not in known:
                raise InvalidKey(f".{member}: {unknown('member', member, known)}")

    def _entry(self, entry: Any) -> Iterator[Part]:
        if not isinstance(entry, Mapping):
            raise InvalidKey(f"a declaration must be an object, not {entry!r}")
        kinds = [kind for kind in _MEMBERS if kind in entry]
        if len(kinds) != 1:
            everything = tuple(dict.fromkeys(m for known in _MEMBERS.values() for m in known))
            self._members(entry, everything, "a declaration")
            raise InvalidKey(
                f"a declaration has exactly one of {', '.join(_MEMBERS)}; "
                f"this one has {', '.join(kinds) or 'none'}"
            )
        self._members(entry, _MEMBERS[kinds[0]], "a declaration")
        read: dict[str, Callable[[Mapping[str, Any]], Sequence[Part]]] = {
            "family": self._sweep,
            "preset": self._preset,
            "model": self._model,
            "key": self._key,
            "keys": self._keys,
        }
        yield from read[kinds[0]](entry)

    def _arch(self, entry: Mapping[str, Any]) -> tuple[str, ...]:
        provider = entry.get("provider", self._provider)
        if "arch" in entry:
            with _at(".arch"):
                return resolve_archs(entry["arch"], provider)
        if not self._named and not serves_gpus(provider):
            raise InvalidKey(
                'no arch: add "arch" to the declaration, or name archs for the whole spec (ARCHS '
                "in CMake, CKDISP_ARCHS for a wheel, archs= in Python)"
            )
        archs = resolve_archs(self._archs, provider)
        # Archs for a whole spec may be for several providers; if none fits, a rule says why.
        return tuple(a for a in archs if provider in (None, find_arch(a).provider)) or archs

    def _has_companions(self, entry: Mapping[str, Any]) -> bool:
        said = entry.get("companions", self._companions)
        if not isinstance(said, bool):
            raise InvalidKey(f".companions: must be true or false, not {said!r}")
        return said

    def _sweep(self, entry: Mapping[str, Any]) -> Sequence[Part]:
        family, where = entry["family"], entry.get("where", {})
        with _at(".family"):
            op = op_of_family(families_named(_text(family))[0])
        if not isinstance(where, Mapping):
            raise InvalidKey(f".where: must be an object of fields, not {where!r}")
        for field, value in where.items():
            with _at(f".where.{field}"):
                check_where(op, {field: value})
        for member in ("provider", "tiles"):
            if member in entry:
                with _at(f".{member}"):
                    _text(entry[member])
        if "receipt" in entry and type(entry["receipt"]) is not int:
            with _at(".receipt"):
                _text(entry["receipt"])
        return declare_sweep(
            family,
            self._arch(entry),
            entry.get("provider", self._provider),
            entry.get("receipt"),
            entry.get("tiles", "curated"),
            where,
            companions=self._has_companions(entry),
        )

    def _preset(self, entry: Mapping[str, Any]) -> Sequence[Part]:
        with _at(".preset"):
            name = _text(entry["preset"])
            archs = self._arch(entry)
            return declare_preset(
                *(name, archs, entry.get("provider", self._provider)),
                companions=self._has_companions(entry),
            )

    def _model(self, entry: Mapping[str, Any]) -> Sequence[Part]:
        with _at(".model"):
            model = Model.read(entry["model"])
        return declare_model(model, self._arch(entry))

    def _key(self, entry: Mapping[str, Any]) -> Sequence[Part]:
        with _at(".key"):
            fields = entry["key"]
            if not isinstance(fields, Mapping) or "family" not in fields:
                raise InvalidKey(f'a key must be an object with at least "family", not {fields!r}')
            rest = {n: v for n, v in fields.items() if n not in ("family", "arch")}
            keys = [
                make_key(_text(fields["family"]), arch=arch, **rest) for arch in self._arch(fields)
            ]
            listed = _valid(keys)
        if not self._has_companions(entry):
            return [listed]
        return [listed, KeyList(tuple(listed.companions()))]

    def _keys(self, entry: Mapping[str, Any]) -> Sequence[Part]:
        listed = entry["keys"]
        if not isinstance(listed, list):
            raise InvalidKey(f".keys: must be a list of keys or names, not {listed!r}")
        keys: list[KernelKey] = []
        for position, item in enumerate(listed):
            with _at(f".keys[{position}]"):
                if isinstance(item, str):
                    keys.append(parse_name(item))
                elif isinstance(item, Mapping):
                    op = op_of_family(_text(item.get("family")))
                    keys.append(op.key_class.from_dict(dict(item)))
                else:
                    raise InvalidKey(f"a key must be an object or a name, not {item!r}")
        return [_valid(keys, ".keys")]


def _valid(keys: list[KernelKey], place: str = "") -> KeyList:
    """``keys`` if they pass every rule."""
    for position, rejections in enumerate(check_all(keys)):
        if rejections:
            reasons = "; ".join(map(str, rejections))
            at = f"{place}[{position}]: " if place else ""
            raise InvalidKey(f"{at}the key breaks {len(rejections)} rule(s): {reasons}")
    return KeyList(tuple(dict.fromkeys(keys)))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidKey(f"must be a string, not {value!r}")
    return value
