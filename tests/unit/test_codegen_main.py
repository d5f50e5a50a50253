"""The generator as CMake runs it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from stub_kernels import keys, write_headers

from ckdisp.codegen.__main__ import inputs, main
from ckdisp.codegen.build import find_ninja
from ckdisp.codegen.emit.cpp_view import cpp_view
from ckdisp.codegen.kernel_set import KernelSet


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec file.json"
    KernelSet(keys(2)).to_json(path)
    return path


def test_generates_from_a_spec(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["generate", "--spec", str(spec), "--out", str(out), "--name", "mine"]
    assert main([*arguments, "--emit", "cmake,ninja", "--include", "/headers"]) == 0
    assert "8 files written" in capsys.readouterr().out
    assert sorted(p.name for p in out.iterdir() if p.is_file()) == [
        ".ckdisp.lock",
        "CMakeLists.txt",
        "build.ninja",
        "compile_commands.json",
        "library.cpp",
        "manifest.json",
    ]
    assert main([*arguments, "--emit", "cmake,ninja", "--include", "/headers"]) == 0
    assert capsys.readouterr().out == ""


def test_compiler_settings_reach_the_graph(spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["--cxx", "c++", "--cxx-flag=-DA=1", "--cxx-flag=-g", "--launcher", "env X=1"]
    assert main(["generate", "--spec", str(spec), "--out", str(out), *arguments]) == 0
    rule = (out / "build.ninja").read_text()
    assert "env X=1 " in rule and "-DA=1 -g" in rule


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--emit", "bazel"], "unknown emit 'bazel'"),
        (["--cxx", "/nowhere/c++"], "no usable C++ compiler"),
        (["--name", "a-b"], "not a C identifier"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(
    spec: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    text: str,
) -> None:
    out = tmp_path / "out"
    assert main(["generate", "--spec", str(spec), "--out", str(out), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ") and text in printed.err
    assert printed.err.count("\n") == 1
    assert not out.exists()


def test_nothing_declared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--out", str(tmp_path / "out")]) == 2
    assert "give --spec FILE or --preset NAME" in capsys.readouterr().err
    assert main(["generate", "--out", str(tmp_path / "out"), "--preset", "gemm.x"]) == 2
    assert "add --arch (ARCHS of ckdisp_add_kernels)" in capsys.readouterr().err


def test_inputs_are_all_files_of_the_generator(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list-inputs", "--spec", str(spec)]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed == [*map(str, inputs()), str(spec)]
    names = {Path(p).name for p in listed}
    assert {"arches.json", "reasons.json", "unit.cpp.j2", "generate.py", "rules.py"} <= names


def test_cpu_levels(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CKDISP_CPU_LEVEL", "x86-64-v3")
    assert main(["cpu-levels", "native", "generic"]) == 0
    assert capsys.readouterr().out.split() == ["x86-64-v3", "generic"]
    assert main(["cpu-levels", "cpu"]) == 0
    assert {"generic", "x86-64-v4-amx"} <= set(capsys.readouterr().out.split())
    for word, text in (("gfx942", "gfx942 is a GPU"), ("x86-64-v9", "unknown arch 'x86-64-v9'")):
        assert main(["cpu-levels", word]) == 2
        assert text in capsys.readouterr().err


def test_cpp_view(tmp_path: Path) -> None:
    assert main(["cpp-view", "--out", str(tmp_path)]) == 0
    for name, text in cpp_view().items():
        assert (tmp_path / "ckdisp" / "generated" / name).read_text() == text


def test_ninja_runs_the_generator_again_when_the_spec_changes(spec: Path, tmp_path: Path) -> None:
    headers = [f"--include={d}" for d in write_headers(tmp_path / "headers")]
    out = tmp_path / "out"
    arguments = ["--out", str(out), "--emit", "ninja", "--regenerate", *headers]
    assert main(["generate", "--spec", str(spec), *arguments]) == 0

    def ninja() -> str:
        done = subprocess.run([find_ninja()], cwd=out, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert ninja().count("compile units/") == 2
    assert "no work to do" in ninja()
    KernelSet(keys(3)).to_json(spec)
    later = time.time() + 1
    os.utime(spec, (later, later))
    assert ninja().count("compile units/") == 1
    KernelSet(keys(1)).to_json(spec)
    later = time.time() + 1
    os.utime(spec, (later, later))
    time.sleep(max(0.0, later - time.time()))
    ninja()
    assert [p.stem for p in (out / "units").iterdir()] == [keys(1)[0].name]
    assert "no work to do" in ninja()
