"""The graphs that are written: escaping, edges, pools, and what the tools then do with them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stub_kernels import FakeCompiler, kernel_count, keys, write_headers

from ckdisp.codegen.build import find_ninja
from ckdisp.codegen.emit.graph import ninja_text
from ckdisp.codegen.emit.tree import Regenerate, make_tree
from ckdisp.codegen.generate import generate
from ckdisp.codegen.jobs import cpus, job_count, memory_mb
from ckdisp.codegen.providers import Setup
from ckdisp.codegen.toolchain import Toolchain

ODD = "odd $x:y 'q' #% [z] $ end"


ODD_TEXT = '"a;b $c #d"'


def check_text(headers: list[Path]) -> None:
    """Make units compile only if the macro ``TEXT`` arrived as ``ODD_TEXT``."""
    with (headers[1] / "providers" / "cpu" / "detail.hpp").open("a") as file:
        file.write(f"static_assert(__builtin_strcmp(TEXT, {ODD_TEXT}) == 0);\n")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name holds what ninja, the shell and make treat specially."""
    folder = tmp_path_factory.mktemp("graph") / ODD
    folder.mkdir()
    return folder


def test_odd_characters_in_every_path(odd: Path) -> None:
    headers = write_headers(odd / "headers dir")
    compiler = odd / "my c++"
    os.symlink(shutil.which("c++") or "c++", compiler)
    toolchain = Toolchain.find(str(compiler), cxx_flags=[f"-DTEXT={ODD_TEXT}"])
    check_text(headers)
    assert toolchain.cxx == str(compiler)
    out = odd / "out"
    generate(keys(2), out, toolchain=toolchain, include_dirs=headers)
    assert "link libckdisp_kernels.so" in run(find_ninja(), cwd=out)
    assert "no work to do" in run(find_ninja(), cwd=out)
    header = headers[1] / "providers" / "cpu" / "gemm.hpp"
    header.write_text(header.read_text() + "// changed\n")
    again = run(find_ninja(), cwd=out)
    assert again.count("compile units/") == 2
    assert "library.cpp" not in again


def test_make_builds_the_same_library(tmp_path: Path) -> None:
    headers = write_headers(tmp_path / "headers")
    toolchain = Toolchain.find(cxx_flags=[f"-DTEXT={ODD_TEXT}"])
    check_text(headers)
    out = tmp_path / "with blank" / "out"
    generate(keys(2), out, toolchain=toolchain, include_dirs=headers)
    run("make", "-j2", cwd=out)
    assert kernel_count(out / "libckdisp_kernels.so") == 2
    assert "Nothing to be done" in run("make", "all", cwd=out)
    generate(keys(3), out, toolchain=toolchain, include_dirs=headers)
    again = run("make", cwd=out)
    assert again.count(" -c units/") == 1
    detail = headers[1] / "providers" / "cpu" / "detail.hpp"
    detail.write_text(detail.read_text() + "// changed\n")
    assert run("make", cwd=out).count(" -c units/") == 3
    run("make", "clean", cwd=out)
    assert not (out / "libckdisp_kernels.so").exists()


def test_cmake_builds_the_same_library(tmp_path: Path) -> None:
    headers = write_headers(tmp_path / "some headers")
    kernels = [*keys(1), *keys(1, arch="x86-64-v3")]
    out, build = tmp_path / "with blank", tmp_path / "build"
    toolchain = Toolchain.find(cxx_flags=[f"-DTEXT={ODD_TEXT}"])
    check_text(headers)
    generate(kernels, out, "cmake", name="mine", toolchain=toolchain, include_dirs=headers)
    run("cmake", "-G", "Unix Makefiles", "-S", out, "-B", build, cwd=tmp_path)
    commands = run("cmake", "--build", build, "--verbose", cwd=tmp_path)
    assert kernel_count(build / "libmine.so") == 2
    compiles = [line for line in commands.splitlines() if " -c " in line and "units/" in line]
    assert [("-march=x86-64-v3" in line) for line in sorted(compiles)] == [False, True]


def test_one_more_kernel_compiles_one_object_and_links_once(tmp_path: Path) -> None:
    headers = write_headers(tmp_path / "headers")
    out = tmp_path / "out"
    generate(keys(3), out, include_dirs=headers)
    run(find_ninja(), cwd=out)
    generate(keys(4), out, include_dirs=headers)
    output = run(find_ninja(), cwd=out)
    assert output.count("compile units/") == 1
    assert output.count("link ") == 1
    generate(keys(2), out, include_dirs=headers)
    output = run(find_ninja(), cwd=out)
    assert output.count("compile units/") == 0
    assert output.count("link ") == 1


def test_a_target_for_every_kernel(tmp_path: Path) -> None:
    headers = write_headers(tmp_path / "headers")
    out = tmp_path / "out"
    generate(keys(2), out, emit="ninja", include_dirs=headers)
    name = keys(2)[1].name
    run(find_ninja(), name, cwd=out)
    assert os.listdir(out / "obj") == [f"{name}.o"]


def test_commands_too_long_for_a_command_line(tmp_path: Path) -> None:
    headers = write_headers(tmp_path / "headers")
    flags = [f"-DSOME_LONG_MACRO_{i}='{'x' * 200} \"y\"'" for i in range(200)]
    out = tmp_path / "out"
    generate(keys(1), out, toolchain=Toolchain.find(cxx_flags=flags), include_dirs=headers)
    assert "@$out.rsp" in (out / "build.ninja").read_text().split("rule link")[0]
    run(find_ninja(), cwd=out)
    assert (out / "libckdisp_kernels.so").is_file()


