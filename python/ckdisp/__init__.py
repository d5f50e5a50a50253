"""Declare, generate, build, register and dispatch compute kernels.

Nothing is loaded or run at import: every public name is fetched on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import jit, reference
    from . import torch as torch  # in no list of names: importing it takes PyTorch
    from ._core import (
        Candidate,
        Device,
        FmhaCall,
        FmhaProblem,
        GemmProblem,
        GroupedConvProblem,
        Kernel,
        Plan,
        Stage,
    )
    from .code_objects import inspect
    from .codegen.arch import Arch, arch
    from .codegen.errors import (
        BuildError,
        DeviceError,
        Error,
        InvalidArgument,
        InvalidKey,
        KernelNotFound,
        LibraryError,
        UnsupportedProblem,
    )
    from .codegen.generate import GenerateResult, generate
    from .codegen.key import KernelKey
    from .codegen.make import make_key, parse_name
    from .codegen.version import VERSION as __version__
    from .device_array import (
        DeviceArray,
        empty,
        from_dlpack,
        synchronize,
        to_device,
        zeros,
    )
    from .dispatcher import Dispatcher, Explanation
    from .gpu import devices, free_device_workspaces, why_no_devices
    from .kernel_set import KernelSet
    from .registry import Registry, host_arches
    from .shuffle import shuffle_b
    from .streams import Event, Stream, current_stream
    from .validate import Validator
    from .verification import verify

_HOMES = {
    "Arch": "codegen.arch",
    "BuildError": "codegen.errors",
    "Candidate": "_core",
    "Device": "_core",
    "DeviceArray": "device_array",
    "DeviceError": "codegen.errors",
    "Dispatcher": "dispatcher",
    "Error": "codegen.errors",
    "Event": "streams",
    "Explanation": "dispatcher",
    "FmhaCall": "_core",
    "FmhaProblem": "_core",
    "GemmProblem": "_core",
    "GenerateResult": "codegen.generate",
    "GroupedConvProblem": "_core",
    "InvalidArgument": "codegen.errors",
    "InvalidKey": "codegen.errors",
    "Kernel": "_core",
    "KernelKey": "codegen.key",
    "KernelNotFound": "codegen.errors",
    "KernelSet": "kernel_set",
    "LibraryError": "codegen.errors",
    "Plan": "_core",
    "Registry": "registry",
    "Stage": "_core",
    "Stream": "streams",
    "UnsupportedProblem": "codegen.errors",
    "Validator": "validate",
    "arch": "codegen.arch",
    "current_stream": "streams",
    "devices": "gpu",
    "empty": "device_array",
    "free_device_workspaces": "gpu",
    "from_dlpack": "device_array",
    "generate": "codegen.generate",
    "host_arches": "registry",
    "inspect": "code_objects",
    "jit": "",
    "make_key": "codegen.make",
    "parse_name": "codegen.make",
    "reference": "",
    "shuffle_b": "shuffle",
    "synchronize": "device_array",
    "to_device": "device_array",
    "torch": "",
    "verify": "verification",
    "why_no_devices": "gpu",
    "zeros": "device_array",
}

__all__ = [
    "__version__",
    "Arch",
    "BuildError",
    "Candidate",
    "Device",
    "DeviceArray",
    "DeviceError",
    "Dispatcher",
    "Error",
    "Event",
    "Explanation",
    "FmhaCall",
    "FmhaProblem",
    "GemmProblem",
    "GenerateResult",
    "GroupedConvProblem",
    "InvalidArgument",
    "InvalidKey",
    "Kernel",
    "KernelKey",
    "KernelNotFound",
    "KernelSet",
    "LibraryError",
    "Plan",
    "Registry",
    "Stage",
    "Stream",
    "UnsupportedProblem",
    "Validator",
    "arch",
    "current_stream",
    "devices",
    "empty",
    "free_device_workspaces",
    "from_dlpack",
    "generate",
    "host_arches",
    "inspect",
    "jit",
    "make_key",
    "parse_name",
    "reference",
    "shuffle_b",
    "synchronize",
    "to_device",
    "verify",
    "why_no_devices",
    "zeros",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = importlib.import_module(".codegen.version", __name__).VERSION
    elif name in _HOMES:
        home = _HOMES[name]
        module = importlib.import_module(f".{home or name}", __name__)
        value = getattr(module, name) if home else module
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
