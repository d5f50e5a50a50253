"""The C++ tests of the runtime: compiled with the plain compiler, run as programs.

Where the compiler has a thread sanitizer that works here, everything runs under it.
"""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cmake_project import ROOT
from naive_kernels import compile_cpp, compile_fake_cuda, compile_fake_hip

pytestmark = pytest.mark.xdist_group("cpp_runtime")

RUNTIME = ROOT / "csrc" / "runtime"
TESTS = sorted((ROOT / "tests" / "cpp").glob("test_*.cpp"))
SANITIZE = "-fsanitize=thread"


def sanitizer(folder: Path) -> list[str]:
    source = folder / "probe.cpp"
    source.write_text("int main() { return 0; }\n")
    try:
        program = compile_cpp(folder, "probe", [source], SANITIZE)
    except AssertionError:
        return []
    works = subprocess.run([program], capture_output=True, check=False).returncode == 0
    return [SANITIZE] if works else []


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Folder of the runtime's objects, and the options they were compiled with."""
    folder = tmp_path_factory.mktemp("runtime")
    options = sanitizer(folder)

    def compile_one(source: Path) -> None:
        compile_cpp(folder, f"{source.stem}.o", [source], "-std=c++20", "-Werror", "-c", *options)

    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        list(pool.map(compile_one, sorted(RUNTIME.glob("*.cpp"))))
    return folder, options


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With libraries that stand in for ROCm and CUDA, whatever this machine has."""
    hip = compile_fake_hip(tmp_path_factory.mktemp("hip"))
    cuda = compile_fake_cuda(tmp_path_factory.mktemp("cuda"))
    return {**os.environ, "CKDISP_HIP_RUNTIME": str(hip), "CKDISP_CUDA_DRIVER": str(cuda)}


@pytest.mark.parametrize("source", TESTS, ids=lambda p: p.stem)
def test_program(
    runtime: tuple[Path, list[str]], environment: dict[str, str], source: Path
) -> None:
    folder, options = runtime
    objects = [folder / f"{p.stem}.o" for p in RUNTIME.glob("*.cpp")]
    # C++17: what an integrator's compiler must be able to read.
    options = ["-std=c++17", "-Werror", "-pthread", "-ldl", *options]
    program = compile_cpp(folder, source.stem, [source, *objects], *options)
    result = subprocess.run(
        [program], capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "ok\n"
