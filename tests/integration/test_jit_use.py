"""The cache of compiled kernels: executors, progress, its folder, and looking after it.

Each test is named after one way in which caches of compiled code have failed elsewhere.
"""

from __future__ import annotations

import concurrent.futures
import os
import stat
import time
from pathlib import Path

import pytest
from jit_lab import Lab, flip, in_child
from stub_kernels import kernel_count, keys, snapshot

from ckdisp.codegen import toolchain as toolchain_module
from ckdisp.codegen.errors import BuildError, InvalidKey
from ckdisp.codegen.toolchain import Toolchain
from ckdisp.jit import cache, location
from ckdisp.jit import store as store_module

# The children that are forked here only build and exit; newer Pythons warn of threads nevertheless.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


# Executors, progress.


def test_an_executor_runs_the_compilers(lab: Lab) -> None:
    seen: list[tuple[int, int, str]] = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        library = lab.build(3, executor=pool, progress=lambda *a: seen.append(a))
        assert kernel_count(library) == 3
        assert lab.compiled() == 3
        assert [s[:2] for s in seen] == [(1, 3), (2, 3), (3, 3)]
        assert {s[2] for s in seen} == {k.name for k in keys(3)}
        lab.detail.write_text(lab.detail.read_text().replace("1.0", "2.0"))
        (lab.compiler.folder / "fail").touch()
        with pytest.raises(BuildError, match="the fake compiler was told to fail"):
            lab.build(3, executor=pool)
    (lab.compiler.folder / "fail").unlink()
    assert kernel_count(lab.build(3)) == 3


def test_an_executor_without_a_compiler_on_the_other_side(lab: Lab) -> None:
    class Far(concurrent.futures.ThreadPoolExecutor):
        def submit(self, function, commands, *rest):  # type: ignore[no-untyped-def]
            elsewhere = [["/nowhere/c++", *command[1:]] for command in commands]
            return super().submit(function, elsewhere, *rest)

    with Far(1) as pool, pytest.raises(BuildError, match="cannot run /nowhere/c"):
        lab.build(1, executor=pool)


