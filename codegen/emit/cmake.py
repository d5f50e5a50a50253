"""``CMakeLists.txt``: the same library as a plain CMake target."""

from __future__ import annotations

from collections.abc import Iterable

from .templates import render
from .tree import LIBRARY_SOURCE, Tree, Unit, Variant
from .unit import TEXT_MARKER

# Names that CMake gives to no target of a project.
RESERVED_TARGETS = (
    *("all", "ALL_BUILD", "clean", "edit_cache", "help", "install", "INSTALL", "preinstall"),
    *("rebuild_cache", "ZERO_CHECK"),
)


def quote(word: str) -> str:
    """``word`` as one CMake argument."""
    for special in ("\\", '"', "$", ";"):
        word = word.replace(special, "\\" + special)
    return f'"{word}"'


def words(items: Iterable[str]) -> str:
    return " ".join(map(quote, items))


def quote_list(items: Iterable[str]) -> str:
    """``items`` as one argument that holds a CMake list."""
    return '"' + ";".join(quote(i)[1:-1] for i in items) + '"'


def _flags(variant: Variant, tree: Tree) -> str:
    extra = tree.toolchain.cxx_flags if tree.toolchain is not None else ()
    # The C++ standard is a property of the target; everything else belongs to the kernels and
    # must not be weakened by the flags of the build type, so it goes on the source files.
    flags = (*(f for f in variant.flags if not f.startswith("-std=")), *extra)
    return quote_list(flags)


def cmake_text(tree: Tree) -> str:
    """The text of ``CMakeLists.txt``; it also works through ``add_subdirectory``."""
    units: dict[str, list[Unit]] = {}
    for unit in tree.units:
        units.setdefault(unit.variant, []).append(unit)
    groups = [
        (name, [u.source for u in group], _flags(tree.variants[name], tree))
        for name, group in units.items()
    ]
    return render(
        "CMakeLists.txt.j2",
        marker=TEXT_MARKER,
        library=tree.library,
        library_source=LIBRARY_SOURCE,
        base_flags=_flags(tree.base, tree),
        groups=groups,
        include_dirs=words(tree.include_dirs),
        openmp="-fopenmp" in tree.optional_flags,
        libraries=words(tree.libraries()),
    )
