"""The cache of compiled kernels: what is reused and what is built again.

Each test is named after one way in which caches of compiled code have failed elsewhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from jit_lab import Lab
from stub_kernels import FakeCompiler, kernel_count, snapshot

from ckdisp.jit import build as build_module
from ckdisp.jit.digest import digest
from ckdisp.jit.store import read_entry

# What is reused.


def test_the_same_set_compiles_nothing_and_writes_nothing(lab: Lab) -> None:
    first = lab.build()
    assert lab.compiled() == 2
    assert kernel_count(first) == 2
    before = snapshot(lab.root)
    assert lab.build() == first
    assert lab.compiler.lines() == []
    assert snapshot(lab.root) == before


def test_a_second_process_compiles_nothing(lab: Lab) -> None:
    first = lab.build(1)
    lab.compiled()
    code = (
        "import sys; sys.path[:0] = sys.argv[1].split('|')\n"
        "from pathlib import Path\n"
        "from stub_kernels import keys\n"
        "from ckdisp.jit import build\n"
        "build.own_include_dirs = lambda: [Path(p) for p in sys.argv[2].split('|')]\n"
        "build.missing_headers = dict\n"
        "print(build.build_library(keys(1), build.Options(progress=False)))\n"
    )
    paths = "|".join(p for p in sys.path if p)
    headers = "|".join(map(str, lab.headers))
    done = subprocess.run(
        [sys.executable, "-c", code, paths, headers], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(first)
    assert lab.compiled() == 0


def test_one_more_kernel_compiles_one_object_and_links_once(lab: Lab) -> None:
    lab.build(3)
    lab.compiled()
    library = lab.build(4)
    lines = lab.compiler.lines()
    assert sum("compile units/" in line for line in lines) == 1
    assert lines.count("link") == 1
    assert kernel_count(library) == 4


def test_a_subset_compiles_nothing_and_links_once(lab: Lab) -> None:
    lab.build(3)
    lab.compiled()
    assert kernel_count(lab.build(2)) == 2
    assert lab.compiled() == 0


def test_a_moved_installation_still_hits(lab: Lab) -> None:
    first = lab.build()
    lab.compiled()
    moved = lab.folder / "site packages of another venv"
    shutil.move(lab.headers[1], moved)
    for path in moved.rglob("*"):
        os.utime(path, (1, 1))
    lab.use_headers([moved / "include", moved])
    assert lab.build() == first
    assert lab.compiled() == 0


def test_another_spelling_of_the_compiler_still_hits(lab: Lab) -> None:
    first = lab.build()
    lab.compiled()
    link = lab.folder / "toolkit" / "g++-from-a-link"
    link.parent.mkdir()
    os.symlink(lab.compiler.path, link)
    for spelling in (str(link), f"{link.parent}/../toolkit/{link.name}"):
        lab.monkeypatch.setenv("CXX", spelling)
        assert lab.build() == first
    lab.monkeypatch.delenv("CXX")
    old = os.environ["PATH"]
    for path in (f"{lab.compiler.folder}:{old}", f":/nowhere::{lab.compiler.folder}/:{old}"):
        lab.monkeypatch.setenv("PATH", path)
        assert lab.build() == first
    assert lab.compiled() == 0


def test_new_time_stamps_still_hit(lab: Lab) -> None:
    first = lab.build()
    lab.compiled()
    for path in (*lab.headers[1].rglob("*"), lab.compiler.path):
        os.utime(path)
    assert lab.build() == first
    assert lab.compiled() == 0


def test_a_launcher_does_not_change_the_key(lab: Lab) -> None:
    first = lab.build()
    lab.compiled()
    launcher = lab.folder / "mycache"
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o755)
    lab.monkeypatch.setenv("CKDISP_COMPILER_LAUNCHER", str(launcher))
    assert lab.build() == first
    assert lab.compiled() == 0


# What is built again.


def test_other_content_with_an_older_time_stamp_is_built_again(lab: Lab) -> None:
    first = lab.build()
    lab.compiled()
    lab.detail.write_text(lab.detail.read_text().replace("1.0", "2.0"))
    os.utime(lab.detail, (1, 1))
    second = lab.build()
    assert second != first and first.exists()
    assert lab.compiled() == 2


def test_going_back_to_old_content_hits_again(lab: Lab) -> None:
    text = lab.detail.read_text()
    first = lab.build()
    lab.detail.write_text(text.replace("1.0", "2.0"))
    lab.build()
    lab.compiled()
    lab.detail.write_text(text)
    assert lab.build() == first
    assert lab.compiled() == 0


def test_a_header_that_newly_comes_first_is_noticed(lab: Lab) -> None:
    lab.build()
    lab.compiled()
    shadow = lab.headers[0] / "providers" / "cpu" / "gemm.hpp"
    shadow.parent.mkdir(parents=True)
    shadow.write_text((lab.headers[1] / "providers" / "cpu" / "gemm.hpp").read_text() + "\n")
    lab.build()
    assert lab.compiled() == 2


def test_a_system_header_that_changed_is_noticed(lab: Lab) -> None:
    system = lab.folder / "system"
    system.mkdir()
    (system / "extra.h").write_text("// one\n")
    lab.detail.write_text("#include <extra.h>\n" + lab.detail.read_text())
    lab.monkeypatch.setenv("CPATH", str(system))
    first = lab.build()
    lab.compiled()
    (system / "extra.h").write_text("// two\n")
    assert lab.build() != first
    assert lab.compiled() == 2


def test_another_compiler_of_the_same_version_is_noticed(lab: Lab) -> None:
    first = lab.build()
    before = lab.compiler.path.stat()
    lab.compiler = FakeCompiler(lab.folder / "bin", comment="rebuilt")
    os.utime(lab.compiler.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    lab.compiled()
    assert lab.build() != first
    assert lab.compiled() == 2


def test_flags_and_their_order_count(lab: Lab) -> None:
    built = {lab.build()}
    for flags in ("-DA -DB", "-DB -DA", "-DAB", "-DA=-DB"):
        lab.monkeypatch.setenv("CKDISP_CXXFLAGS", flags)
        lab.compiled()
        built.add(lab.build())
        assert lab.compiled() == 2, flags
    assert len(built) == 5


@pytest.mark.parametrize("name", ["ABI_VERSION", "schema_hash", "_platform"])
def test_another_abi_is_never_loaded(lab: Lab, name: str) -> None:
    first = lab.build()
    lab.compiled()
    changed = 999 if name == "ABI_VERSION" else lambda: "another"
    lab.monkeypatch.setattr(build_module, name, changed)
    assert lab.build() != first
    assert lab.compiled() == 2


def test_fields_of_a_key_cannot_run_into_each_other() -> None:
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ("a", "b", "c")]
    assert len({digest(*p) for p in parts}) == len(parts)
    assert digest(b"ab") == digest("ab")


def test_same_name_with_different_sources_makes_different_entries(lab: Lab) -> None:
    lab.build(1)
    lab.detail.write_text(lab.detail.read_text().replace("1.0", "3.0"))
    lab.build(1)
    objects = [read_entry(p) for p in lab.entries("objects")]
    assert len({e.label for e in objects if e}) == 1
    assert len({e.name for e in objects if e}) == 2
