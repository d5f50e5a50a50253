"""GPUs. HIP and CUDA are loaded by the first call here, or by the first on a GPU's tensors."""

from __future__ import annotations

from . import _core
from ._core import Device


def devices() -> list[Device]:
    """The GPUs that this process can use: AMD's, which HIP shows, then NVIDIA's, which CUDA shows.

    The HIP runtime is the file that ``CKDISP_HIP_RUNTIME`` names, one that the process has loaded
    already (PyTorch brings its own), or ``libamdhip64.so`` by the loader's path, below
    ``ROCM_PATH``, ``HIP_PATH`` or ``/opt/rocm``. The CUDA driver is the file that
    ``CKDISP_CUDA_DRIVER`` names, or ``libcuda.so.1`` by the loader's path. A process made by
    fork() after its parent had used a GPU has none of its kind.
    """
    return _core.devices()


def why_no_devices() -> str:
    """Why :func:`devices` is empty, in words; an empty text when it is not."""
    return _core.why_no_devices()


def free_device_workspaces() -> None:
    """Free the scratch memory that dispatchers keep for each stream, after waiting for its use.

    Good before a stream is destroyed, and when memory is short; later calls take new memory.
    """
    _core.free_device_workspaces()


__all__ = ["Device", "devices", "free_device_workspaces", "why_no_devices"]
