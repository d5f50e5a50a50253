"""Hardware facts: one JSON table, loaded once, also written out as a C++ view."""

from .table import Arch, arch, arch_names, arches, parse_target

__all__ = ["Arch", "arch", "arch_names", "arches", "parse_target"]
