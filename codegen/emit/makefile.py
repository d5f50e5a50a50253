"""``Makefile``: the same library by GNU make, with dependency files.

Make cannot hold a blank in the name of a target; all targets here are relative, so the folder
itself may have one. Headers below a folder with blanks are tracked as far as the compiler escapes
them in dependency files.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from .graph import shared_flags
from .templates import render
from .tree import LIBRARY_OBJECT, LIBRARY_SOURCE, Tree, Variant
from .unit import TEXT_MARKER


def shell(words: Iterable[str]) -> str:
    """``words`` as a shell reads them, with ``$`` and ``#`` as make wants them."""
    return " ".join(shlex.quote(w) for w in words).replace("$", "$$").replace("#", "$(HASH)")


def makefile_text(tree: Tree) -> str:
    """The text of ``Makefile``."""
    units = [(v.name, v.provider.suffix, _objects(tree, v)) for v in tree.variants.values()]
    return render(
        "Makefile.j2",
        marker=TEXT_MARKER,
        output=tree.output,
        library_object=LIBRARY_OBJECT,
        library_source=LIBRARY_SOURCE,
        groups=units,
    )


def _objects(tree: Tree, variant: Variant) -> list[str]:
    return [u.object for u in tree.units if u.variant == variant.name]


def flags_text(tree: Tree) -> str:
    """The text of ``flags.mk``: compiler and flags, apart so that objects can depend on them.

    ``CXX`` and ``CXXFLAGS`` can be set on the command line of make.
    """
    toolchain = tree.toolchain
    return render(
        "flags.mk.j2",
        marker=TEXT_MARKER,
        cxx=shell(toolchain.command) if toolchain is not None else "c++",
        flags=shell((*tree.optional_flags, *(toolchain.cxx_flags if toolchain else ()))),
        includes=shell(f"-I{d}" for d in ("include", *tree.include_dirs)),
        variants=[(v.name, shell(v.flags)) for v in (tree.base, *tree.variants.values())],
        link_flags=shell(shared_flags(tree)),
        libraries=shell(tree.libraries()),
    )