def test_progress_is_a_few_lines_when_not_on_a_terminal(
    lab: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    lab.build(2, progress=True)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == "ckdisp: building 2 kernels"
    assert lines[-1].startswith("ckdisp: built in ")
    assert len(lines) == 2
    lab.build(3, progress=True)
    assert capfd.readouterr().err.startswith("ckdisp: building 1 kernels (2 cached)")
    lab.build(3, progress=True)
    lab.build(4, progress=False)
    assert capfd.readouterr() == ("", "")


def test_progress_calls_back_for_every_step(lab: Lab) -> None:
    seen: list[tuple[int, int, str]] = []
    lab.build(2, progress=lambda *a: seen.append(a))
    assert [s[0] for s in seen] == [1, 2, 3, 4]
    assert {s[1] for s in seen} == {4}
    assert {k.name for k in keys(2)} < {s[2] for s in seen}


def test_wrong_sets_are_refused_first(lab: Lab) -> None:
    with pytest.raises(InvalidKey, match="empty"):
        lab.build(0)
    assert not lab.root.exists()


# Where the cache lies.


def test_a_machine_without_a_compiler_uses_what_is_there_and_writes_nothing(lab: Lab) -> None:
    first = lab.build()
    lab.monkeypatch.setenv("CXX", "")
    lab.monkeypatch.setenv("PATH", "/nowhere")
    before = snapshot(lab.root)
    assert lab.build() == first
    assert snapshot(lab.root) == before
    with pytest.raises(BuildError) as caught:
        lab.build(3)
    for part in ("no usable C++ compiler", "does not hold these kernels", str(lab.root)):
        assert part in str(caught.value)
    assert snapshot(lab.root) == before
    lab.detail.write_text(lab.detail.read_text().replace("1.0", "2.0"))
    with pytest.raises(BuildError, match="does not hold these kernels"):
        lab.build()


def test_a_read_only_cache_serves_hits_and_explains_misses(lab: Lab) -> None:
    first = lab.build()
    lab.build(3)  # so that everything needed below is imported
    for path in (lab.folder, *lab.folder.parents):
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
        if path.name.startswith("pytest-of-"):
            break
    before = snapshot(lab.root)

    def as_nobody() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
        assert lab.build() == first
        with pytest.raises(
            BuildError, match=r"cannot write to the kernel cache .*CKDISP_CACHE_DIR"
        ):
            lab.build(5)

    modes = {p: p.stat().st_mode for p in (lab.root, *lab.root.rglob("*")) if p.is_dir()}
    for path in modes:
        path.chmod(0o555)
    try:
        assert in_child(as_nobody) == 0
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert snapshot(lab.root) == before


def test_the_cache_is_private(lab: Lab) -> None:
    old = os.umask(0)
    try:
        lab.build(1)
    finally:
        os.umask(old)
    assert stat.S_IMODE(lab.root.stat().st_mode) == 0o700


def test_a_cache_of_someone_else_is_refused(lab: Lab) -> None:
    lab.build(1)
    stranger = os.geteuid() + 12345
    real = os.stat

    def stat_of_stranger(path: object, *args: object, **options: object) -> object:
        facts = real(path, *args, **options)  # type: ignore[arg-type]
        if path == lab.root:
            return os.stat_result((*facts[:4], stranger, *facts[5:]))
        return facts

    lab.monkeypatch.setattr(location.os, "stat", stat_of_stranger)
    with pytest.raises(BuildError, match=f"belongs to user id {stranger}.*CKDISP_CACHE_DIR"):
        lab.build(1)
    with pytest.raises(BuildError, match="belongs to user id"):
        cache.ls()


def test_a_cache_that_everyone_can_write_is_refused(lab: Lab) -> None:
    lab.root.mkdir()
    lab.root.chmod(0o777)
    with pytest.raises(BuildError, match=r"everyone can write .*chmod o-w"):
        lab.build(1)
    assert list(lab.root.iterdir()) == []


def test_a_file_in_place_of_the_cache(lab: Lab) -> None:
    lab.root.touch()
    with pytest.raises(BuildError, match="is not a folder"):
        lab.build(1)


@pytest.mark.parametrize(
    ("value", "text"),
    [(":/tmp/x", "looks like a list"), ("/tmp/x:", "looks like a list"), ("a\nb", "line break")],
)
def test_odd_values_that_cannot_be_a_folder(lab: Lab, value: str, text: str) -> None:
    lab.monkeypatch.setenv("CKDISP_CACHE_DIR", value)
    with pytest.raises(BuildError, match=text):
        lab.build(1)


def test_odd_values_that_can(lab: Lab) -> None:
    lab.monkeypatch.chdir(lab.folder)
    lab.monkeypatch.setenv("HOME", str(lab.folder / "home"))
    lab.monkeypatch.setenv("XDG_CACHE_HOME", str(lab.folder / "xdg"))
    expected = {
        "": lab.folder / "xdg" / "ckdisp",
        "  ": lab.folder / "xdg" / "ckdisp",
        "relative/x": lab.folder / "relative" / "x",
        "~/x": lab.folder / "home" / "x",
        "/a b:c'd": Path("/a b:c'd"),
    }
    for value, folder in expected.items():
        lab.monkeypatch.setenv("CKDISP_CACHE_DIR", value)
        assert location.cache_dir() == folder
    lab.monkeypatch.delenv("CKDISP_CACHE_DIR")
    assert location.cache_dir() == lab.folder / "xdg" / "ckdisp"


def test_a_cache_folder_with_odd_characters(lab: Lab) -> None:
    root = lab.folder / "c $x:y 'q' #% é"
    library = lab.build(2, cache_dir=root)
    assert kernel_count(library) == 2
    lab.compiled()
    assert kernel_count(lab.build(3, cache_dir=root)) == 3
    assert lab.compiled() == 1


def test_a_full_disk(lab: Lab) -> None:
    lab.build(1)

    def full(*args: object, **options: object) -> str:
        raise OSError(28, "No space left on device")

    lab.monkeypatch.setattr(store_module.tempfile, "mkdtemp", full)
    with pytest.raises(BuildError, match=r"No space left on device.*CKDISP_CACHE_DIR"):
        lab.build(2)


def test_a_full_folder_for_temporary_files(lab: Lab) -> None:
    lab.monkeypatch.setattr("tempfile.tempdir", "/proc")
    with pytest.raises(BuildError, match=r"folder for temporary files: .*set TMPDIR"):
        lab.build(1)


# Looking after it.


def test_list_count_verify(lab: Lab) -> None:
    assert cache.ls() == [] and cache.stats().size == 0
    lab.build(2)
    entries = cache.ls()
    assert [e.kind for e in entries] == ["libraries", "objects", "objects"]
    assert [e.label for e in entries[1:]] == sorted(k.name for k in keys(2))
    stats = cache.stats()
    assert (stats.root, stats.objects, stats.libraries) == (lab.root, 2, 1)
    assert stats.size >= sum(e.size for e in entries)
    flip(next(entries[1].folder.glob("*.o")))
    assert [e.folder for e in cache.verify()] == [entries[1].folder]
    assert [e.folder for e in cache.verify(remove=True)] == [entries[1].folder]
    assert cache.verify() == [] and len(cache.ls()) == 2


def test_prune_takes_the_oldest_first(lab: Lab) -> None:
    lab.build(2)
    entries = cache.ls()
    now = time.time()
    for i, entry in enumerate(entries):
        os.utime(entry.folder, (now - 10 * 86400 * i, now - 10 * 86400 * i))
    assert [e.label for e in cache.prune(max_age=15 * 86400)] == [entries[2].label]
    keep = entries[0].size + entries[1].size - 1
    assert [e.label for e in cache.prune(max_bytes=keep)] == [entries[1].label]
    assert [e.folder for e in cache.ls()] == [entries[0].folder]


def test_use_keeps_an_entry_young(lab: Lab) -> None:
    lab.build(1)
    library = lab.entries("libraries")[0]
    os.utime(library, (1, 1))
    lab.build(1)
    assert time.time() - library.stat().st_mtime < 3600
    assert lab.entries("libraries") == [library]


def test_prune_removes_what_failed_and_killed_builds_left(lab: Lab) -> None:
    (lab.compiler.folder / "fail").touch()
    with pytest.raises(BuildError):
        lab.build(1)
    old, new = lab.root / "staging" / "build-old", lab.root / "staging" / "build-new"
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (1, 1))
    assert cache.prune() == []
    assert list((lab.root / "failed").iterdir()) == []
    assert not old.exists() and new.exists()


def test_clear_leaves_what_is_not_ours(lab: Lab) -> None:
    lab.build(1)
    (lab.root / "notes.txt").write_text("mine")
    assert cache.clear().objects == 1
    assert [p.name for p in lab.root.iterdir()] == ["notes.txt"]
    assert cache.stats().size == 0
    lab.compiled()
    lab.build(1)
    assert lab.compiled() == 1


def test_the_probe_of_a_compiler_is_kept_with_its_content(lab: Lab) -> None:
    asked = []
    real = Toolchain.accepts
    lab.monkeypatch.setattr(
        Toolchain, "accepts", lambda self, flag: asked.append(flag) or real(self, flag)
    )
    lab.build(1)
    toolchain_module._accepts.cache_clear()
    lab.build(1)
    assert asked == ["-fopenmp"]
    next((lab.root / "compilers").iterdir()).write_text("{damaged")
    lab.build(1)
    assert asked == ["-fopenmp"] * 2
