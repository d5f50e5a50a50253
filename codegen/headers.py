"""Where the C++ headers of ckdisp lie: next to this package, installed or in a source checkout."""

from __future__ import annotations

import functools
from pathlib import Path

from .emit.cpp_view import cpp_view
from .errors import BuildError


def own_include_dirs() -> list[Path]:
    """The include folders of a generated unit, in order."""
    here = Path(__file__)
    for package in (here.parent, here.resolve().parent):  # the package may be a symbolic link
        sources = package.parent / "csrc"
        if (sources / "include" / "ckdisp").is_dir():
            return [sources / "include", sources]
    raise BuildError(f"the C++ headers of ckdisp are not next to {here.parent}; reinstall ckdisp")


def missing_headers() -> dict[str, str]:
    """Generated headers that the include folders lack, by path in a generated folder.

    A source checkout has none, since nothing is ever written into it; an installed package has
    all, unless its Python part is newer.
    """
    texts = _view()
    root = own_include_dirs()[0]
    if all(_reads(root / path) == text for path, text in texts.items()):
        return {}
    return {f"include/{path}": text for path, text in texts.items()}


@functools.cache
def _view() -> dict[str, str]:
    return {f"ckdisp/generated/{name}": text for name, text in cpp_view().items()}


def _reads(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return None
