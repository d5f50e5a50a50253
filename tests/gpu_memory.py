"""Tensors in the memory of an AMD GPU, for functions that ``on_gpu`` runs.

``gpu(array)`` has the strides of the array, and its allocation has exactly the bytes that it spans,
so that the emulated device reports any access beside it.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

import ml_dtypes
import numpy as np
from gpu_arrays import DLTensor
from numpy.typing import ArrayLike, DTypeLike, NDArray

ROCM = 10  # kDLROCM
float32, float16, int8, int32, uint8 = map(
    np.dtype, ["float32", "float16", "int8", "int32", "uint8"]
)
bfloat16, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz = (
    np.dtype(getattr(ml_dtypes, name))
    for name in ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
)
# Codes of DLPack.
_CODES = {
    float32: 2,
    float16: 2,
    bfloat16: 4,
    int8: 0,
    int32: 0,
    uint8: 1,
    float8_e4m3fn: 10,
    float8_e4m3fnuz: 11,
    float8_e5m2: 12,
    float8_e5m2fnuz: 13,
}
_TO_DEVICE, _TO_HOST, _ON_DEVICE = 1, 2, 3
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class _Managed(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


def _hip(name: str, *arguments: Any) -> None:
    library = ctypes.CDLL(os.environ.get("CKDISP_HIP_RUNTIME") or "libamdhip64.so")
    status = getattr(library, name)(*arguments)
    if status:
        raise RuntimeError(f"{name}: HIP error {status}")


def _copy(to: int, source: int, size: int, kind: int) -> None:
    if size:
        _hip("hipMemcpy", *map(ctypes.c_void_p, (to, source)), ctypes.c_size_t(size), kind)


class Memory:
    """``size`` bytes of device ``index``."""

    def __init__(self, size: int, index: int) -> None:
        self.size, self.index = size, index
        address = ctypes.c_void_p()
        _hip("hipSetDevice", index)
        _hip("hipMalloc", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        self.address = address.value or 0
        weakref.finalize(self, _hip, "hipFree", address)


class Tensor:
    """A tensor that knows DLPack; strides count elements."""

    def __init__(self, memory: Memory, shape: Any, strides: Any, dtype: DTypeLike) -> None:
        self.memory = memory
        self.shape: tuple[int, ...] = tuple(shape)
        self.strides: tuple[int, ...] = tuple(strides)
        self.dtype = np.dtype(dtype)
        self._kept: list[Any] = []

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def device(self) -> str:
        return f"gpu:{self.memory.index}"

    def __dlpack_device__(self) -> tuple[int, int]:
        return (ROCM, self.memory.index)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        array = ctypes.c_int64 * self.ndim
        shape, strides = array(*self.shape), array(*self.strides)
        bits = self.dtype.itemsize * 8
        places = (ctypes.addressof(shape), ctypes.addressof(strides))
        managed = _Managed(1, 0, None, None, 0)
        managed.tensor = DLTensor(
            self.memory.address, ROCM, self.memory.index, self.ndim, _CODES[self.dtype], bits, 1,
            *places, 0,
        )  # fmt: skip
        self._kept.append((managed, shape, strides))
        return _new_capsule(ctypes.addressof(managed), b"dltensor_versioned", None)

    def permute(self, order: Any) -> Tensor:
        shape, strides = ([old[i] for i in order] for old in (self.shape, self.strides))
        return Tensor(self.memory, shape, strides, self.dtype)

    def contiguous(self) -> Tensor:
        return self

    def raw(self) -> NDArray[np.uint8]:
        """All bytes of the allocation."""
        out = np.empty(self.memory.size, np.uint8)
        _hip("hipSetDevice", self.memory.index)
        _copy(out.ctypes.data, self.memory.address, self.memory.size, _TO_HOST)
        return out

    def numpy(self) -> NDArray[Any]:
        size = self.dtype.itemsize
        whole = self.raw()
        flat = whole[: len(whole) // size * size].view(self.dtype)
        if not np.prod(self.shape):
            return np.empty(self.shape, self.dtype)
        strides = [step * size for step in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, strides).copy()


def gpu(array: ArrayLike, index: int = 0) -> Tensor:
    """A copy of an array on device ``index``, with the strides of the array."""
    host = np.asarray(array)
    size = host.dtype.itemsize
    steps = zip(host.shape, host.strides, strict=True)
    span = sum((count - 1) * step for count, step in steps) + size if host.size else 0
    memory = Memory(span, index)
    _copy(memory.address, host.ctypes.data, span, _TO_DEVICE)
    return Tensor(memory, host.shape, [step // size for step in host.strides], host.dtype)


def empty(shape: Any, dtype: DTypeLike = float32, device: str = "gpu:0") -> Tensor:
    """What ckdisp makes results with: filled with the bytes that the emulated device fills with."""
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return Tensor(Memory(size, int(device.rpartition(":")[2])), shape, strides, dtype)


def from_dlpack(x: Any) -> Tensor:
    raise TypeError("there is no such need here")


def synchronize() -> None:
    _hip("hipDeviceSynchronize")
