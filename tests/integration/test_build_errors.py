"""Building a generated folder: what is shown while it runs, and what when it fails."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from filelock import FileLock
from stub_kernels import FakeCompiler, kernel_count, keys, write_headers

from ckdisp.cli.app import app
from ckdisp.codegen import build as build_module
from ckdisp.codegen.build import build, find_ninja
from ckdisp.codegen.emit.manifest import read_manifest
from ckdisp.codegen.errors import BuildError, InvalidKey
from ckdisp.codegen.failures import Failure, parse_failures
from ckdisp.codegen.generate import generate
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.toolchain import Toolchain


@pytest.fixture
def compiler(tmp_path: Path) -> FakeCompiler:
    return FakeCompiler(tmp_path / "the bin")


@pytest.fixture
def out(tmp_path: Path, compiler: FakeCompiler) -> Path:
    folder = tmp_path / "a folder"
    toolchain = Toolchain.find(str(compiler.path))
    headers = write_headers(tmp_path / "headers")
    generate(keys(3), folder, "ninja", toolchain=toolchain, include_dirs=headers, name="mine")
    return folder


def test_builds_the_library_and_reports_each_step(out: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    library = build(out, jobs=2, progress=lambda *a: seen.append(a))
    assert library == out / "libmine.so"
    assert kernel_count(library) == 3
    assert [s[:2] for s in seen] == [(i, 5) for i in range(1, 6)]
    assert {k.name for k in keys(3)} < {s[2] for s in seen}
    assert build(out, progress=lambda *a: pytest.fail("nothing to do")) == library


def test_only_the_kernels_asked_for(out: Path, compiler: FakeCompiler) -> None:
    build(out, targets=[keys(3)[1].name])
    assert compiler.compiled() == 1


def test_a_compiler_error_names_kernel_line_and_command(out: Path, compiler: FakeCompiler) -> None:
    (compiler.folder / "fail").touch()
    with pytest.raises(BuildError) as caught:
        build(out, jobs=1)
    lines = str(caught.value).splitlines()
    name = next(k.name for k in keys(3) if k.name in lines[0])
    assert lines[0] == (
        f"compilation of {name} failed: units/{name}.cpp:3:1: "
        "error: the fake compiler was told to fail"
    )
    assert lines[1].startswith(f"repeat it with: cd '{out}' && '{compiler.path}' -std=c++20")
    assert "In file included from nowhere" in lines
    again = subprocess.run(
        lines[1].removeprefix("repeat it with: "), shell=True, capture_output=True, text=True
    )
    assert "told to fail" in again.stderr


def test_a_link_error_names_the_library(out: Path) -> None:
    build(out, jobs=2)
    (out / "library.cpp").write_text("int missing();\nint ask() { return missing(); }\n")
    graph = (out / "build.ninja").read_text()
    (out / "build.ninja").write_text(graph.replace("-shared", "-shared -Wl,-z,defs"))
    with pytest.raises(BuildError, match=r"link of libmine failed: .*undefined reference"):
        build(out)
    assert kernel_count(out / "libmine.so") == 3  # the old library is whole


def test_warnings_of_a_compiler_are_shown(out: Path, capfd: pytest.CaptureFixture[str]) -> None:
    unit = next((out / "units").iterdir())
    unit.write_text(unit.read_text() + "#warning look here\n")
    build(out)
    assert "look here" in capfd.readouterr().err


def test_all_failures_of_one_run_are_told() -> None:
    output = """\
