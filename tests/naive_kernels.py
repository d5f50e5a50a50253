"""The library of plain loops, compiled once for the tests of everything around kernels."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ckdisp.codegen.emit.cpp_view import write_cpp_view
from ckdisp.codegen.headers import own_include_dirs
from ckdisp.codegen.toolchain import which

SOURCE = Path(__file__).parent / "cpp" / "naive_kernels.cpp"
FMHA_SOURCE = Path(__file__).parent / "cpp" / "naive_fmha.cpp"
FAKE_HIP = Path(__file__).parent / "cpp" / "fake_hip.cpp"
FAKE_CUDA = Path(__file__).parent / "cpp" / "fake_cuda.cpp"


def compile_cpp(folder: Path, name: str, sources: list[Path], *options: str) -> Path:
    """Compile ``sources`` to ``folder/name`` with the public headers; shows what went wrong."""
    compiler = which("c++") or which("g++")
    assert compiler is not None, "the tests need a C++ compiler"
    include = folder / "include"
    write_cpp_view(include)
    output = folder / name
    command = [compiler, "-O1", "-Wall", "-Wextra", f"-I{include}"]
    command += [f"-I{d}" for d in own_include_dirs()]
    command += [*map(str, sources), "-o", str(output), *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return output


def compile_library(folder: Path, name: str = "libnaive.so", *options: str) -> Path:
    """The shared library of naive kernels below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    return compile_cpp(folder, name, [SOURCE], "-std=c++17", "-shared", "-fPIC", *options)


def compile_fmha(folder: Path, *options: str) -> Path:
    """The shared library of naive attention kernels below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ("-std=c++17", "-shared", "-fPIC", *options)
    return compile_cpp(folder, "libnaive_fmha.so", [FMHA_SOURCE], *options)


def compile_fake_hip(folder: Path) -> Path:
    """A HIP runtime without GPUs below ``folder``, for ``CKDISP_HIP_RUNTIME``."""
    folder.mkdir(parents=True, exist_ok=True)
    return compile_cpp(folder, "libfake_hip.so", [FAKE_HIP], "-std=c++17", "-shared", "-fPIC")


def compile_fake_cuda(folder: Path) -> Path:
    """A CUDA driver without GPUs below ``folder``, for ``CKDISP_CUDA_DRIVER``."""
    folder.mkdir(parents=True, exist_ok=True)
    return compile_cpp(folder, "libfake_cuda.so", [FAKE_CUDA], "-std=c++17", "-shared", "-fPIC")


@dataclass(frozen=True)
class LastCall:
    """What the last kernel of a naive library was given."""

    a: int
    b: int
    c: int
    d: int
    lda: int
    ldb: int
    ldc: int
    ldd: int
    num_threads: int
    layout: int
    device: int
    stream: int


FMHA_FAMILIES = (
    *("fwd", "splitkv", "splitkv_combine", "pagedkv", "appendkv", "batch_prefill"),
    *("bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq"),
)


def fmha_runs(library: Path) -> dict[str, int]:
    """How often the kernels of each family ran, and the parts of the last call."""
    values = (ctypes.c_int64 * 10)()
    ctypes.CDLL(str(library)).naive_fmha_runs(values)
    return dict(zip((*FMHA_FAMILIES, "parts"), values, strict=True))


def last_call(library: Path) -> LastCall:
    values = (ctypes.c_int64 * 12)()
    ctypes.CDLL(str(library)).naive_last_call(values)
    return LastCall(*values)
