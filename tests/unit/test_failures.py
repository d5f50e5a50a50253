"""Which line of what compilers and linkers print is told first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckdisp.codegen import failures
from ckdisp.codegen.failures import DiskFull, Failure, failure_error

SUMMARY = {
    "gcc": "collect2: error: ld returned 1 exit status",
    "clang": "clang++: error: linker command failed with exit code 1 (use -v to see invocation)",
    "numbered clang": "clang++-18: error: linker command failed with exit code 1",
    "path": "/usr/bin/clang-19: error: linker command failed with exit code 1",
}
LINES = {
    "bfd symbol": "library.cpp:(.text+0x5): undefined reference to `missing()'",
    "bfd library": "/usr/bin/ld: cannot find -lnowhere: No such file or directory",
    "bfd twice": "/usr/bin/ld: b.o: in function `f': multiple definition of `f'; a.o: first here",
    "bfd pic": "/usr/bin/ld: a.o: relocation R_X86_64_32 against `.text' can not be used when "
    "making a shared object; recompile with -fPIC",
    "bfd far": "a.cpp:(.text+0x1): relocation truncated to fit: R_X86_64_PC32 against `big'",
    "bfd format": "/usr/bin/ld: obj/a.o: file not recognized: file format not recognized",
    "bfd write": "/usr/bin/ld: final link failed: bad value",
    "gold library": "/usr/bin/ld.gold: error: cannot find -lnowhere",
    "gold symbol": "a.o:a.cpp:function f(): error: undefined reference to 'missing()'",
    "lld symbol": "ld.lld: error: undefined symbol: missing()",
    "lld library": "ld.lld: error: unable to find library -lnowhere",
    "lld file": "ld.lld: error: cannot open obj/a.o: No such file or directory",
    "lld twice": "ld.lld: error: duplicate symbol: f()",
    "mold symbol": "mold: error: undefined symbol: missing()",
    "mold library": "mold: fatal: library not found: nowhere",
    "mold file": "mold: fatal: cannot open obj/a.o: No such file or directory",
    "apple library": "ld: library not found for -lnowhere",
    "apple symbol": "ld: symbol(s) not found for architecture arm64",
}


@pytest.mark.parametrize("summary", list(SUMMARY))
@pytest.mark.parametrize("line", list(LINES))
@pytest.mark.parametrize("first", [True, False])
def test_a_link_error_is_the_line_of_the_linker(line: str, summary: str, first: bool) -> None:
    around = [
        "/usr/bin/ld: warning: a.o: missing .note.GNU-stack section implies executable stack",
        "/usr/bin/ld: NOTE: This behaviour is deprecated and will be removed",
        "/usr/bin/ld: obj/library.o: in function `ask()':",
    ]
    lines = [SUMMARY[summary], *around] if first else around
    tail = [] if first else [SUMMARY[summary]]
    output = "\n".join([*lines, LINES[line], ">>> referenced by library.cpp", *tail])
    assert Failure("libmine.so", "c++ -shared", output).first_error == LINES[line]


@pytest.mark.parametrize("summary", list(SUMMARY.values()))
def test_a_linker_that_says_nothing_else(summary: str) -> None:
    assert Failure("libmine.so", "c++", f"strange\n{summary}").first_error == summary


def test_warnings_are_no_errors() -> None:
    output = "a.cpp:1:2: warning: error: is a funny name\na.cpp:2:3: error: wrong\n"
    assert Failure("obj/a.o", "c++", output).first_error == "a.cpp:2:3: error: wrong"


FULL = {
    "assembler": "/tmp/cc.s: Fatal error: can't write 9 bytes to obj/a.o: No space left on device",
    "linker": "/usr/bin/ld: final link failed: No space left on device",
    "ninja": "ninja: build stopped: Error writing to deps log",
    "quota": "error: unable to open output file 'a.o': 'Disk quota exceeded'",
}


@pytest.mark.parametrize("output", list(FULL.values()), ids=list(FULL))
@pytest.mark.parametrize("ran", [True, False])
def test_a_full_disk_is_named(
    output: str, ran: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "_free", lambda path: 0 if path == tmp_path else 1 << 40)
    failed = [Failure("obj/a.o", "c++ -c a.cpp", output)] if ran else []
    error = failure_error(tmp_path, failed, output)
    assert isinstance(error, DiskFull)
    assert str(error).startswith(f"no space left on {tmp_path}: ")


def test_a_full_folder_for_temporary_files_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "_free", lambda path: 1 << 40 if path == tmp_path else 0)
    monkeypatch.setattr(failures.tempfile, "gettempdir", lambda: "/small")
    error = failure_error(tmp_path, [Failure("obj/a.o", "c++", FULL["assembler"])])
    assert str(error).startswith("no space left on /small: compilation of a failed: ")


def test_a_linker_killed_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = "collect2: fatal error: ld terminated with signal 7 [Bus error], core dumped"
    killed = failure_error(tmp_path, [Failure("a.so", "c++", output)])
    assert not isinstance(killed, DiskFull)
    monkeypatch.setattr(failures, "_free", lambda path: 0 if path == tmp_path else 1 << 40)
    error = failure_error(tmp_path, [Failure("a.so", "c++", output)])
    assert str(error).startswith(f"no space left on {tmp_path}: link of a failed: ")


def test_a_disk_without_room_for_files_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = os.statvfs(tmp_path)
    assert failures._free(tmp_path) > 0
    assert failures._free(tmp_path / "no such folder") > 1 << 60

    def no_files(path: Path) -> os.statvfs_result:
        values = list(facts)
        values[5:8] = [100, 0, 0]
        return os.statvfs_result(values)

    monkeypatch.setattr(failures.os, "statvfs", no_files)
    assert failures._free(tmp_path) == 0
