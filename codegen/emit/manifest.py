"""``manifest.json`` and ``compile_commands.json``: what a generated folder holds, for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..version import ABI_VERSION, VERSION
from .cpp_view import schema_hash
from .graph import compile_command
from .tree import LIBRARY_OBJECT, LIBRARY_SOURCE, Tree

FORMAT = 1


def _rows(entries: Iterable[Mapping[str, Any]]) -> str:
    """One entry a line: quick to write, and a difference of two versions reads well."""
    return ",\n".join("  " + json.dumps(e) for e in entries)


def manifest_text(tree: Tree, files: Sequence[str]) -> str:
    """The manifest. It holds no absolute path, so the folder may move."""
    head = {
        "generator": "ckdisp",
        "format": FORMAT,
        "ckdisp_version": VERSION,
        "schema_hash": schema_hash(),
        "abi_version": ABI_VERSION,
        "library": tree.library,
        "output": tree.output,
        "header": tree.header,
        "job_memory_mb": max(v.provider.job_memory_mb for v in tree.variants.values()),
        "files": sorted(files),
    }
    lines = [f" {json.dumps(k)}: {json.dumps(v)}," for k, v in head.items()]
    kernels = _rows(
        {
            "name": u.name,
            "arch": u.key.arch,
            "unit": u.source,
            "object": u.object,
            "key": u.key.to_dict(),
        }
        for u in tree.units
    )
    return "{\n" + "\n".join(lines) + f'\n "kernels": [\n{kernels}\n ]\n}}\n'


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a generated folder; ``None`` if there is none that can be read."""
    try:
        document = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(document, dict) and document.get("generator") == "ckdisp"
    return document if ours and document.get("format") == FORMAT else None


def compile_commands_text(tree: Tree, folder: Path) -> str:
    """The compilation database, for editors and tidy tools."""
    variants = (tree.base, *tree.variants.values())
    heads = {v.name: json.dumps(compile_command(tree, v))[:-1] for v in variants}
    where = json.dumps(str(folder))
    edges = [
        (LIBRARY_SOURCE, LIBRARY_OBJECT, tree.base.name),
        *((u.source, u.object, u.variant) for u in tree.units),
    ]
    # Written by hand: the paths need no escaping, and the flags are the same thousands of times.
    rows = ",\n".join(
        f'  {{"directory": {where}, "file": "{source}", "output": "{output}", '
        f'"arguments": {heads[variant]}, "-c", "{source}", "-o", "{output}"]}}'
        for source, output, variant in edges
    )
    return f"[\n{rows}\n]\n"
