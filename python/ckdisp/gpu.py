"""GPUs. HIP and CUDA are loaded by the first call here, or by the first on a GPU's tensors."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from . import _core
from ._core import Device
from .codegen.errors import DeviceError, InvalidArgument, suggest

DeviceLike = str | SupportsIndex | Device
# Kinds of GPU runtimes, and the number of the first device of each.
_FIRST = {"hip": 0, "cuda": 128}


def devices() -> list[Device]:
    """The GPUs that this process can use: AMD's, which HIP shows, then NVIDIA's, which CUDA shows.

    The HIP runtime is the file that ``CKDISP_HIP_RUNTIME`` names, one that the process has loaded
    already (PyTorch brings its own), or ``libamdhip64.so`` by the loader's path, below
    ``ROCM_PATH``, ``HIP_PATH`` or ``/opt/rocm``. The CUDA driver is the file that
    ``CKDISP_CUDA_DRIVER`` names, or ``libcuda.so.1`` by the loader's path. A process made by
    fork() after its parent had used a GPU has none of its kind.
    """
    return _core.devices()


def device_of(device: DeviceLike) -> Device:
    """The device that ``"hip:0"``, ``"hip"``, an index or a :class:`Device` names.

    Raises :class:`InvalidArgument` for what names none, and :class:`DeviceError` when the device
    is not here; that says why.
    """
    if isinstance(device, Device):
        return device
    if not isinstance(device, str):
        try:
            return _core.device(operator.index(device))
        except TypeError:
            raise InvalidArgument(f"device is {device!r}; pass 'hip:0' or an index") from None
    kind, colon, number = device.partition(":")
    if kind not in _FIRST:
        known = " or ".join(f"'{kind}:N'" for kind in _FIRST)
        hint = suggest(kind, list(_FIRST))
        if kind == "cpu":
            hint = "; arrays in the CPU's memory are NumPy's"
        raise InvalidArgument(f"device is {device!r}{hint}; a device is {known}, N from 0 on")
    if colon and not (number.isascii() and number.isdigit()):
        raise InvalidArgument(f"device is {device!r}; behind the colon stands its index, as in 0")
    index = int(number or "0")
    if index >= _FIRST["cuda"]:
        raise DeviceError(f"there is no device {device!r}; see ckdisp.devices()")
    return _core.device(_FIRST[kind] + index)


def why_no_devices() -> str:
    """Why :func:`devices` is empty, in words; an empty text when it is not."""
    return _core.why_no_devices()


def free_device_workspaces() -> None:
    """Free the scratch memory that dispatchers keep for each stream, after waiting for its use.

    Good before a stream is destroyed, and when memory is short; later calls take new memory.
    """
    _core.free_device_workspaces()


__all__ = [
    "Device",
    "DeviceLike",
    "device_of",
    "devices",
    "free_device_workspaces",
    "why_no_devices",
]
