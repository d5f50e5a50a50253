"""The kernels that a program knows: loaded from libraries, merged, listed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from . import __path__ as _places
from . import _core
from ._core import Kernel
from .codegen.errors import KernelNotFound, LibraryError

Priority = Literal["low", "normal", "high"]

# An editable install has two places: the source tree, and what the build installed.
_PREBUILT = [Path(place) / "prebuilt" for place in _places]
_INPUTS = {"gemm": ("dtype_a", "dtype_b"), "conv": ("dtype_in", "dtype_wei"), "fmha": ("dtype",)}
_ASKED_FOR = "ckdisp_wheel_kernels"  # what CMake's CKDISP_KERNELS declared


def host_arches() -> list[str]:
    """Architectures whose kernels run on this machine, best first.

    The environment variable ``CKDISP_CPU_LEVEL`` names the best CPU level to use.
    """
    return _core.host_arches()


class Registry:
    """A set of kernels, unique by name, ordered by priority and then by name. Thread-safe.

    When two kernels share a name, the one of higher priority wins; at equal priority the first
    stays.
    """

    __slots__ = ("_core",)

    def __init__(self, name: str = "kernels") -> None:
        self._core = _core.Registry(name)

    @classmethod
    def _wrap(cls, core: _core.Registry) -> Self:
        self = cls.__new__(cls)
        self._core = core
        return self

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, priority: Priority = "normal") -> Self:
        """The kernels of a shared library. A library stays loaded until the process ends.

        Raises :class:`LibraryError` for a file that is missing, truncated, no kernel library, or
        built for another version or machine.
        """
        library = _core.Library.load(os.fspath(path))
        self = cls(library.name)
        self._core.add_library(library, priority)
        return self

    @classmethod
    def prebuilt(cls) -> Self:
        """The kernels inside the installed package: those for the best CPU level of this machine,
        and those that whoever built the package asked for, such as kernels for GPUs.

        Raises :class:`LibraryError` when the package was built without any.
        """
        levels = host_arches()
        cpu = next(filter(None, (_prebuilt_file(f"ckdisp_cpu_{level}") for level in levels)), None)
        self = cls("prebuilt")
        for path in (cpu, _prebuilt_file(_ASKED_FOR)):
            if path is not None:
                self.add(path)
        if not len(self):
            raise LibraryError(
                f"no prebuilt kernels for {', '.join(levels)} in "
                f"{', '.join(map(str, _PREBUILT))}; install ckdisp with its prebuilt libraries "
                "(`pip install ckdisp`), or build kernels with KernelSet.build()"
            )
        return self

    def add(self, library: str | os.PathLike[str], *, priority: Priority = "normal") -> None:
        """Load one more library into this registry. Errors as for :meth:`load`."""
        self._core.add_library(_core.Library.load(os.fspath(library)), priority)

    def merge(self, other: Registry) -> None:
        """Add the kernels of ``other`` with their priorities; merging with itself does nothing."""
        self._core.merge(other._core)

    def remove(self, name: str) -> None:
        """Forget the kernel called ``name``; :class:`KernelNotFound` when there is none."""
        if not self._core.remove(name):
            raise self._not_found(name)

    def clear(self) -> None:
        """Forget every kernel."""
        self._core.clear()

    @property
    def name(self) -> str:
        return self._core.name

    def kernels(
        self,
        *,
        op: str | None = None,
        family: str | None = None,
        arch: str | None = None,
        provider: str | None = None,
        dtype: str | None = None,
        **fields: object,
    ) -> list[Kernel]:
        """The kernels whose key fields have these values, in order; ``dtype`` is that of A and B,
        of a convolution's input and weights, or of attention. The family ``fmha.bwd`` is that of
        all stages of the backward pass.

        Any field of a key may be named: ``layout="rcr"``, ``tile=(256, 128, 64)``,
        ``pad_m=True``. Raises :class:`InvalidKey` for an unknown field.
        """
        wanted: Mapping[str, object] = {
            "family": family,
            "arch": arch,
            "provider": provider,
            **fields,
        }
        pairs = [(name, _field_text(v)) for name, v in wanted.items() if v is not None]
        found = self._core.kernels(pairs)
        if op is not None:
            found = [k for k in found if k.op == op]
        if dtype is not None:
            text = _field_text(dtype)
            found = [k for k in found if all(k.field(name) == text for name in _INPUTS[k.op])]
        return found

    def filter(self, accept: Callable[[Kernel], bool]) -> Self:
        """A new registry of the kernels that ``accept`` says yes to, with their priorities."""
        return type(self)._wrap(self._core.filter(accept))

    def priority(self, name: str) -> str:
        """``"low"``, ``"normal"`` or ``"high"``; :class:`KernelNotFound` without such a kernel."""
        found = self._core.priority(name)
        if found is None:
            raise self._not_found(name)
        return found

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Name, libraries, counts and every kernel with its key; also written to ``path``."""
        text = self._core.to_json()
        if path is not None:
            from .codegen.emit.files import write_atomic

            write_atomic(Path(path), (text + "\n").encode())
        return text

    def _not_found(self, name: str) -> KernelNotFound:
        from .codegen.errors import suggest

        near = suggest(name, [k.name for k in self])
        return KernelNotFound(f"registry {self.name!r} has no kernel named {name!r}{near}")

    def __getitem__(self, name: str) -> Kernel:
        kernel = self._core.find(name)
        if kernel is None:
            raise self._not_found(name)
        return kernel

    def __contains__(self, item: object) -> bool:
        """Whether a kernel of this name, or with this key, is here."""
        name = getattr(item, "name", item)
        return isinstance(name, str) and self._core.find(name) is not None

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self._core.kernels())

    def __len__(self) -> int:
        return len(self._core)

    def __repr__(self) -> str:
        return f"<Registry {self.name!r}: {len(self)} kernels>"


def _prebuilt_file(name: str) -> Path | None:
    return next((p for folder in _PREBUILT if (p := folder / f"lib{name}.so").exists()), None)


def _field_text(value: Any) -> str:
    """A field value as kernel names write it: ``true``, ``256x128x64``, ``fp16``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return "x".join(str(v) for v in value)
    return str(value)
