"""How large a kernel library is, by family and arch: ``sizes.py MANIFEST LIBRARY OBJECTS``.

This file runs on its own, with the standard library alone: build systems call it after a link.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "CKDISP_MAX_LIBRARY_MB"
DEFAULT_MB = 1024
_MB = 1 << 20
SHARED = "shared"  # what kernels share: tables, groups


@dataclass(frozen=True)
class Size:
    """Bytes of the objects of one family on one arch, and how many kernels they are."""

    family: str
    arch: str
    kernels: int
    bytes: int


@dataclass(frozen=True)
class Report:
    """``library`` bytes of the linked file, ``sizes`` of the objects in it, the largest first."""

    library: int
    sizes: tuple[Size, ...]

    def lines(self) -> Iterator[str]:
        """The report as text, a line for each family and arch."""
        for size in self.sizes:
            count = f", {size.kernels} kernel{'s' if size.kernels != 1 else ''}"
            yield f"{size.family} {size.arch}: {text(size.bytes)}{count if size.kernels else ''}"
        yield f"library: {text(self.library)}"


def text(number: int) -> str:
    """A number of bytes for people."""
    return f"{number / _MB:.1f} MB" if number >= _MB // 10 else f"{number / 1024:.1f} kB"


def report(manifest: Mapping[str, Any], library: Path, objects: Path) -> Report:
    """The sizes of a built folder: ``objects`` is where the paths of objects start."""
    found: dict[tuple[str, str], list[int]] = {}
    holders: dict[str, set[tuple[str, str]]] = {}
    for kernel in manifest["kernels"]:
        family = kernel["key"]["family"]
        found.setdefault((family, kernel["arch"]), [0, 0])[0] += 1
        holders.setdefault(kernel["object"], set()).add((family, kernel["arch"]))
    units = {kernel["object"]: kernel["unit"] for kernel in manifest["kernels"]}
    folder = f"CMakeFiles/{manifest['library']}.dir"
    for path in (*holders, *(b for b in manifest.get("built", ()) if b.endswith(".o"))):
        owners = holders.get(path, set())
        owner = next(iter(owners)) if len(owners) == 1 else (SHARED, "-")
        names = (path, f"{folder}/{units.get(path, path)}.o")
        found.setdefault(owner, [0, 0])[1] += _bytes(objects, names)
    sizes = [Size(*owner, *numbers) for owner, numbers in found.items() if any(numbers)]
    ordered = sorted(sizes, key=lambda s: (-s.bytes, s.family, s.arch))
    return Report(library.stat().st_size, tuple(ordered))


def _bytes(objects: Path, names: tuple[str, ...]) -> int:
    """The size of an object, by the names that ninja and make, or CMake, may have given it."""
    for name in names:
        try:
            return os.stat(objects / name).st_size
        except OSError:
            continue
    return 0


def warning(library: str, number: int, env: Mapping[str, str] | None = None) -> str:
    """What to say of a library of ``number`` bytes that is over the limit; else an empty string."""
    env = os.environ if env is None else env
    given = env.get(VARIABLE, "").strip()
    try:
        limit = float(given) if given else float(DEFAULT_MB)
        if not limit > 0:
            raise ValueError
    except ValueError:
        return f"{VARIABLE}={given!r} is no number of megabytes above 0; {DEFAULT_MB} is taken"
    if number <= limit * _MB:
        return ""
    return (
        f"{library} has {text(number)}, over the limit of {limit:g} MB: narrow the set (fewer "
        f"archs, types or tiles), split it, or raise {VARIABLE}"
    )


def main(arguments: list[str]) -> int:
    manifest_path, library, objects = map(Path, arguments)
    try:
        found = report(json.loads(manifest_path.read_text(encoding="utf-8")), library, objects)
    except (OSError, ValueError, KeyError) as error:
        print(f"ckdisp: the sizes of {library} are not known: {error}", file=sys.stderr)
        return 0
    print(f"ckdisp: {library.name}: " + "; ".join(found.lines()))
    if said := warning(str(library), found.library):
        print(f"ckdisp: warning: {said}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
