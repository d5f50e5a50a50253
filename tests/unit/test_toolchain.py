"""Finding compilers, and telling them apart by content."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from stub_kernels import FakeCompiler

from ckdisp.codegen.errors import BuildError
from ckdisp.codegen.toolchain import Toolchain, which

REAL = which("c++") or ""


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_setting_before_variable_before_path(tmp_path: Path) -> None:
    for name in ("set", "env", "c++", "g++"):
        script(tmp_path / name, "exit 0")
    env = {"PATH": str(tmp_path), "CXX": "env"}
    assert Toolchain.find("set", env=env).cxx == str(tmp_path / "set")
    assert Toolchain.find(env=env).cxx == str(tmp_path / "env")
    assert Toolchain.find(env={"PATH": str(tmp_path)}).cxx == str(tmp_path / "c++")
    assert Toolchain.find(env={"PATH": str(tmp_path), "CXX": " "}).cxx == str(tmp_path / "c++")
    os.unlink(tmp_path / "c++")
    assert Toolchain.find(env={"PATH": str(tmp_path)}).cxx == str(tmp_path / "g++")


def test_flags_and_launcher_in_the_variable(tmp_path: Path) -> None:
    for name in ("ccache", "g++"):
        script(tmp_path / name, "exit 0")
    env = {"PATH": str(tmp_path), "CXX": "ccache g++ -m64 '-DX=a b'", "CKDISP_CXXFLAGS": "-O1 -g"}
    found = Toolchain.find(env=env)
    assert found.cxx == str(tmp_path / "g++")
    assert found.launcher == (str(tmp_path / "ccache"),)
    assert found.cxx_flags == ("-m64", "-DX=a b", "-O1", "-g")
    assert found.command == (str(tmp_path / "ccache"), str(tmp_path / "g++"))


@pytest.mark.parametrize("variable", ["CKDISP_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"])
def test_launcher_only_when_asked(tmp_path: Path, variable: str) -> None:
    for name in ("ccache", "g++"):
        script(tmp_path / name, "exit 0")
    assert Toolchain.find(env={"PATH": str(tmp_path)}).launcher == ()
    asked = Toolchain.find(env={"PATH": str(tmp_path), variable: "ccache;--verbose"})
    assert asked.launcher == (str(tmp_path / "ccache"), "--verbose")


def test_no_compiler_says_what_was_tried_and_what_to_install() -> None:
    with pytest.raises(BuildError) as caught:
        Toolchain.find(env={"PATH": "/nowhere"})
    for part in ("c++ on PATH", "g++ on PATH", "clang++ on PATH", "apt install g++", "set CXX"):
        assert part in str(caught.value)
    with pytest.raises(BuildError, match="tried CXX=mycc"):
        Toolchain.find(env={"PATH": "/nowhere", "CXX": "mycc"})
    with pytest.raises(BuildError, match=r"tried the launcher ccache of CXX=ccache g\+\+"):
        Toolchain.find(env={"PATH": "/nowhere", "CXX": "ccache g++"})
    with pytest.raises(BuildError, match="cannot read CXX"):
        Toolchain.find(env={"PATH": "/nowhere", "CXX": "g++ 'open"})
    with pytest.raises(BuildError, match="launcher nocache"):
        Toolchain.find(REAL, launcher="nocache")


@pytest.mark.parametrize("path", [":", "::bin:", ".:bin", ":{}", "{}:", "relative:{}:", " :{}"])
def test_empty_and_relative_path_entries_find_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path / "c++", "echo a compiler of whoever owns this folder")
    script(tmp_path / "bin" / "c++", "exit 0")
    good = script(tmp_path / "good" / "c++", "exit 0")
    env = {"PATH": path.format(good.parent)}
    if "{}" in path:
        assert Toolchain.find(env=env).cxx == str(good)
    else:
        with pytest.raises(BuildError, match="no usable"):
            Toolchain.find(env=env)


def test_identity_follows_content_not_place(tmp_path: Path) -> None:
    compiler = FakeCompiler(tmp_path / "one")
    original = Toolchain(str(compiler.path)).identity()
    link = tmp_path / "elsewhere" / "g++-12"
    link.parent.mkdir()
    os.symlink(compiler.path, link)
    assert Toolchain(str(link)).identity() == original
    copy = tmp_path / "moved" / "c++"
    copy.parent.mkdir()
    shutil.copy(compiler.path, copy)
    os.utime(copy, (1, 1))
    assert Toolchain(str(copy)).identity() == original


def test_another_build_of_the_same_version_is_another_compiler(tmp_path: Path) -> None:
    compiler = FakeCompiler(tmp_path / "one")
    before = compiler.path.stat()
    first = Toolchain(str(compiler.path)).identity()
    text = compiler.path.read_text()
    compiler.path.write_text(text.replace("# ", "#!", 1))
    os.utime(compiler.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert compiler.path.stat().st_size == before.st_size
    assert Toolchain(str(compiler.path)).identity() != first


def test_a_launcher_that_poses_as_the_compiler_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ccache = script(tmp_path / "bin" / "ccache", f'exec {REAL} "$@"')
    pose = tmp_path / "lib" / Path(REAL).name
    pose.parent.mkdir()
    os.symlink(ccache, pose)
    monkeypatch.setenv("PATH", f"{pose.parent}{os.pathsep}{Path(REAL).parent}")
    assert Toolchain(str(pose)).identity() == Toolchain(REAL).identity()


def test_flags_are_tried_before_use() -> None:
    toolchain = Toolchain(REAL)
    assert toolchain.accepts("-O2")
    assert not toolchain.accepts("-fno-such-flag-anywhere=1")
    assert not toolchain.accepts("-lno_such_library_anywhere")


def test_search_folders_hold_the_standard_library() -> None:
    folders = Toolchain(REAL).system_dirs()
    assert any((Path(f) / "cstdint").is_file() for f in folders)
    assert all(os.path.isabs(f) for f in folders)


def test_a_compiler_that_cannot_run(tmp_path: Path) -> None:
    broken = tmp_path / "c++"
    broken.write_bytes(b"\x7fELF broken")
    broken.chmod(0o755)
    with pytest.raises(BuildError, match=r"cannot run the compiler .*set CXX to one that works"):
        Toolchain(str(broken)).identity()