[1/4] compile units/a.cpp
FAILED: [code=1] obj/a.o
c++ -c units/a.cpp
In file included from x.hpp:1:
x.hpp:3:4: error: first
[2/4] compile units/b.cpp
FAILED: obj/b.o
c++ -c units/b.cpp
cc1plus: fatal error: Killed
ninja: build stopped: subcommand failed."""
    failures = parse_failures(output.splitlines())
    assert [(f.kernel, f.command, f.first_error) for f in failures] == [
        ("a", "c++ -c units/a.cpp", "x.hpp:3:4: error: first"),
        ("b", "c++ -c units/b.cpp", "cc1plus: fatal error: Killed"),
    ]


def test_a_command_that_says_nothing() -> None:
    assert Failure("obj/a.o", "c++", "\n").first_error == "the command printed nothing"
    assert Failure("obj/a.o", "c++", "strange\ntext").first_error == "strange"


def is_running(compiler: FakeCompiler) -> bool:
    command = ["ps", "-ww", "-eo", "args"]  # whole lines, whatever COLUMNS says
    return str(compiler.path) in subprocess.run(command, capture_output=True, text=True).stdout


def test_the_time_limit_ends_compilers_too(out: Path, compiler: FakeCompiler) -> None:
    (compiler.folder / "hang").touch()
    start = time.monotonic()
    with pytest.raises(BuildError, match=r"did not end within 1 s and was stopped"):
        build(out, timeout=1, jobs=2)
    assert time.monotonic() - start < 60
    assert not is_running(compiler)


def test_two_builds_of_a_folder_take_turns(out: Path, compiler: FakeCompiler) -> None:
    with ThreadPoolExecutor(3) as pool:
        libraries = list(pool.map(lambda _: build(out, jobs=1), range(3)))
    assert compiler.compiled() == 3 and kernel_count(libraries[0]) == 3


def test_waiting_for_another_build_counts(out: Path) -> None:
    with (
        FileLock(out / ".ckdisp.build.lock"),
        pytest.raises(BuildError, match=r"did not end within 0\.2 s"),
    ):
        build(out, timeout=0.2)


def test_an_interrupt_ends_compilers_too(out: Path, compiler: FakeCompiler) -> None:
    def interrupt(done: int, total: int, what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(out, jobs=1, progress=interrupt)
    assert kernel_count(build(out)) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_compilers_too(
    out: Path, compiler: FakeCompiler, number: signal.Signals
) -> None:
    (compiler.folder / "hang").touch()
    # Whatever started the tests may have turned the signal off, and children keep that.
    program = (
        f"import signal; signal.signal({int(number)}, signal.SIG_DFL)\n"
        "from ckdisp.cli import main; main()"
    )
    command = [sys.executable, "-c", program, "build", str(out), "-j", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        deadline = time.monotonic() + 60
        while not is_running(compiler) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert is_running(compiler)
        process.send_signal(number)
        assert process.wait(60) == -number and not is_running(compiler)
    (compiler.folder / "hang").unlink()
    assert kernel_count(build(out)) == 3


def test_a_folder_without_a_graph(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"holds no build\.ninja of ckdisp with a whole manifest"):
        build(tmp_path)
    generate(keys(1), tmp_path / "out", emit="make", include_dirs=["/headers"])
    with pytest.raises(BuildError, match=r"holds no build\.ninja"):
        build(tmp_path / "out")


@pytest.mark.parametrize("jobs", [0, -1])
def test_no_jobs(out: Path, jobs: int) -> None:
    with pytest.raises(BuildError, match=f"jobs must be at least 1, not {jobs}"):
        build(out, jobs=jobs)


def test_an_unknown_target(out: Path) -> None:
    with pytest.raises(BuildError, match=r"the build in .* failed: .*unknown target 'nonsense'"):
        build(out, targets=["nonsense"])


def test_the_compiler_is_gone(out: Path, compiler: FakeCompiler) -> None:
    os.unlink(compiler.path)
    with pytest.raises(BuildError, match=r"compilation of .* failed: .*not found"):
        build(out)


def test_ninja_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ninja", None)
    monkeypatch.setattr(build_module, "which", lambda command: None)
    with pytest.raises(BuildError, match="pip install ninja"):
        find_ninja()


def test_ninja_on_the_path_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copy(find_ninja(), tmp_path / "ninja")
    monkeypatch.setitem(sys.modules, "ninja", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_ninja() == str(tmp_path / "ninja")


# A checkout, an environment or a folder that has moved.


@pytest.fixture
def moved(tmp_path: Path, compiler: FakeCompiler) -> Path:
    """A generated folder whose headers are somewhere else now."""
    folder = tmp_path / "my kernels"
    toolchain = Toolchain.find(str(compiler.path))
    headers = write_headers(tmp_path / "checkout")
    generate(keys(3), folder, toolchain=toolchain, include_dirs=headers, name="mine")
    (tmp_path / "checkout").rename(tmp_path / "elsewhere")
    return folder


def test_a_moved_checkout_says_how_to_generate_again(
    moved: Path, tmp_path: Path, compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BuildError, match="Generate it again: ckdisp generate") as caught:
        build(moved)
    text = str(caught.value)
    assert f"headers in {tmp_path}/checkout/include, which is not there any more" in text
    command = re.search(r"Generate it again: (.*) \(where CMake", text)
    assert command is not None
    _, *arguments = shlex.split(command[1])
    monkeypatch.setenv("CXX", str(compiler.path))
    before = (moved / "manifest.json").read_text()
    assert CliRunner().invoke(app, arguments).exit_code == 0
    again = read_manifest(moved)
    assert again is not None and [k["name"] for k in again["kernels"]] == sorted(
        k.name for k in keys(3)
    )
    assert (moved / "manifest.json").read_text() == before
    assert str(tmp_path / "checkout") not in (moved / "build.ninja").read_text()


def test_make_and_cmake_say_it_too(moved: Path, tmp_path: Path) -> None:
    again = "ckdisp generate --spec manifest.json --out . --name mine"
    done = subprocess.run(["make", "-C", str(moved)], capture_output=True, text=True)
    assert done.returncode != 0 and "ckdisp has moved: " in done.stderr and again in done.stderr
    command = ["cmake", "-S", str(moved), "-B", str(tmp_path / "build")]
    done = subprocess.run(command, capture_output=True, text=True)
    said = " ".join(done.stderr.split())
    assert done.returncode != 0 and "ckdisp has moved: " in said and again in said


def test_a_folder_that_moves_with_nothing_else_builds(out: Path, tmp_path: Path) -> None:
    there = out.rename(tmp_path / "another place")
    assert kernel_count(build(there)) == 3


def test_a_manifest_is_a_spec(out: Path) -> None:
    found = KernelSet.from_json(out / "manifest.json")
    assert sorted(found.names()) == sorted(k.name for k in keys(3))
    assert found == KernelSet(keys(3))
    (out / "other.json").write_text('{"generator": "ckdisp", "kernels": [{"name": 1}]}')
    with pytest.raises(InvalidKey, match=r"sets\[0\]\.keys\[0\]: a key must be an object"):
        KernelSet.from_json(out / "other.json")
