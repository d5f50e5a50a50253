"""What AMD code objects contain: kernels, their registers, memory and matrix instructions."""

from __future__ import annotations

from .check import Problem, check_object
from .inspect import inspect
from .reading import InspectError
from .report import KernelReport

__all__ = ["InspectError", "KernelReport", "Problem", "check_object", "inspect"]