def test_many_objects_are_linked_through_a_response_file(tmp_path: Path) -> None:
    setup = Setup(Toolchain("c++"), (), accepts=lambda flag: False)
    tree = make_tree("k", [(k.name, k) for k in keys(3)], setup)
    rule = ninja_text(tree).split("rule link")[1]
    assert "@$out.rsp" in rule and "rspfile_content = $in_newline" in rule


def test_a_library_is_never_seen_half_written(tmp_path: Path) -> None:
    setup = Setup(Toolchain("c++"), (), accepts=lambda flag: False)
    tree = make_tree("k", [(k.name, k) for k in keys(1)], setup)
    assert "-o $out.new" in ninja_text(tree) and "mv -f $out.new $out" in ninja_text(tree)


def test_objects_that_are_done_are_linked_and_not_compiled(tmp_path: Path) -> None:
    headers = write_headers(tmp_path / "headers")
    first = tmp_path / "first"
    pairs = [(k.name, k) for k in keys(2)]
    generate(keys(2), first, include_dirs=headers)
    run(find_ninja(), cwd=first)
    second = tmp_path / ODD
    generate(keys(2), second, include_dirs=headers)
    done = f"obj/{pairs[0][0]}.o"
    (second / "obj").mkdir()
    (second / done).symlink_to(first / done)
    setup = Setup(Toolchain.find(), tuple(map(str, headers)))
    tree = make_tree("ckdisp_kernels", pairs, setup, done=frozenset([done]))
    (second / "build.ninja").write_text(ninja_text(tree))
    assert run(find_ninja(), cwd=second).count("compile units/") == 1
    assert (second / "libckdisp_kernels.so").is_file()


def test_the_graph_generates_itself_again_when_an_input_changes(odd: Path) -> None:
    headers = write_headers(odd / "regenerate")
    out, spec, log = odd / "again", odd / "spec $ file.json", odd / "log"
    spec.write_text("1")
    text = "import sys; open(sys.argv[1], 'a').write('x')"
    again = Regenerate((sys.executable, "-c", text, str(log)), (str(spec),))
    generate(keys(1), out, include_dirs=headers, regenerate=again)
    run(find_ninja(), cwd=out)
    written = len(log.read_text()) if log.exists() else 0
    assert "no work to do" in run(find_ninja(), cwd=out)
    now = time.time()
    os.utime(out / "build.ninja", (now - 100, now - 100))
    os.utime(spec, (now - 50, now - 50))
    run(find_ninja(), cwd=out)
    assert len(log.read_text()) == written + 1
    # The command changed no file: that must not make ninja run it for ever.
    assert "no work to do" in run(find_ninja(), cwd=out)
    assert len(log.read_text()) == written + 1


def test_a_launcher_runs_compiles_and_no_links(tmp_path: Path) -> None:
    headers = write_headers(tmp_path / "headers")
    log = tmp_path / "log"
    launcher = tmp_path / "launcher"
    launcher.write_text(f'#!/bin/sh\necho "$*" >> {shlex.quote(str(log))}\nexec "$@"\n')
    launcher.chmod(0o755)
    out = tmp_path / "out"
    toolchain = Toolchain.find(launcher=str(launcher))
    generate(keys(1), out, toolchain=toolchain, include_dirs=headers)
    run(find_ninja(), cwd=out)
    lines = log.read_text().splitlines()
    assert len(lines) == 2
    assert all(" -c " in line for line in lines)


def test_flags_of_each_arch(tmp_path: Path) -> None:
    fake = FakeCompiler(tmp_path / "bin")
    kernels = [*keys(1), *keys(1, arch="x86-64-v3")]
    generate(kernels, tmp_path / "out", toolchain=Toolchain(str(fake.path)), include_dirs=[])
    commands = json.loads((tmp_path / "out" / "compile_commands.json").read_text())
    flags = {c["file"]: "-march=x86-64-v3" in c["arguments"] for c in commands}
    assert flags == {
        "library.cpp": False,
        f"units/{kernels[0].name}.cpp": False,
        f"units/{kernels[1].name}.cpp": True,
    }


@given(st.integers(0, 512), st.integers(0, 10**7), st.integers(0, 10**5))
def test_jobs_fit_processors_and_memory(processors: int, memory: int, each: int) -> None:
    jobs = job_count(processors, memory, each)
    assert jobs >= 1
    assert jobs <= max(1, processors)
    assert jobs == 1 or jobs * each <= memory
    assert job_count(processors, memory + 1000, each) >= jobs
    assert job_count(processors + 1, memory, each) >= jobs


def test_limits_of_a_container_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckdisp.codegen.jobs._CGROUP", tmp_path)
    machine = memory_mb(available=False)
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_mb(available=False) == machine
    (tmp_path / "memory.max").write_text(f"{64 << 20}\n")
    (tmp_path / "memory.current").write_text(f"{16 << 20}\n")
    assert memory_mb(available=False) == 64
    assert memory_mb(available=True) == 48
    (tmp_path / "cpu.max").write_text("max 100000\n")
    free = cpus()
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert cpus() == 1 <= free
