"""``manifest.json`` and ``compile_commands.json``: what a generated folder holds, for programs."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
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
        "group": tree.setup.group,
        "targets": dict(tree.setup.targets),
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


def again_command(
    folder: str, library: str, group: str | None, targets: Mapping[str, str], emit: str = ""
) -> str:
    """The command that generates ``folder`` again, with the same kernels, where ckdisp is now."""
    manifest = os.path.join(folder, "manifest.json") if folder != "." else "manifest.json"
    words = ["ckdisp", "generate", "--spec", manifest, "--out", folder, "--name", library]
    words += ["--emit", emit] if emit else []
    words += ["--group", group] if group else []
    return shlex.join((*words, *(w for target in targets.values() for w in ("--arch", target))))


def moved_folders(folder: Path) -> list[str]:
    """The folders with headers that ``build.ninja`` names and that are not there any more."""
    try:
        graph = (folder / "build.ninja").read_text(encoding="utf-8")
    except OSError:
        return []
    found: dict[str, None] = {}
    for line in graph.splitlines():
        if "-I" in line:
            with contextlib.suppress(ValueError):  # not the words of a command
                words = shlex.split(line.replace("$$", "$"))
                found.update((w[2:], None) for w in words if w.startswith("-I/"))
    return [path for path in found if not os.path.isdir(path)]


def moved_text(folder: Path) -> str:
    """That ``folder`` must be generated again since ckdisp has moved; empty if it has not."""
    moved, manifest = moved_folders(folder), read_manifest(folder)
    if not moved or manifest is None:
        return ""
    emitted = {"ninja": "build.ninja", "cmake": "CMakeLists.txt", "make": "Makefile"}
    emit = ",".join(kind for kind, file in emitted.items() if file in manifest["files"])
    targets = manifest.get("targets", {})
    command = again_command(str(folder), manifest["library"], manifest.get("group"), targets, emit)
    return (
        f"{folder} was generated for headers in {moved[0]}, which is not there any more: ckdisp, "
        "its environment or its checkout has moved. Generate it again: "
        f"{command} (where CMake made it: configure the project again)"
    )


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
