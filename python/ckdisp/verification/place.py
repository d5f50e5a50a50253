"""Tensors of exact size between guards, in the CPU's memory or on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core

# Bytes before and behind each tensor. Their value, 0xff, is NaN in every floating-point type.
_GUARD = 4096
_FILL = 0xFF


class Tensor:
    """Memory that starts as 0xff, with a strided view of elements in its middle."""

    def __init__(
        self, place: Place, shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]
    ) -> None:
        """``strides`` count elements."""
        size = dtype.itemsize
        steps = tuple(step * size for step in strides)
        ends = ((n - 1) * step for n, step in zip(shape, steps, strict=True))
        span = sum(ends) + size if np.prod(shape) else 0
        guard = 0 if place.checks_bounds else _GUARD
        self._place = place
        self._shown: Any = None
        self._host = np.full(span + 2 * guard, _FILL, np.uint8)
        self._form = (tuple(shape), dtype, guard, steps)
        self._inside = np.zeros(self._host.size, bool)
        if span:
            form = (*shape, size)
            cells = np.ndarray(form, bool, self._inside.data, guard, (*steps, 1))
            cells[...] = True

    def set(self, values: NDArray[Any]) -> Any:
        """Write the elements; the tensor for a dispatcher."""
        if self._inside.any():
            self._view(self._host)[...] = values
        return self.fresh()

    def fresh(self) -> Any:
        """The tensor for a dispatcher, with the bytes that were set last."""
        if self._place.device is None:
            self._shown = self._host.copy()
            return self._view(self._shown)
        from ..device_array import DeviceArray, to_device
        from ..elements import element_of

        whole = self._shown = to_device(self._host, self._place.device)
        shape, dtype, guard, steps = self._form
        return DeviceArray(
            whole._storage, whole.address + guard, shape, steps, element_of(dtype.name)
        )

    def read(self) -> tuple[NDArray[Any], str]:
        """The elements, and what is wrong with the bytes around them."""
        shown = self._shown
        found: NDArray[np.uint8] = shown if self._place.device is None else shown.numpy()
        changed = np.flatnonzero((found != self._host) & ~self._inside)
        elements = self._view(found).copy() if self._inside.any() else self._empty()
        if not changed.size:
            return elements, ""
        return elements, f"{changed.size} bytes around or between the results were written"

    def _empty(self) -> NDArray[Any]:
        shape, dtype, _, steps = self._form
        return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, steps)

    def _view(self, memory: NDArray[np.uint8]) -> NDArray[Any]:
        shape, dtype, guard, steps = self._form
        if not np.prod(shape):
            return self._empty()
        return np.ndarray(shape, dtype, memory.data, guard, steps)


@dataclass(frozen=True)
class Place:
    """This machine's CPU, or a device."""

    device: _core.Device | None

    @property
    def checks_bounds(self) -> bool:
        """Whether every access to memory is checked, so that guards would only hide faults."""
        return self.device is not None and "emulated" in self.device.name.lower()

    def tensor(
        self, shape: Sequence[int], dtype: np.dtype[Any], strides: Sequence[int] | None = None
    ) -> Tensor:
        """Strides count elements; without them the tensor is row-major."""
        if strides is None:
            strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        return Tensor(self, shape, strides, dtype)

    def matrix(self, rows: int, columns: int, order: str, pad: int, dtype: np.dtype[Any]) -> Tensor:
        """``order`` is "r" or "c"; lines are ``pad`` elements longer than they need be."""
        strides = (columns + pad, 1) if order == "r" else (1, rows + pad)
        return self.tensor((rows, columns), dtype, strides)

    def __str__(self) -> str:
        if self.device is None:
            return "the CPU"
        kind = "emulated, " if self.checks_bounds else ""
        return f"{self.device} ({kind}{self.device.name}, {self.device.arch})"


def element_type(name: str, arch_name: str) -> np.dtype[Any]:
    """NumPy's type for an element type of a key; fp8 in the encoding of the arch."""
    from ..elements import element_of

    return element_of(name, arch_name).dtype


def compare(got: NDArray[Any], wanted: NDArray[Any], around: str) -> str:
    """What differs, in words; empty when all is right."""
    from ..validate import Validator

    if got.dtype.kind in "iu":
        limits = np.iinfo(got.dtype)
        wanted = np.clip(np.rint(wanted), limits.min, limits.max)
    check = Validator().check(got, wanted)
    return "; ".join(text for text in ("" if check else str(check), around) if text)


def run_twice(result: Tensor, run: Any, wanted: NDArray[Any]) -> str:
    """Run with a fresh result twice; the difference from ``wanted``, or between the runs."""
    run(result.fresh())
    got, around = result.read()
    if text := compare(got, wanted, around):
        return text
    run(result.fresh())
    again, _ = result.read()
    same = np.array_equal(got.view(np.uint8), again.view(np.uint8)) if got.size else True
    return "" if same else "two runs gave different results"
