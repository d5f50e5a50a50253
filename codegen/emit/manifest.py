"""``manifest.json`` and ``compile_commands.json``: what a generated folder holds, for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..steps import Step
from ..version import ABI_VERSION, VERSION
from .cpp_view import schema_hash
from .tree import LIBRARY_OBJECT, Tree

FORMAT = 1


def _rows(entries: Iterable[Mapping[str, Any]]) -> str:
    """One entry a line: quick to write, and a difference of two versions reads well."""
    return ",\n".join("  " + json.dumps(e) for e in entries)


def manifest_text(tree: Tree, files: Sequence[str]) -> str:
    """The manifest. It holds no absolute path, so the folder may move."""
    kernels = {unit.object for unit in tree.units} | {LIBRARY_OBJECT}
    head = {
        "generator": "ckdisp",
        "format": FORMAT,
        "ckdisp_version": VERSION,
        "schema_hash": schema_hash(),
        "abi_version": ABI_VERSION,
        "library": tree.library,
        "output": tree.output,
        "header": tree.header,
        "job_memory_mb": max(p.job_memory_mb for p in tree.providers),
        "files": sorted(files),
        "built": [s.output for s in tree.steps if s.output not in kernels],
    }
    lines = [f" {json.dumps(k)}: {json.dumps(v)}," for k, v in head.items()]
    rows = _rows(
        {
            "name": u.name,
            "arch": u.key.arch,
            "unit": u.source,
            "object": u.object,
            "key": u.key.to_dict(),
        }
        for u in tree.units
    )
    return "{\n" + "\n".join(lines) + f'\n "kernels": [\n{rows}\n ]\n}}\n'


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
    heads = {r.name: json.dumps(r.commands[0].words)[:-1] for r in tree.rules}
    where = json.dumps(str(folder))
    # Written by hand: the flags are the same thousands of times.
    rows = ",\n".join(
        f'  {{"directory": {where}, "file": {json.dumps(step.source)}, "output": "{step.output}", '
        f'"arguments": {heads[step.rule.name]}, {_operands(step)[1:]}}}'
        for step in tree.steps
    )
    return f"[\n{rows}\n]\n"


def _operands(step: Step) -> str:
    return json.dumps(step.rule.commands[0].operands(step))
