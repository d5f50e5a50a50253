"""Build the emulator's ``libamdhip64.so.7``: ``hip/``, and errors for HIP's other functions."""

from __future__ import annotations

import json
import re
from pathlib import Path

from common import run

HERE = Path(__file__).resolve().parent
SONAME = "libamdhip64.so.7"
_ALIASES = ("libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.5")
# Functions that HIP's headers leave out or guard, and that programs link against.
_MORE = """#include <hip/hip_runtime_api.h>
hipError_t hipExtLaunchKernel(const void*, dim3, dim3, void**, size_t, hipStream_t, hipEvent_t,
                              hipEvent_t, int);
hipError_t hipExtModuleLaunchKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned,
                                    unsigned, size_t, hipStream_t, void**, void**, hipEvent_t,
                                    hipEvent_t, unsigned);
hipError_t hipHccModuleLaunchKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned,
                                    unsigned, size_t, hipStream_t, void**, void**, hipEvent_t,
                                    hipEvent_t);
hipError_t hipExtGetLastError(void);
"""
_STUBS = {
    "hipError_t": 'int {name}() {{ return emuhip_unsupported("{name}"); }}',
    "void": 'void {name}() {{ emuhip_unsupported("{name}"); }}',
    "pointer": 'void* {name}() {{ emuhip_unsupported("{name}"); return 0; }}',
    "channel": "struct channel {{ int x, y, z, w, f; }};\n"
    "struct channel {name}(int x, int y, int z, int w, int f) "
    "{{ struct channel d = {{x, y, z, w, f}}; return d; }}",
    "other": 'int {name}() {{ emuhip_unsupported("{name}"); return -1; }}',
}


def build(clang: Path, include: Path, folder: Path, work: Path) -> None:
    """Write the library, its other names and a link to the worker into ``folder``."""
    for new in (folder, work):
        new.mkdir(parents=True)
    sources = HERE / "hip"
    cxx = clang.with_name(f"{clang.name}++")
    (work / "gen_errors.inc").write_text(_errors(include))
    compiled, stubs = work / "hip_emu.o", work / "rest.o"
    run(
        *(cxx, "-std=c++17", "-O1", "-g1", "-fPIC", "-Wall", "-Wno-unused-function"),
        *("-Wno-return-type-c-linkage", "-D__HIP_PLATFORM_AMD__"),
        *("-I", include, "-I", work, "-I", sources),
        *("-c", sources / "hip_emu.cpp", "-o", compiled),
    )
    have = {line.split()[0] for line in _symbols(clang, compiled)}
    (work / "rest.c").write_text(_rest(clang, include, have))
    run(clang, "-w", "-O1", "-fPIC", "-c", work / "rest.c", "-o", stubs)
    # An anonymous version leaves the symbols without one, as programs linked to a stub expect.
    (work / "map").write_text("{ global: hip*; __hip*; local: *; };\n")
    run(
        *(cxx, "-shared", "-fPIC", "-static-libstdc++", "-static-libgcc"),
        *(f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={work / 'map'}"),
        *("-o", folder / SONAME, compiled, stubs, "-ldl", "-lpthread"),
    )
    for alias in _ALIASES:
        (folder / alias).symlink_to(SONAME)
    (folder / "worker.py").symlink_to(sources / "worker.py")


def _symbols(clang: Path, file: Path) -> list[str]:
    nm = clang.resolve().with_name("llvm-nm")
    return run(nm if nm.exists() else "nm", "-P", "-g", "--defined-only", file).splitlines()


def _errors(include: Path) -> str:
    """A line ``X(hipErrorFoo)`` for each error that the header names."""
    text = (include / "hip" / "hip_runtime_api.h").read_text()
    found = re.findall(r"^\s*(hipSuccess|hipError[A-Z]\w*)\s*=\s*\d+", text, re.M)
    return "\n".join(f"X({name})" for name in dict.fromkeys(found)) + "\n"


def _rest(clang: Path, include: Path, have: set[str]) -> str:
    """C source in which each function that the headers declare beside ``have`` is an error."""
    flags = ("-x", "c", "-w", "-D__HIP_PLATFORM_AMD__", "-I", include, "-fsyntax-only")
    tree = json.loads(run(clang, *flags, "-Xclang", "-ast-dump=json", "-", text=_MORE))
    lines = ["int emuhip_unsupported(const char* name);"]
    returns = {
        node["name"]: node["type"]["qualType"].split("(")[0].strip()
        for node in tree["inner"]
        if node.get("kind") == "FunctionDecl" and re.match(r"(__)?hip", node.get("name", ""))
    }
    for name, result in sorted(returns.items()):
        if name in have:
            continue
        kind = "pointer" if result.endswith("*") else "other"
        if "hipChannelFormatDesc" in result:
            kind = "channel"
        lines.append(_STUBS.get(result, _STUBS[kind]).format(name=name))
    return "\n".join(lines) + "\n"
