"""What a wheel and an sdist hold, and that using the package writes nothing into it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from cmake_project import ROOT, clean_environment, run
from installed import needs_prebuilt, package_file, prebuilt

import ckdisp
from ckdisp.codegen.version import VERSION

LEVELS = ["generic"]
if platform.machine() in ("x86_64", "AMD64"):
    LEVELS += ["x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx"]


def test_the_version_has_one_home() -> None:
    assert importlib.metadata.version("ckdisp") == VERSION


@pytest.mark.parametrize(
    "name",
    [
        "py.typed",
        "cli/demo_text.txt",
        "cmake/ckdispConfig.cmake",
        "cmake/ckdispConfigVersion.cmake",
        "cmake/CkdispKernels.cmake",
        "csrc/include/ckdisp/abi.hpp",
        "csrc/include/ckdisp/generated/enums.hpp",
        "csrc/include/ckdisp/generated/keys.hpp",
        "csrc/include/ckdisp/generated/arches.hpp",
        "csrc/providers/cpu/gemm.hpp",
        "lib/libckdisp_runtime.a",
    ],
)
def test_the_package_holds(name: str) -> None:
    assert package_file(name) is not None


@needs_prebuilt
@pytest.mark.parametrize("level", LEVELS)
def test_the_package_holds_cpu_kernels_for(level: str) -> None:
    symbol = f"ckdisp_library_ckdisp_cpu_{level.replace('-', '_')}"
    assert symbol.encode() in prebuilt(level).read_bytes()


def test_extras_and_entry_point_are_declared() -> None:
    metadata = importlib.metadata.metadata("ckdisp")
    extras = {name.replace("-", "_") for name in metadata.get_all("Provides-Extra")}
    assert extras == {"ml_dtypes", "torch", "test", "lint"}
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="ckdisp")
    assert script.value == "ckdisp.cli:main"


@needs_prebuilt
def test_use_writes_nothing_into_the_package(tmp_path: Path) -> None:
    def state() -> dict[Path, tuple[int, int]]:
        files = (p for folder in ckdisp.__path__ for p in Path(folder).rglob("*"))
        kept = (p for p in files if "__pycache__" not in p.parts and ".git" not in p.parts)
        return {p: (s.st_mtime_ns, s.st_size) for p in kept if p.is_file() and (s := p.stat())}

    program = (
        "import numpy as np, ckdisp\n"
        "a = np.ones((3, 4), np.float32)\n"
        "c = ckdisp.Dispatcher(ckdisp.Registry.prebuilt()).gemm(a, a.T.copy())\n"
        "np.testing.assert_array_equal(c, np.full((3, 3), 4, np.float32))\n"
    )
    before = state()
    cache = str(tmp_path / "cache")
    run(sys.executable, "-B", "-c", program, cwd=tmp_path, CKDISP_CACHE_DIR=cache).ok()
    assert state() == before
    assert not os.path.exists(cache)


def test_an_sdist_holds_what_a_build_needs(tmp_path: Path) -> None:
    program = (
        "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    )
    run(sys.executable, "-c", program, tmp_path, cwd=ROOT).ok()
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    tracked = subprocess.run(
        [
            "git",
            "ls-files",
            "cmake",
            "codegen",
            "csrc",
            "python",
            "pyproject.toml",
            "CMakeLists.txt",
        ],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if tracked.returncode != 0:
        pytest.skip("not a git checkout, so there is no list to compare with")
    assert set(tracked.stdout.split()) <= names
    assert not any(name.endswith((".so", ".pyc")) for name in names)
