"""Where the installed parts of ckdisp lie that are no Python modules."""

from __future__ import annotations

from pathlib import Path

from ..codegen.errors import LibraryError


def cmake_dir() -> Path:
    """The folder for ``ckdisp_DIR`` of ``find_package(ckdisp)``."""
    return _folder_with("cmake", "ckdispConfig.cmake")


def include_dir() -> Path:
    """The folder of the public C++ headers, generated ones included."""
    return _folder_with("csrc/include", "ckdisp/generated/enums.hpp")


def _folder_with(folder: str, file: str) -> Path:
    # An editable install has two places: the source tree and what the build installed.
    from .. import __path__ as places

    for place in places:
        found = Path(place) / folder
        if (found / file).is_file():
            return found
    raise LibraryError(
        f"{file} is not part of this copy of ckdisp in {', '.join(places)}; install the package "
        "with pip, a source tree alone does not hold it"
    )
