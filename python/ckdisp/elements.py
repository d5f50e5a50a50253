"""Element types of arrays in device memory: NumPy's, and those of ml_dtypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .codegen.arch import arch
from .codegen.enums import DTYPE
from .codegen.errors import Error, InvalidArgument
from .tensors import FNUZ, ML_DTYPES, NUMPY

# Codes of DLPack: of NumPy's kinds, and of the types of ml_dtypes.
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_EXTENSIONS = {
    "bfloat16": (4, 2),
    "float8_e4m3fn": (10, 1),
    "float8_e4m3fnuz": (11, 1),
    "float8_e5m2": (12, 1),
    "float8_e5m2fnuz": (13, 1),
}
_BY_CODE = {code: name for name, (code, _) in _EXTENSIONS.items()}


@dataclass(frozen=True)
class Element:
    """``name`` is NumPy's, or that of ml_dtypes; ``code`` is DLPack's.

    ``dtype`` holds unsigned integers of the same size where ml_dtypes is needed and not installed.
    """

    name: str
    code: int
    dtype: np.dtype[Any]


def element_of(dtype: DTypeLike | str, target: str = "") -> Element:
    """The element type that NumPy, ml_dtypes or a key would call ``dtype``.

    ``"fp8"`` and ``"bf8"`` are in the encoding of the arch ``target``. Raises
    :class:`InvalidArgument` for what device memory cannot hold.
    """
    name = dtype if isinstance(dtype, str) else getattr(np.dtype(dtype), "name", "")
    if name in DTYPE:
        names = NUMPY | ML_DTYPES | (FNUZ if target and _is_fnuz(target) else {})
        dtype = name = names[name]
    if name in _EXTENSIONS:
        code, size = _EXTENSIONS[name]
        return Element(name, code, _extension(name, size))
    try:
        known = np.dtype(dtype)
    except TypeError:
        known = np.dtype(object)
    if known.kind not in _KINDS or not known.isnative:
        raise InvalidArgument(
            f"an array in device memory cannot hold {dtype!r}; convert it to a type of numbers in "
            f"this machine's byte order, or one of: {', '.join(_EXTENSIONS)}"
        )
    return Element(known.name, _KINDS[known.kind], known)


def element_of_code(code: int, bits: int) -> Element:
    """The element type by DLPack's code and bits; errors as for :func:`element_of`."""
    if code in _BY_CODE:
        return element_of(_BY_CODE[code])
    for kind, number in _KINDS.items():
        if number == code and bits % 8 == 0:
            return element_of(np.dtype(f"{kind}{bits // 8}"))
    raise InvalidArgument(f"arrays do not hold the element type of DLPack code {code}, {bits} bits")


def _extension(name: str, size: int) -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(f"u{size}")
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def _is_fnuz(target: str) -> bool:
    try:
        return bool(arch(target).fp8 == "fnuz")
    except Error:
        return False  # a GPU that the arch table lacks


__all__ = ["Element", "element_of", "element_of_code"]
