"""The installer of the AMD toolchain: steps, wheels, errors, its compiler driver. No network."""

from __future__ import annotations

import fcntl
import importlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "tools" / "amd_toolchain"
INSTALL = FOLDER / "install.py"
Load = Callable[[str], ModuleType]
Drive = Callable[..., list[str]]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Imports a module of the installer, which is no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    names = [path.stem for path in FOLDER.glob("*.py")]

    def forget() -> None:
        for name in names:
            sys.modules.pop(name, None)

    forget()
    yield importlib.import_module
    forget()


def install(*arguments: str, path: str = "/nowhere") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(INSTALL), *arguments],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_names_the_options() -> None:
    done = install("--help")
    assert done.returncode == 0
    assert "PREFIX" in done.stdout and "--wheels" in done.stdout and "--force" in done.stdout


def test_another_system_is_refused(tmp_path: Path) -> None:
    done = install(str(tmp_path / "prefix"))
    assert done.returncode == 1
    assert "no apt-get" in done.stderr and "Debian 12" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_prefix_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = install(str(tmp_path / "file"))
    assert done.returncode == 1 and "error:" in done.stderr and "Traceback" not in done.stderr


def test_a_second_run_waits_for_the_first(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        process = subprocess.Popen(
            [sys.executable, str(INSTALL), str(tmp_path)],
            env={**os.environ, "PATH": "/nowhere"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        assert "waiting for another run" in process.stdout.readline()
        assert process.poll() is None
    assert process.wait(30) == 1  # it went on, to the error of a system without apt-get
    process.stdout.close()


def test_too_little_space_is_said_first(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("install")
    usage = type("Usage", (), {"free": 5 << 20})
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(load("common").Failure, match="5 MB of free space"):
        module._install(load("common").Prefix(tmp_path, force=False), None)


def test_an_old_system_is_told_what_to_enable(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = load("packages")
    monkeypatch.setattr(packages.shutil, "which", lambda _: "/usr/bin/apt-get")
    monkeypatch.setattr(packages.Apt, "update", lambda self: None)
    names = "clang-14\nlld-14\nllvm-14\nclang-tools-14\nclang-21\n"
    monkeypatch.setattr(packages, "run", lambda *command, **_: names)
    with pytest.raises(load("common").Failure, match="security suite"):
        packages.Apt().clang("")


def test_only_root_installs_packages(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = load("packages")
    monkeypatch.setattr(packages.shutil, "which", lambda _: "/usr/bin/apt-get")
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(packages, "_installed", lambda name: name == "g++")
    with pytest.raises(load("common").Failure, match=r"missing packages: lld-22\. Only root"):
        packages.Apt().need("lld-22", "g++")


def test_steps_run_once_for_each_key(load: Load, tmp_path: Path) -> None:
    common = load("common")
    prefix = common.Prefix(tmp_path, force=False)
    for folder in (prefix.work, prefix.stamps):
        folder.mkdir()

    def put(name: str) -> Callable[[Path], None]:
        def make(out: Path) -> None:
            (out / "data").mkdir()
            (out / "data" / name).touch()
            (out / "lib").mkdir()
            (out / "lib" / name).symlink_to(name)

        return make

    assert prefix.step("one", "key 1", put("a"))
    assert not prefix.step("one", "key 1", put("b"))
    assert prefix.step("one", "key 2", put("b"))
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["b"]  # replaced whole
    assert sorted(os.listdir(tmp_path / "lib")) == ["a", "b"]  # shared with other steps

    def interrupted(out: Path) -> None:
        put("c")(out)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prefix.step("one", "key 3", interrupted)
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["b"]
    assert prefix.step("one", "key 2", put("d"))  # what was there is not trusted any more
    assert common.Prefix(tmp_path, force=True).step("one", "key 2", put("e"))


def test_a_kept_wheel_is_not_downloaded(load: Load, tmp_path: Path) -> None:
    packages = load("packages")
    kept = tmp_path / "some_thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(kept, "w") as archive:
        archive.writestr("some/part/a/b.txt", "text")
        archive.writestr("some/other/c.txt", "other")
    found = packages.wheel("some-thing==1.0", tmp_path, None, tmp_path / "work")
    assert found == kept
    packages.extract(found, {"some/part/": tmp_path / "out"})
    assert (tmp_path / "out" / "a" / "b.txt").read_text() == "text"
    assert not (tmp_path / "out" / "c.txt").exists()
    with pytest.raises(load("common").Failure, match="nothing below absent/"):
        packages.extract(found, {"absent/": tmp_path / "out"})
    kept.write_bytes(kept.read_bytes()[:-30])
    with pytest.raises(load("common").Failure, match="damaged"):
        packages.extract(found, {"some/part/": tmp_path / "out"})


def test_failed_commands_are_quoted(load: Load) -> None:
    common = load("common")
    with pytest.raises(common.Failure, match=r"(?s)status 3:\nwhy\ndo that"):
        common.run("sh", "-c", "echo why >&2; exit 3", hint="do that")
    with pytest.raises(common.Failure, match="cannot run /nowhere/x"):
        common.run("/nowhere/x")


def test_versions_of_processors(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    sysroot = load("sysroot")
    listed = "\tgfx803\n\tgfx90a\n\tgfx942\n\tgfx1201\n\tgfx9-4-generic\n\tgfx11-generic\n"
    monkeypatch.setattr(sysroot, "run", lambda *_: listed)
    versions = {"90a": 9010, "942": 9402, "1201": 12001, "9-4-generic": 9400, "11-generic": 11000}
    assert sysroot._isa_versions(Path("/llvm")) == versions


def test_stub_source_defines_what_the_header_declares(load: Load) -> None:
    stub = load("stub")

    def kind(kind_: str, **more: object) -> dict[str, object]:
        return {"kind": kind_, **more}

    def function(name: str, result: str, *takes: str, defined: bool = False) -> dict[str, object]:
        inner = [kind("ParmVarDecl", type={"qualType": t}) for t in takes]
        inner += [kind("CompoundStmt")] if defined else []
        return kind("FunctionDecl", name=name, type={"qualType": f"{result} (x)"}, inner=inner)

    two = kind("ConstantExpr", value="2")
    constants = [
        kind("EnumConstantDecl", name="hipSuccess"),
        kind("EnumConstantDecl", name="hipErrorOutOfMemory", inner=[two]),
        kind("EnumConstantDecl", name="hipErrorOldName", inner=[two]),
        kind("EnumConstantDecl", name="hipErrorNext"),
    ]
    tree = {
        "inner": [
            function("hipThing", "hipError_t", "int *", "void (*)(int)"),
            function("hipName", "const char *"),
            function("hipInline", "hipError_t", defined=True),
            function("printf", "int"),
            kind("EnumDecl", name="hipError_t", inner=constants),
        ]
    }
    functions, errors = dict(stub._functions(tree)), dict(stub._errors(tree))
    assert functions == {
        "hipThing": ("hipError_t", ["int *", "void (*)(int)"]),
        "hipName": ("const char *", []),
    }
    assert errors == {0: "hipSuccess", 2: "hipErrorOutOfMemory", 3: "hipErrorNext"}
    source = stub._source(functions, errors)
    assert "hipThing(__typeof__(int *) p0, __typeof__(void (*)(int)) p1)" in source
    assert 'case 2: return "hipErrorOutOfMemory";' in source


@pytest.fixture
def hipcc(tmp_path: Path) -> Drive:
    """Runs the driver over a compiler that prints its arguments."""
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    driver = prefix / "bin" / "hipcc"
    driver.write_text((FOLDER / "hipcc.py").read_text())
    llvm = tmp_path / "llvm" / "bin"
    llvm.mkdir(parents=True)
    (tmp_path / "llvm/lib/clang/22/include/cuda_wrappers").mkdir(parents=True)
    (llvm / "clang++").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (llvm / "clang++").chmod(0o755)

    def drive(*arguments: str, **environment: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, str(driver), *arguments],
            env={"PATH": os.environ["PATH"], "HIP_CLANG_PATH": str(llvm), **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return [word.replace(str(tmp_path), "") for word in done.stdout.splitlines()]

    return drive


def test_driver_marks_sources_as_hip(hipcc: Drive) -> None:
    words = hipcc("--offload-arch=gfx942", "-c", "a.cpp", "b.hip", "c.c", "-o", "x.o")
    at = words.index("--offload-arch=gfx942")
    assert words[at:] == [
        *("--offload-arch=gfx942", "-c", "-x", "hip", "a.cpp", "b.hip", "-x", "none", "c.c"),
        *("-o", "x.o"),
    ]
    assert "-O3" in words and "--rocm-path=/prefix" in words
    assert words[words.index("-isystem") + 1] == "/prefix/include"
    assert "-lamdhip64" not in words


def test_driver_keeps_what_the_caller_said(hipcc: Drive, tmp_path: Path) -> None:
    words = hipcc("-x", "c++", "-O1", "-c", "a.hip")
    assert words[-5:] == ["-x", "c++", "-O1", "-c", "a.hip"]
    assert "--rocm-path=/prefix" not in words
    (tmp_path / "response").write_text("-c 'a b.hip'\n")
    assert hipcc(f"@{tmp_path}/response", HIPCC_COMPILE_FLAGS_APPEND="-g")[-5:] == [
        *("-c", "-x", "hip", "a b.hip", "-g"),
    ]


def test_driver_links_the_runtime(hipcc: Drive) -> None:
    words = hipcc("-shared", "a.o", "-o", "x.so")
    assert words[-3:] == ["-L/prefix/lib", "-lamdhip64", "-Wl,-rpath,/prefix/lib"]
    words = hipcc("-shared", "a.o", HIPCC_NO_RPATH="1", HIPCC_LINK_FLAGS_APPEND="-s")
    assert words[-3:] == ["-L/prefix/lib", "-lamdhip64", "-s"]
