"""Tensors that say they are on a GPU, and lie in the host's memory: what the tests of GPUs
compute with, on the pretended devices of ``cpp/fake_hip.cpp`` and ``fake_cuda.cpp``."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

CUDA, ROCM = 2, 10  # kDLCUDA, kDLROCM

_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


def _tensor_of(capsule: object) -> DLTensor:
    """The tensor in a capsule of DLPack 1: behind version, context, deleter and flags."""
    address = _api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    return DLTensor.from_address(address + 32)


class Array:
    """A GPU's tensor with nothing but DLPack. Notes the streams that it was made ready for.

    ``code`` is that of the element type in DLPack, if it is not that of ``array``.
    """

    device_type = ROCM

    def __init__(
        self, array: np.ndarray[Any, Any], index: int = 0, code: int | None = None
    ) -> None:
        self.array = array
        self.index = index
        self.code = code
        self.streams: list[int | None] = []

    @property
    def device(self) -> str:
        return f"gpu:{self.index}"

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device_type, self.index)

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None
    ) -> Any:
        self.streams.append(stream)
        capsule = self.array.__dlpack__(max_version=max_version)
        tensor = _tensor_of(capsule)
        tensor.device_type, tensor.device_id = self.device_type, self.index
        if self.code is not None:
            tensor.code = self.code
        return capsule


class CudaArray(Array):
    """One of an NVIDIA GPU."""

    device_type = CUDA

    @property
    def device(self) -> str:
        return f"cuda:{self.index}"


def empty(shape: tuple[int, int], dtype: Any, device: str) -> Array:
    kind, _, index = device.rpartition(":")
    return (CudaArray if kind == "cuda" else Array)(np.empty(shape, dtype), int(index))


def install(name: str, **members: Any) -> ModuleType:
    """Make a framework called ``name`` whose tensors are arrays, with more ``members``."""
    module = ModuleType(name)
    module.__dict__.update(
        from_dlpack=Array,
        empty=empty,
        Tensor=Array,
        float32=np.float32,
        float16=np.float16,
        **members,
    )
    sys.modules[name] = module
    Array.__module__ = name
    return module


def install_torch(stream: int) -> None:
    """Make a framework that looks like PyTorch with ``stream`` as the current one."""
    cuda = SimpleNamespace(current_stream=lambda index: SimpleNamespace(cuda_stream=stream + index))
    install("torch", cuda=cuda)


_FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
_STREAM = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class _Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("unused", ctypes.c_void_p * 3),
        ("tensor_from_object", _FROM_OBJECT),
        ("current_stream", _STREAM),
    ]


def offer_exchange(stream: int) -> None:
    """Give the arrays the C exchange interface of DLPack, with ``stream`` as the current one."""

    def from_object(array: Array, out: Any) -> int:
        array.capsule = array.array.__dlpack__(max_version=(1, 0))  # type: ignore[attr-defined]
        tensor = _tensor_of(array.capsule)  # type: ignore[attr-defined]
        ctypes.memmove(out, ctypes.addressof(tensor), ctypes.sizeof(tensor))
        out[0].device_type, out[0].device_id = ROCM, array.index
        return 0

    def current(_: int, index: int, out: Any) -> int:
        out[0] = stream + index
        return 0

    exchange = _Exchange(
        1, 1, None, (None, None, None), _FROM_OBJECT(from_object), _STREAM(current)
    )
    capsule = _api.PyCapsule_New(ctypes.addressof(exchange), b"dlpack_exchange_api", None)
    Array.__dlpack_c_exchange_api__ = capsule  # type: ignore[attr-defined]
    Array.exchange = exchange  # type: ignore[attr-defined]


def load_module(file: str) -> ModuleType:
    """The test module ``file``, which a new process cannot import by name."""
    spec = importlib.util.spec_from_file_location("cases", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cases"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def call(file: str, name: str, *arguments: Any) -> None:
    """Call function ``name`` of ``file`` in this process, which is a new one."""
    getattr(load_module(file), name)(*arguments)
