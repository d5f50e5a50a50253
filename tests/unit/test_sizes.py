"""How large libraries are, and the limits of libraries and wheels."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from stub_kernels import FakeCompiler, keys, write_headers

import ckdisp
from ckdisp.cli.app import app
from ckdisp.codegen import sizes
from ckdisp.codegen.generate import generate
from ckdisp.codegen.toolchain import Toolchain

LIMIT = sizes.VARIABLE
CMAKE = Path(ckdisp.__file__).parent / "cmake" / "CkdispKernels.cmake"


def manifest(*rows: tuple[str, str, str]) -> dict[str, Any]:
    kernels = [
        {
            "key": {"family": family},
            "arch": arch,
            "object": f"obj/{name}.o",
            "unit": f"units/{name}",
        }
        for family, arch, name in rows
    ]
    return {"library": "mine", "kernels": kernels, "built": ["obj/host_1.o", "pch/x.pch"]}


def test_bytes_are_told_by_family_and_arch(tmp_path: Path) -> None:
    for name, size in {"a": 10, "b": 20, "c": 400, "group": 7, "host_1": 5, "lib": 1000}.items():
        (tmp_path / "obj").mkdir(exist_ok=True)
        (tmp_path / "obj" / f"{name}.o").write_bytes(b"x" * size)
    rows = [("gemm.standard", "gfx942", "a"), ("gemm.standard", "gfx942", "b")]
    rows += [("fmha.fwd", "gfx942", "c"), ("gemm.standard", "gfx950", "group")]
    rows += [("gemm.multi_d", "gfx950", "group")]
    found = sizes.report(manifest(*rows), tmp_path / "obj" / "lib.o", tmp_path)
    assert found.library == 1000
    assert [(s.family, s.arch, s.kernels, s.bytes) for s in found.sizes] == [
        ("fmha.fwd", "gfx942", 1, 400),
        ("gemm.standard", "gfx942", 2, 30),
        ("shared", "-", 0, 12),
        ("gemm.multi_d", "gfx950", 1, 0),
        ("gemm.standard", "gfx950", 1, 0),
    ]
    assert "gemm.standard gfx942: 0.0 kB, 2 kernels" in list(found.lines())


def test_objects_of_cmake_are_found(tmp_path: Path) -> None:
    path = tmp_path / "CMakeFiles" / "mine.dir" / "units" / "a.o"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 99)
    found = sizes.report(manifest(("gemm.standard", "gfx942", "a")), path, tmp_path)
    assert found.sizes[0].bytes == 99


@pytest.mark.parametrize(
    ("given", "size", "text"),
    [
        ("", 1 << 30, ""),
        ("", (1 << 30) + 1, "1024.0 MB, over the limit of 1024 MB: narrow the set"),
        ("0.5", 1 << 19, ""),
        ("0.5", 1 << 20, "over the limit of 0.5 MB"),
        ("many", 1, "CKDISP_MAX_LIBRARY_MB='many' is no number of megabytes"),
        ("0", 1, "is no number of megabytes above 0"),
        ("nan", 1, "is no number of megabytes above 0"),
    ],
)
def test_the_limit_can_be_set(given: str, size: int, text: str) -> None:
    said = sizes.warning("lib.so", size, {LIMIT: given})
    assert (text in said) if text else said == ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    compiler = FakeCompiler(tmp_path / "bin")
    generate(
        keys(2),
        tmp_path / "out",
        "ninja",
        toolchain=Toolchain.find(str(compiler.path)),
        include_dirs=write_headers(tmp_path / "headers"),
    )
    return tmp_path / "out"


def test_build_tells_sizes_and_warns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "0.001")
    first = CliRunner().invoke(app, ["build", str(folder)])
    assert first.exit_code == 0
    assert "gemm.standard generic: " in first.stderr and ", 2 kernels" in first.stderr
    assert "over the limit of 0.001 MB" in first.stderr
    assert Path(first.stdout.splitlines()[-1]).is_file()
    monkeypatch.delenv(LIMIT)
    again = CliRunner().invoke(app, ["build", str(folder), "--json"])
    told = json.loads(again.stdout)
    assert again.stderr == "" and told["bytes"] == os.stat(told["library"]).st_size
    (entry,) = [s for s in told["sizes"] if s["family"] == "gemm.standard"]
    assert (entry["arch"], entry["kernels"]) == ("generic", 2)
    assert entry["bytes"] == sum(p.stat().st_size for p in folder.glob("obj/gemm*.o"))


@pytest.mark.parametrize("in_wheel", [True, False])
def test_no_wheel_is_above_2_gib(in_wheel: bool, tmp_path: Path) -> None:
    for name, size in (("one", 1 << 30), ("two", (1 << 30) + 1)):
        with open(tmp_path / f"lib{name}.so", "wb") as stream:
            stream.truncate(size)  # no byte of it is on the disk
    (tmp_path / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.24)
project(p LANGUAGES NONE)
include("{CMAKE}")
foreach(name IN ITEMS one two)
  add_library(${{name}} SHARED IMPORTED GLOBAL)
  set_target_properties(${{name}} PROPERTIES IMPORTED_LOCATION "{tmp_path}/lib${{name}}.so")
  _ckdisp_limit_wheel(${{name}})
endforeach()
install(FILES CMakeLists.txt DESTINATION .)
"""
    )
    build = tmp_path / "build"
    configure = ["cmake", "-S", str(tmp_path), "-B", str(build), "-G", "Unix Makefiles"]
    subprocess.run([*configure, *(["-DSKBUILD=2"] if in_wheel else [])], check=True)
    install = ["cmake", "--install", str(build), "--prefix", str(tmp_path / "there")]
    done = subprocess.run(install, capture_output=True, text=True)
    assert (done.returncode == 0) == (not in_wheel)
    assert (tmp_path / "there" / "CMakeLists.txt").exists() == (not in_wheel)
    if in_wheel:
        flat = " ".join(done.stderr.split())
        assert "the kernel libraries of this wheel have 2048 MB, and a wheel takes at most" in flat
        assert "kernel libraries of the wheel so far 1024 MB" in " ".join(done.stdout.split())
