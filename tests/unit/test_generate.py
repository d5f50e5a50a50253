"""Which files generate writes, touches and removes, and what it refuses."""

from __future__ import annotations

import dataclasses
import os
import resource
import signal
import threading
from pathlib import Path

import pytest
from stub_kernels import keys, snapshot

from ckdisp.codegen.check import MOST_KERNELS
from ckdisp.codegen.errors import BuildError, InvalidKey
from ckdisp.codegen.generate import EMITTERS, generate
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.toolchain import Toolchain

COMMON = {"library.cpp", "include/ckdisp_kernels.hpp", "manifest.json"}
GRAPHS = {
    "ninja": {"build.ninja", "compile_commands.json"},
    "cmake": {"CMakeLists.txt"},
    "make": {"Makefile", "flags.mk"},
}


def files(folder: Path) -> set[str]:
    paths = (p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return {str(p) for p in paths if p.name != ".ckdisp.lock"}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "a folder" / "out"


def test_writes_a_unit_per_kernel_and_one_graph_per_tool(out: Path) -> None:
    kernels = keys(3)
    result = generate(kernels, out, include_dirs=["/headers"])
    expected = COMMON.union(*GRAPHS.values()) | {f"units/{k.name}.cpp" for k in kernels}
    assert files(out) == set(result.written) == expected
    assert result.unchanged == result.removed == ()
    assert (result.folder, result.library) == (out, "ckdisp_kernels")


def test_a_second_time_touches_nothing(out: Path) -> None:
    first = generate(keys(20), out)
    before = snapshot(out)
    second = generate(keys(20), out)
    assert snapshot(out) == before
    assert second.written == second.removed == ()
    assert set(second.unchanged) == set(first.written)


def test_one_more_kernel_writes_one_unit(out: Path) -> None:
    generate(keys(3), out)
    result = generate(keys(4), out)
    units = [p for p in result.written if p.startswith("units/")]
    assert units == [f"units/{keys(1, 3)[0].name}.cpp"]
    assert result.removed == ()
    assert "include/ckdisp_kernels.hpp" in result.unchanged


def test_one_kernel_less_removes_unit_object_and_dependencies(out: Path) -> None:
    generate(keys(3), out)
    name = keys(3)[2].name
    (out / "obj").mkdir()
    for suffix in (".o", ".o.d", ".o.rsp"):
        (out / "obj" / (name + suffix)).touch()
    (out / "obj" / "library.o").touch()
    result = generate(keys(2), out)
    assert set(result.removed) == {
        f"units/{name}.cpp",
        *(f"obj/{name}{suffix}" for suffix in (".o", ".o.d", ".o.rsp")),
    }
    assert (out / "obj" / "library.o").exists()


def test_another_library_name_leaves_nothing_of_the_old_one(out: Path) -> None:
    generate(keys(1), out, name="old")
    (out / "libold.so").touch()
    result = generate(keys(1), out, name="new")
    assert set(result.removed) == {"include/old.hpp", "libold.so"}
    assert "ckdisp_library_new" in (out / "library.cpp").read_text()


def test_files_of_the_user_in_the_folder_stay(out: Path) -> None:
    generate(keys(2), out)
    mine = [out / "units" / "mine.cpp", out / "include" / "mine.hpp", out / "notes.txt"]
    for path in mine:
        path.write_text("int mine;\n")
    generate(keys(1), out)
    assert all(path.exists() for path in mine)


@pytest.mark.parametrize("emit", EMITTERS)
def test_graphs_not_asked_for_are_removed(out: Path, emit: str) -> None:
    generate(keys(1), out, include_dirs=["/headers"])
    result = generate(keys(1), out, emit=(emit,), include_dirs=["/headers"])
    others = set().union(*GRAPHS.values()) - GRAPHS[emit]
    assert set(result.removed) == others
    assert files(out) == COMMON | GRAPHS[emit] | {f"units/{keys(1)[0].name}.cpp"}


def test_the_header_is_for_cpp17(out: Path) -> None:
    generate(keys(1), out, name="mine")
    text = (out / "include" / "mine.hpp").read_text()
    assert 'extern "C" const ckdisp::ckdisp_library* ckdisp_library_mine();' in text


def test_the_folder_can_move(out: Path, tmp_path: Path) -> None:
    generate(keys(2), out, include_dirs=["/headers"])
    for name in files(out) - {"compile_commands.json"}:
        assert str(tmp_path) not in (out / name).read_text(), name


def test_a_source_checkout_gets_the_generated_headers(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckdisp.codegen.headers.own_include_dirs", lambda: [tmp_path / "none"])
    generate(keys(1), out)
    assert "kSchemaHash" in (out / "include/ckdisp/generated/enums.hpp").read_text()
    result = generate(keys(1), out, include_dirs=["/headers"])
    assert "include/ckdisp/generated/enums.hpp" in result.removed


@pytest.mark.parametrize("size", [0, 10, 100])
def test_a_truncated_unit_is_written_again(out: Path, size: int) -> None:
    generate(keys(2), out)
    unit = out / "units" / f"{keys(1)[0].name}.cpp"
    whole = unit.read_bytes()
    unit.write_bytes(whole[:size])
    assert generate(keys(2), out).written == (f"units/{unit.name}",)
    assert unit.read_bytes() == whole


@pytest.mark.parametrize("text", ["", "{", '{"generator": "ckdisp", "kernels": [{}, 3]}'])
def test_a_damaged_manifest_is_written_again(out: Path, text: str) -> None:
    generate(keys(3), out)
    (out / "manifest.json").write_text(text)
    if text.startswith('{"'):
        with pytest.raises(BuildError, match=r"manifest\.json there was not written by ckdisp"):
            generate(keys(2), out)
    else:
        result = generate(keys(2), out)
        assert f"units/{keys(3)[2].name}.cpp" in result.removed


def test_repeated_keys_count_once(out: Path) -> None:
    result = generate([*keys(2), *keys(2)], out)
    assert len([p for p in result.written if p.startswith("units/")]) == 2


# What is refused, before anything is written.


def test_unknown_emitter(out: Path) -> None:
    with pytest.raises(BuildError, match=r"unknown emit 'ninj' \(did you mean 'ninja'\?\)"):
        generate(keys(1), out, emit=("ninj",))
    assert not out.exists()


def test_name_that_is_no_identifier(out: Path) -> None:
    with pytest.raises(BuildError, match="library name 'my-kernels' is not a C identifier"):
        generate(keys(1), out, name="my-kernels")
    assert not out.exists()


@pytest.mark.parametrize("name", ["all", "clean", "install"])
def test_names_that_cmake_reserves(out: Path, name: str) -> None:
    with pytest.raises(BuildError, match=f"library name '{name}' is a target that CMake reserves"):
        generate(keys(1), out, name=name)
    assert not out.exists()
    assert generate(keys(1), out, "make", name=name).library == name


def test_empty_set(out: Path) -> None:
    with pytest.raises(InvalidKey, match="the kernel set is empty"):
        generate([], out)
    assert not out.exists()


def test_keys_that_break_rules_are_listed_with_rule_and_reason(out: Path) -> None:
    broken = [dataclasses.replace(k, warp=(5, 7, 3)) for k in keys(8)]
    with pytest.raises(InvalidKey) as caught:
        generate([*keys(2, 20), *broken], out)
    text = str(caught.value)
    assert "8 of 10 kernels break a rule" in text
    assert broken[0].name in text and "warp_tile: " in text and "and 3 more" in text
    assert not out.exists()


def test_no_compiler(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BuildError, match=r"no usable C\+\+ compiler.*set CXX"):
        generate(keys(1), out)
    assert not out.exists()
    generate(keys(1), out, emit=("cmake", "make"))
    assert not (out / "compile_commands.json").exists()


@pytest.mark.parametrize("name", ["CMakeLists.txt", "Makefile", "library.cpp", "manifest.json"])
def test_a_file_of_someone_else_is_not_overwritten(out: Path, name: str) -> None:
    out.mkdir(parents=True)
    (out / name).write_text("all: my own work\n")
    with pytest.raises(BuildError, match=f"{name} there was not written by ckdisp"):
        generate(keys(1), out)
    assert files(out) == {name}


@pytest.mark.parametrize("name", [".git", "pyproject.toml", "setup.py"])
def test_a_source_tree_is_left_alone(out: Path, name: str) -> None:
    (out / name).mkdir(parents=True)
    with pytest.raises(BuildError, match="it is a source tree"):
        generate(keys(1), out)
    assert [p.name for p in out.iterdir()] == [name]


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BuildError, match="is a file, not a folder"):
        generate(keys(1), tmp_path / "file" / "out")


def test_a_folder_that_cannot_be_created() -> None:
    with pytest.raises(BuildError, match="cannot create the folder /proc/ckdisp"):
        generate(keys(1), "/proc/ckdisp")


def test_a_full_disk_tears_no_file(out: Path) -> None:
    generate(keys(3), out)
    before = {name: (out / name).read_bytes() for name in files(out)}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (900, hard))
    try:
        with pytest.raises(BuildError, match=r"cannot write .* the disk is not full"):
            generate(keys(2), out, name="other")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    kept = {name: (out / name).read_bytes() for name in before}
    assert kept == before
    assert not [name for name in files(out) if Path(name).name.startswith(".")]


