"""The exception tree. ``ckdisp`` re-exports it; the C++ runtime raises the same names.

Every message says what went wrong, why, and what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence


class Error(Exception):
    """Base of every error that ckdisp raises on purpose."""


class InvalidKey(Error, ValueError):
    """A kernel key, name, spec or field value that is not valid."""


class InvalidArgument(Error, ValueError):
    """An argument of a call that can never work: wrong rank, dtype, stride, overlap, value."""


class UnsupportedProblem(Error):
    """A valid problem that no kernel of the registry supports; the text lists the reasons."""


class KernelNotFound(Error, LookupError):
    """No kernel has the asked name or signature; the text says what to build."""


class BuildError(Error, RuntimeError):
    """Generation or compilation failed: no compiler, compiler error, full disk, no permission."""


class LibraryError(Error, RuntimeError):
    """A kernel library cannot be used: unreadable, truncated, another ABI, another machine."""


class DeviceError(Error, RuntimeError):
    """A device is missing or a call to its runtime failed."""


def suggest(value: object, known: Sequence[str]) -> str:
    """``" (did you mean 'x'?)"`` for the nearest known name, or an empty string."""
    import difflib  # only when an error is being written: it costs milliseconds to import

    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near and near[0] != value else ""
