"""The ops: for each its key, rules, spaces and presets."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

from ..enums import FAMILY, unknown
from ..errors import InvalidKey
from ..key import KernelKey
from .conv.key import ConvKey
from .fmha.key import FmhaKey
from .gemm.key import GemmKey

if TYPE_CHECKING:
    from .definition import Op

_KEY_CLASSES: dict[str, type[KernelKey]] = {
    "gemm": GemmKey,
    "conv": ConvKey,
    "fmha": FmhaKey,
}


def key_classes() -> tuple[type[KernelKey], ...]:
    """Every key class, in the order of the C++ view."""
    return tuple(_KEY_CLASSES.values())


def key_class(op: str) -> type[KernelKey]:
    """The key class of ``op``."""
    try:
        return _KEY_CLASSES[op]
    except KeyError:
        raise InvalidKey(unknown("op", op, tuple(_KEY_CLASSES))) from None


@functools.cache
def op(name: str) -> Op:
    """The op called ``name``: ``ops/<name>/op.py`` holds it as ``OP``."""
    key_class(name)
    # Imported on first use, so that reading keys does not load rules and spaces.
    found: Op = importlib.import_module(f"{__name__}.{name}.op").OP
    return found


def ops() -> tuple[Op, ...]:
    """Every op, in table order."""
    return tuple(op(name) for name in _KEY_CLASSES)


def op_of_family(family: str) -> Op:
    """The op of a family such as ``gemm.multi_d``; :class:`InvalidKey` for an unknown one."""
    if family not in FAMILY:
        raise InvalidKey(unknown("family", family, FAMILY.values))
    return op(family.partition(".")[0])