def test_two_writers_never_mix_their_sets(out: Path) -> None:
    toolchain = Toolchain.find()
    sets = [keys(6), keys(4, 6)]
    errors: list[BaseException] = []

    def write(turn: int) -> None:
        try:
            for i in range(4):
                generate(sets[(turn + i) % 2], out, toolchain=toolchain, include_dirs=["/h"])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    units = {p for p in files(out) if p.startswith("units/")}
    assert units in [{f"units/{k.name}.cpp" for k in s} for s in sets]
    chosen = next(s for s in sets if f"units/{s[0].name}.cpp" in units)
    before = snapshot(out)
    assert generate(chosen, out, toolchain=toolchain, include_dirs=["/h"]).written == ()
    assert snapshot(out) == before


def test_one_writer_without_filelock(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "filelock", None)
    generate(keys(2), out)
    assert not (out / ".ckdisp.lock").exists()
    assert os.listdir(out / "units")


def test_a_set_of_millions_is_refused_before_it_fills_the_memory(out: Path) -> None:
    everything = KernelSet.sweep("gemm.standard", arch="gfx942", tiles="all")
    assert len(everything) > MOST_KERNELS
    with pytest.raises(InvalidKey, match=f"more than {MOST_KERNELS} kernels.*narrow it"):
        generate(everything, out)
    assert not out.exists()
