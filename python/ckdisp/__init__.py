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
    from .dispatcher import Dispatcher, Explanation
    from .gpu import devices, free_device_workspaces, why_no_devices
    from .kernel_set import KernelSet
    from .registry import Registry, host_arches
    from .shuffle import shuffle_b
    from .validate import Validator

_HOMES = {
    "Arch": "codegen.arch",
    "BuildError": "codegen.errors",
    "Candidate": "_core",
    "Device": "_core",
    "DeviceError": "codegen.errors",
    "Dispatcher": "dispatcher",
    "Error": "codegen.errors",
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
    "UnsupportedProblem": "codegen.errors",
    "Validator": "validate",
    "arch": "codegen.arch",
    "devices": "gpu",
    "free_device_workspaces": "gpu",
    "generate": "codegen.generate",
    "host_arches": "registry",
    "inspect": "code_objects",
    "jit": "",
    "make_key": "codegen.make",
    "parse_name": "codegen.make",
    "reference": "",
    "shuffle_b": "shuffle",
    "torch": "",
    "why_no_devices": "gpu",
}

__all__ = [
    "__version__",
    "Arch",
    "BuildError",
    "Candidate",
    "Device",
    "DeviceError",
    "Dispatcher",
    "Error",
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
    "UnsupportedProblem",
    "Validator",
    "arch",
    "devices",
    "free_device_workspaces",
    "generate",
    "host_arches",
    "inspect",
    "jit",
    "make_key",
    "parse_name",
    "reference",
    "shuffle_b",
    "why_no_devices",
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
