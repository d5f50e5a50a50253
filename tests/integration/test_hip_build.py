"""GPU kernels compiled for real: through the cache, into a library that any machine can load."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import amd
import pytest

import ckdisp
from ckdisp.code_objects import check_object, inspect
from ckdisp.jit import cache
from ckdisp.jit.store import read_entry

pytestmark = pytest.mark.xdist_group("amd")

KEY = ckdisp.make_key(
    "gemm.standard",
    arch="gfx942",
    dtype="fp16",
    layout="rcr",
    tile=(64, 64, 64),
    wave=(2, 2, 1),
    warp=(16, 16, 32),
    pipeline="compv3",
    scheduler="intrawave",
)


@dataclass
class Built:
    """A set of one kernel for a GPU and one for CPUs, built by :meth:`KernelSet.build`."""

    kernels: ckdisp.KernelSet
    root: Path
    registry: ckdisp.Registry

    def entries(self, kind: str) -> list[Path]:
        return [entry.folder for entry in cache.ls(self.root) if entry.kind == kind]

    def read(self, *command: str | Path) -> str:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
        return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    hip = amd.toolchain()
    root = tmp_path_factory.mktemp("amd") / "cache"
    cpu = ckdisp.make_key("gemm.standard", arch="generic", dtype="fp32", layout="rcr")
    kernels = ckdisp.KernelSet([KEY, cpu])
    registry = kernels.build(progress=False, hip=hip, cache_dir=root)
    yield Built(kernels, root, registry)


def test_the_library_lists_its_kernels(built: Built) -> None:
    assert [kernel.name for kernel in built.registry.kernels()] == built.kernels.names()


def test_the_library_needs_no_hip_runtime(built: Built) -> None:
    (library,) = (next(f.glob("*.so")) for f in built.entries("libraries"))
    readelf = amd.toolchain().tool("llvm-readelf")
    assert "amdhip64" not in built.read(readelf, "--dynamic", library)
    symbols = built.read(readelf, "--symbols", "--wide", library)
    assert "__hipRegisterFatBinary" not in symbols
    undefined = [line.split()[-1] for line in symbols.splitlines() if " UND " in line]
    assert not [name for name in undefined if name.startswith("hip")]


def test_the_objects_are_what_the_key_says(built: Built) -> None:
    (folder,) = (f for f in built.entries("objects") if (f / f"{KEY.name}.o").is_file())
    assert check_object(folder / f"{KEY.name}.o", KEY) == []
    reports = inspect(folder / f"{KEY.name}.o")
    assert len(reports) == 3  # the hot loop and its tails
    assert {report.arch for report in reports} == {"gfx942"}


def test_every_header_was_seen(built: Built) -> None:
    (folder,) = (f for f in built.entries("objects") if (f / f"{KEY.name}.o").is_file())
    entry = read_entry(folder)
    assert entry is not None
    read = {path: whose for path, whose, _ in entry.headers}
    assert read["providers/ck_tile/gemm.hpp"] == read["providers/embed.S"] == "own"
    assert read["ck_tile/ops/gemm.hpp"] == read["hip/hip_runtime.h"] == "hip"


def test_a_second_build_compiles_nothing(built: Built) -> None:
    before = {entry.folder for entry in cache.ls(built.root)}
    again = built.kernels.build(progress=False, cache_dir=built.root, timeout=60)
    assert [kernel.name for kernel in again.kernels()] == built.kernels.names()
    assert {entry.folder for entry in cache.ls(built.root)} == before
