"""The ops: for each its key, rules, spaces and presets."""

from __future__ import annotations

from ..errors import InvalidKey
from ..key import KernelKey
from .gemm.key import GemmKey

_KEY_CLASSES: dict[str, type[KernelKey]] = {"gemm": GemmKey}


def key_classes() -> tuple[type[KernelKey], ...]:
    """Every key class, in the order of the C++ view."""
    return tuple(_KEY_CLASSES.values())


def key_class(op: str) -> type[KernelKey]:
    """The key class of ``op``."""
    try:
        return _KEY_CLASSES[op]
    except KeyError:
        known = ", ".join(_KEY_CLASSES)
        raise InvalidKey(f"unknown op {op!r}; known: {known}") from None
