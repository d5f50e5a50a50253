"""Compiles units of the CK Tile provider, one pass at a time and without the rest of a build."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import amd

from ckdisp.codegen.emit.cpp_view import cpp_view
from ckdisp.codegen.emit.unit import symbol, unit_text
from ckdisp.codegen.headers import own_include_dirs
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.providers.ck_tile import CK_TILE, branch_of, compile_flags, device_flags

DEVICE_PASS = ("--offload-device-only", "--no-gpu-bundle-output")
HOST_PASS = ("--offload-host-only", "-fPIC", "-fvisibility=hidden")
# Host code is run a few times; without optimisation it compiles in half the time.
QUICK = ("-O0",)
# CK's numbers of loop tails.
ODD, EVEN, ONE, TWO, THREE, EMPTY, FULL = 0, 1, 2, 3, 4, 9, 10
CPP = Path(__file__).resolve().parent / "cpp"


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
    folder: Path,
    source: str,
    arch: str,
    passes: Sequence[str],
    *includes: Path | str,
    branch: str = "gemm",
) -> Path:
    """The object of one pass of ``source``, which lies in ``folder``, with flags of ``branch``."""
    hip = amd.toolchain()
    output = folder / f"{Path(source).stem}.{'o' if '--offload-host-only' in passes else 'co'}"
    flags = [*compile_flags(arch, arch, _takes, branch), *passes, "-I", str(folder)]
    if "--offload-device-only" in passes:
        flags += device_flags(branch)
    places = (*own_include_dirs(), hip.ck_include, *includes)
    flags += [f"-I{place}" for place in places]
    command = [*hip.command, *flags, "-c", str(folder / source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{source} for {arch}:\n{done.stderr}"
    return output


def embed(folder: Path, code: Path, names: Sequence[str]) -> Path:
    """An object that holds ``code``, the kernels ``names``."""
    source = own_include_dirs()[-1] / "providers" / "embed.S"
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


def convert_symbol(key: KernelKey) -> str:
    """The mangled name of the second stage of a kernel."""
    name = f"ckdisp_key_{key.name}"
    return f"_Z14ckdisp_convertI{len(name)}{name}EvN6ckdisp4tile7ConvertIT_E4ArgsE"


def fmha_symbol(key: KernelKey, variant: int = 0) -> str:
    """The mangled name of one variant of an attention kernel."""
    name = f"ckdisp_key_{key.name}"
    return (
        f"_Z11ckdisp_fmhaI{len(name)}{name}Li{variant}EEvN6ckdisp4tile10FmhaKernelIT_XT0_EE4ArgsE"
    )


def pages_symbol(key: KernelKey) -> str:
    """The mangled name of the kernel that copies a list of pages."""
    name = f"ckdisp_key_{key.name}"
    return f"_Z12ckdisp_pagesI{len(name)}{name}EvN6ckdisp4tile5PagesIT_E4ArgsE"


@dataclass(frozen=True)
class Driver:
    """A program that calls kernels: it answers commands."""

    program: Path

    def ask(self, *commands: str, **environment: str) -> list[str]:
        """The answer to each command."""
        done = subprocess.run(
            [str(self.program)],
            input="\n".join(commands),
            env={**os.environ, "CKDISP_HIP_RUNTIME": str(amd.stub_runtime()), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        return done.stdout.splitlines()

    def run(
        self, trace: Path, *commands: str, devices: str = "gfx942", **environment: str
    ) -> tuple[list[str], list[Mapping[str, Any]]]:
        """The answers, and what the device was asked to do."""
        trace.unlink(missing_ok=True)
        answers = self.ask(
            *commands,
            CKDISP_STUB_DEVICES=devices,
            CKDISP_STUB_TRACE=str(trace),
            **environment,
        )
        return answers, amd.read_trace(trace)


def launches(trace: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [entry for entry in trace if "function" in entry]


def _stand_in(folder: Path, key: KernelKey) -> Path:
    """An object with a code object that has all kernels that ``key`` could need."""
    symbols = (
        [fmha_symbol(key, variant) for variant in range(5)]
        if key.op == "fmha"
        else [
            variant_symbol(key, hot, tail, atomic)
            for hot in (False, True)
            for tail in range(FULL + 1)
            for atomic in (False, True)
        ]
    )
    source = folder / f"{key.name}.stand_in.hip"
    attributes = "__attribute__((global, amdgpu_flat_work_group_size(1, 1024)))"
    bounds = 24 if getattr(key, "elementwise", None) == "clamp" else 0
    least = 16 if key.op == "fmha" else 64 + bounds  # bytes of the arguments
    sizes = {**dict.fromkeys(symbols, least), convert_symbol(key): 24, pages_symbol(key): 40}
    lines = ["template <int size> struct Args { char bytes[size]; };"]
    lines += [f'extern "C" {attributes} void {s}(Args<{n}>) {{}}' for s, n in sizes.items()]
    source.write_text("\n".join(lines))
    code = folder / f"{key.name}.bundle"
    command = [*amd.toolchain().command, f"--offload-arch={key.arch}", "--offload-device-only"]
    command += ["-nogpuinc", "-nogpulib", "-O1", "-c", str(source), "-o", str(code)]
    subprocess.run(command, check=True)
    return embed(folder, code, [key.name])


# Op -> the header with its probes, the class of one, the program.
_PROBES = {
    "gemm": ("ck_tile_probe.hpp", "ProbeOf", "ck_tile_driver.cpp"),
    "conv": ("ck_tile_conv_probe.hpp", "ConvProbe", "ck_tile_conv_driver.cpp"),
    "fmha": ("ck_tile_fmha_probe.hpp", "FmhaProbe", "ck_tile_fmha_driver.cpp"),
}


def _host_object(folder: Path, arch: str, branch: str, keys: Sequence[KernelKey]) -> Path:
    header, probe, _ = _PROBES[keys[0].op]
    units = write_units(folder, keys)
    probes = [f"ckdisp::tile::{probe}<ckdisp_key_{k.name}>::make(&{symbol(k.name)})," for k in keys]
    text = [f'#include "{header}"', *(f'#include "{unit}"' for unit in units)]
    name = f"{arch}_{branch}"
    text += [f'extern "C" const Probe probes_{name}[] = {{', *probes, "{}};"]
    (folder / f"host_{name}.hip").write_text("\n".join(text))
    passes = (*HOST_PASS, *QUICK)
    return compile_hip(folder, f"host_{name}.hip", arch, passes, CPP, branch=branch)


def build_driver(folder: Path, op: str, keys: Sequence[KernelKey]) -> Driver:
    """The program that calls ``keys``; their code objects are stand-ins.

    Kernels of all archs are in one program, as in a library: none may get functions of another.
    """
    write_headers(folder)
    tables = sorted({(key.arch, branch_of(key)) for key in keys})
    objects = [_stand_in(folder, key) for key in keys]
    for arch, branch in tables:
        some = [key for key in keys if (key.arch, branch_of(key)) == (arch, branch)]
        objects.append(_host_object(folder, arch, branch, some))
    program = folder / "driver"
    command = [amd.toolchain().tool("clang++"), "-std=c++20", "-O0", "-pthread"]
    command += [f"-I{place}" for place in (*own_include_dirs(), folder, CPP)]
    command += [f"-DCKDISP_PROBES(F)={' '.join(f'F(probes_{a}_{b})' for a, b in tables)}"]
    command += [str(CPP / _PROBES[op][2]), *map(str, objects), "-ldl", "-o", str(program)]
    subprocess.run(command, check=True)
    return Driver(program)


__all__ = [
    "DEVICE_PASS",
    "EMPTY",
    "EVEN",
    "FULL",
    "HOST_PASS",
    "ODD",
    "ONE",
    "QUICK",
    "THREE",
    "TWO",
    "Driver",
    "build_driver",
    "compile_hip",
    "convert_symbol",
    "embed",
    "fmha_symbol",
    "launches",
    "pages_symbol",
    "symbol",
    "variant_symbol",
    "write_headers",
    "write_units",
]
