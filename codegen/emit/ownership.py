"""Which files of a folder are ours: nothing of anyone else is overwritten or removed."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import BuildError
from ..providers import COMPILER_FILE
from .tree import Tree
from .unit import CPP_MARKER, TEXT_MARKER

_BUILD_FILES = (
    *("build.ninja", "compile_commands.json", "CMakeLists.txt", "Makefile", "flags.mk"),
    COMPILER_FILE,
)
_PROJECT_FILES = (".git", "pyproject.toml", "setup.py")
_JSON_STARTS = (b'{\n "generator": "ckdisp"', b'[\n  {"directory": ')
_VIEW_STARTS = (b"// Generated from the ckdisp schema;", b"// Generated from arches.json;")
_STARTS = (CPP_MARKER.encode(), TEXT_MARKER.encode(), *_JSON_STARTS, *_VIEW_STARTS)
_SCANNED = (".cpp", ".cu", ".hip", ".hpp")
# What a build leaves beside an object, and what is made from it.
_BESIDE = ("", ".d", ".rsp", ".co", ".new")


def is_ours(path: Path) -> bool:
    """Whether ``path`` is missing or starts as our files do, be it cut short."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(max(map(len, _STARTS)))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return any(head.startswith(s) or s.startswith(head) for s in _STARTS)


def check_folder(folder: Path, files: Iterable[str]) -> None:
    """:class:`BuildError` if writing ``files`` in ``folder`` would damage something."""
    for parent in (folder, *folder.parents):
        if os.path.exists(parent):  # also for what no file system takes
            if not parent.is_dir():
                raise BuildError(f"cannot generate into {folder}: {parent} is a file, not a folder")
            break
    for name in _PROJECT_FILES:
        if os.path.exists(folder / name):
            raise BuildError(
                f"cannot generate into {folder}: it holds {name}, so it is a source tree; "
                "choose a folder of its own, for instance below the build folder"
            )
    for name in files:
        if not is_ours(folder / name):
            raise BuildError(
                f"cannot generate into {folder}: {name} there was not written by ckdisp; "
                "move it away or choose another folder"
            )


def stale_files(
    folder: Path, tree: Tree, keep: Collection[str], old: Mapping[str, Any] | None
) -> list[str]:
    """Files that ckdisp wrote or built before and that are no longer part of the folder.

    ``old`` is the manifest of the last time, which lists what was built.
    """
    stale = []
    for base in ("units", "groups", "host", "include", "include/ckdisp/generated"):
        for path in _names(folder, base):
            if path not in keep and path.endswith(_SCANNED) and is_ours(folder / path):
                stale.append(path)
    stale += [n for n in _BUILD_FILES if n not in keep and _present_and_ours(folder / n)]
    live = {step.output for step in tree.steps}
    gone = {f"obj/{Path(p).stem}.o" for p in stale if p.startswith(("units/", "groups/"))}
    gone |= {f"obj/host_{Path(p).stem}.o" for p in stale if p.startswith("host/")}
    if old is not None:
        gone.update(str(k.get("object")) for k in old.get("kernels", ()))
        gone.update(map(str, old.get("built", ())))
    built = [o for o in gone - live if o.startswith(("obj/", "pch/")) and ".." not in o]
    output = str(old.get("output")) if old is not None else tree.output
    if output != tree.output and os.sep not in output:
        built.append(output)
    for path in sorted(built):
        stale += [p for b in _BESIDE if (folder / (p := f"{path}{b}")).is_file()]
    return stale


def _names(folder: Path, base: str) -> list[str]:
    try:
        return sorted(f"{base}/{e.name}" for e in os.scandir(folder / base) if e.is_file())
    except OSError:
        return []


def _present_and_ours(path: Path) -> bool:
    return path.is_file() and is_ours(path)
