"""Compiles units of the CK Tile provider, one pass at a time and without the rest of a build."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import amd

from ckdisp.codegen.emit.cpp_view import cpp_view
from ckdisp.codegen.emit.unit import symbol, unit_text
from ckdisp.codegen.headers import own_include_dirs
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.providers.ck_tile import CK_TILE, compile_flags

DEVICE_PASS = ("--offload-device-only", "--no-gpu-bundle-output")
HOST_PASS = ("--offload-host-only", "-fPIC", "-fvisibility=hidden")
# Host code is run a few times; without optimisation it compiles in half the time.
QUICK = ("-O0",)


@functools.cache
def _takes(flags: tuple[str, ...]) -> bool:
    return amd.toolchain().accepts(*flags)


def write_headers(folder: Path) -> None:
    """The generated headers, into ``folder``."""
    for name, text in cpp_view().items():
        path = folder / "ckdisp" / "generated" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def write_units(folder: Path, keys: Iterable[KernelKey]) -> list[str]:
    """One file for each key; their names."""
    written = []
    for key in keys:
        written.append(f"{key.name}.hip")
        (folder / written[-1]).write_text(unit_text(key, key.name, CK_TILE, key.arch))
    return written


def compile_hip(
    folder: Path, source: str, arch: str, passes: Sequence[str], *includes: Path | str
) -> Path:
    """The object of one pass of ``source``, which lies in ``folder``."""
    hip = amd.toolchain()
    output = folder / f"{Path(source).stem}.{'o' if '--offload-host-only' in passes else 'co'}"
    flags = [*compile_flags(arch, arch, _takes), *passes, "-I", str(folder)]
    places = (*own_include_dirs(), hip.ck_include, *includes)
    flags += [f"-I{place}" for place in places]
    command = [*hip.command, *flags, "-c", str(folder / source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{source} for {arch}:\n{done.stderr}"
    return output


def embed(folder: Path, code: Path, names: Sequence[str]) -> Path:
    """An object that holds ``code``, the kernels ``names``."""
    source = own_include_dirs()[-1] / "providers" / "ck_tile" / "embed.S"
    output = code.with_suffix(".embed.o")
    command = [amd.toolchain().tool("clang"), "-c", "-x", "assembler-with-cpp", str(source)]
    command += [f"-DCKDISP_CODE_FILE={code.name}", f"-DCKDISP_CODE_KERNELS={','.join(names)}"]
    subprocess.run([*command, "-o", str(output)], check=True, cwd=folder)
    return output


def variant_symbol(key: KernelKey, hot_loop: bool, tail: int, atomic: bool) -> str:
    """The mangled name of one variant of a kernel."""
    name = f"ckdisp_key_{key.name}"
    values = f"Lb{int(hot_loop)}ELi{tail}ELb{int(atomic)}E"
    return f"_Z10ckdisp_runI{len(name)}{name}{values}EvN6ckdisp4tile6KernelIT_E4ArgsE"


__all__ = [
    "DEVICE_PASS",
    "HOST_PASS",
    "QUICK",
    "compile_hip",
    "embed",
    "symbol",
    "variant_symbol",
    "write_headers",
    "write_units",
]
