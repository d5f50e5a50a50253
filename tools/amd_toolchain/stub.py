"""Build the stub of ``libamdhip64.so.7``: what ``stub/`` emulates and the rest of HIP's functions.

Every function that HIP's header declares is defined weakly, with the header's own signature; what
``stub/`` defines takes precedence when both are linked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import HERE, Failure, run

SONAME = "libamdhip64.so.7"
_SOURCES = ("state.c", "device.c", "code.c", "launch.c")
_INCLUDE = "#include <hip/hip_runtime_api.h>\n"


def build(clang: Path, include: Path, folder: Path) -> int:
    """Write the library into ``folder``; the number of functions that the header declares."""
    compiler = [clang, "-std=gnu17", "-w", "-D__HIP_PLATFORM_AMD__", "-isystem", include]
    tree = json.loads(
        run(
            *(*compiler, "-x", "c", "-fsyntax-only", "-Xclang", "-ast-dump=json", "-"),
            text=_INCLUDE,
        )
    )
    functions = dict(_functions(tree))
    if len(functions) < 100:
        raise Failure(
            f"{include}/hip/hip_runtime_api.h declares only {len(functions)} functions; the "
            "headers are damaged. Run again with --force"
        )
    generated = folder / "generated.c"
    generated.write_text(_source(functions, dict(_errors(tree))), encoding="utf-8")
    sources = [HERE / "stub" / name for name in _SOURCES]
    run(
        *(*compiler, "-O1", "-fPIC", "-shared", "-I", HERE / "stub", *sources, generated),
        *(f"-Wl,-soname,{SONAME}", "-Wl,-z,now", "-Wl,-z,defs", "-ldl", "-lpthread"),
        *("-o", folder / SONAME),
    )
    (folder / "libamdhip64.so").symlink_to(SONAME)
    return len(functions)


def _functions(tree: dict[str, Any]) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """Name -> return type and parameter types of each function that is declared, not defined."""
    for node in tree["inner"]:
        name = node.get("name", "")
        if node["kind"] != "FunctionDecl" or not name.lstrip("_").startswith("hip"):
            continue
        children = node.get("inner", [])
        if any(child["kind"] == "CompoundStmt" for child in children):
            continue
        parameters = [c["type"]["qualType"] for c in children if c["kind"] == "ParmVarDecl"]
        yield name, (node["type"]["qualType"].partition("(")[0].strip(), parameters)


def _errors(tree: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Value and name of each ``hipError_t``; the header gives deprecated names of a value last."""
    seen = set()
    for node in tree["inner"]:
        if node["kind"] != "EnumDecl" or node.get("name") != "hipError_t":
            continue
        value = -1
        for constant in node["inner"]:
            if constant["kind"] != "EnumConstantDecl":
                continue
            given = _constant(constant)
            value = value + 1 if given is None else given
            if value not in seen:
                seen.add(value)
                yield value, constant["name"]


def _constant(node: dict[str, Any]) -> int | None:
    """The value written for an enumerator, if one is."""
    for child in node.get("inner", []):
        if "value" in child:
            return int(child["value"])
        if (found := _constant(child)) is not None:
            return found
    return None


def _source(functions: dict[str, tuple[str, list[str]]], errors: dict[int, str]) -> str:
    lines = ['#include "stub.h"', ""]
    for name, (returns, parameters) in sorted(functions.items()):
        # __typeof__ makes any type usable as it stands, function pointers too.
        takes = ", ".join(f"__typeof__({t}) p{i}" for i, t in enumerate(parameters)) or "void"
        if returns == "hipError_t":
            body = f' return stub_not_emulated("{name}"); '
        elif returns == "void":
            body = ""
        else:
            body = f" return (__typeof__({returns})){{0}}; "
        lines.append(f"__attribute__((weak)) {returns} {name}({takes}) {{{body}}}")
    lines += ["", "const char* stub_error_name(hipError_t error) {", "  switch ((int)error) {"]
    lines += [f'    case {value}: return "{name}";' for value, name in sorted(errors.items())]
    lines += ['    default: return "hipErrorUnknown";', "  }", "}", ""]
    return "\n".join(lines)
