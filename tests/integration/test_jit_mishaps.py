"""The cache of compiled kernels: faults of machines, compilers that lie, removals in between."""

from __future__ import annotations

import concurrent.futures
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from jit_lab import Lab, in_child
from stub_kernels import kernel_count, keys

from ckdisp import LibraryError
from ckdisp.codegen.build import build
from ckdisp.codegen.errors import BuildError
from ckdisp.codegen.generate import generate
from ckdisp.codegen.toolchain import Toolchain
from ckdisp.jit import build as build_module
from ckdisp.jit import cache, locks
from ckdisp.jit import store as store_module
from ckdisp.jit import whole as whole_module
from ckdisp.jit.build import Options, build_and_load
from ckdisp.jit.store import Store

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Probes.


def refuse(lab: Lab, text: str, code: int = 1) -> Path:
    """Let the compiler refuse -fopenmp with ``text`` while the returned file is there."""
    flag = lab.compiler.folder / "refuse"
    flag.touch()
    old = lab.compiler.path.read_text()
    answer = f"echo '{text}' >&2; exit {code}"
    check = f"""[ -e '{flag}' ] && case "$*" in *-fopenmp*probe.cpp*) {answer};; esac"""
    lab.compiler.path.write_text(old.replace("#!/bin/sh\n", f"#!/bin/sh\n{check}\n"))
    return flag


def test_a_passing_failure_of_a_probe_is_not_kept(lab: Lab) -> None:
    flag = refuse(lab, "fork: Resource temporarily unavailable")
    with pytest.raises(BuildError, match=r"cannot find out whether .* takes -fopenmp"):
        lab.build()
    assert not (lab.root / "compilers").exists()
    flag.unlink()
    assert kernel_count(lab.build()) == 2
    (answers,) = (lab.root / "compilers").iterdir()
    assert json.loads(answers.read_text()) == {"-fopenmp": True}


def test_a_build_without_openmp_says_so_once(lab: Lab, recwarn: pytest.WarningsRecorder) -> None:
    refuse(lab, "error: unrecognized option")
    with pytest.warns(RuntimeWarning, match="-fopenmp: built kernels use one thread.*cache clear"):
        lab.build()
    assert kernel_count(lab.build()) == 2  # warnings are errors here: the hit says nothing


# Compilers that report success.


@pytest.mark.parametrize("words", ["-c units", "-soname"])
def test_what_is_cut_off_is_not_published(lab: Lab, words: str) -> None:
    (lab.compiler.folder / "break").write_text(words)
    with pytest.raises(
        BuildError, match=r"reported success, but the file is of no use: .*truncated"
    ):
        lab.build()
    assert lab.entries("libraries") == []
    assert len(lab.entries("objects")) == (0 if "units" in words else 2)
    assert cache.verify() == []
    (lab.compiler.folder / "break").unlink()
    assert kernel_count(lab.build()) == 2


def test_what_was_cut_off_once_is_made_again(lab: Lab) -> None:
    (lab.compiler.folder / "break").write_text("-c units")
    lab.monkeypatch.setattr(
        build_module.FailedBuild,
        "drop",
        lambda self, cxx: (lab.compiler.folder / "break").unlink() or True,
    )
    assert kernel_count(lab.build()) == 2
    assert list((lab.root / "failed").glob("*")) == []


def keep_everything(lab: Lab) -> None:
    """Publish as older versions did: whatever there is."""
    lab.monkeypatch.setattr(build_module, "step_fault", lambda path, step: "")
    lab.monkeypatch.setattr(build_module, "library_fault", lambda path, names: "")


def test_broken_parts_that_are_cached_are_found_and_made_again(lab: Lab) -> None:
    with lab.monkeypatch.context() as patch:
        lab.monkeypatch, monkeypatch = patch, lab.monkeypatch
        keep_everything(lab)
        (lab.compiler.folder / "break").write_text("-c units")
        with pytest.raises(BuildError, match="link of"):
            lab.build(2)
        lab.monkeypatch = monkeypatch
    (lab.compiler.folder / "break").unlink()
    assert {e.kind for e in cache.verify()} == {"objects"}
    lab.build(4, first=2)
    lab.compiled()
    assert kernel_count(lab.build(4)) == 4
    assert lab.compiled() == 2
    assert cache.verify() == []


def test_a_library_that_cannot_be_loaded_is_found_and_made_again(lab: Lab) -> None:
    with lab.monkeypatch.context() as patch:
        lab.monkeypatch, monkeypatch = patch, lab.monkeypatch
        keep_everything(lab)
        (lab.compiler.folder / "break").write_text("-soname")
        broken = lab.build()
        lab.monkeypatch = monkeypatch
    (lab.compiler.folder / "break").unlink()
    assert [e.kind for e in cache.verify()] == ["libraries"]

    def load(path: Path) -> int:
        if fault := whole_module.library_fault(path, [key.name for key in keys(2)]):
            raise LibraryError(fault)
        return kernel_count(path)

    assert lab.build() == broken
    assert build_and_load(keys(2), Options(progress=False), load) == 2
    assert cache.verify() == []


def test_a_library_that_ends_its_process_is_not_published(lab: Lab) -> None:
    text = "[[gnu::constructor, gnu::used]] static void end() { __builtin_trap(); }\n"
    lab.detail.write_text(lab.detail.read_text() + text)
    with pytest.raises(BuildError, match=r"loading it ended a process with status -"):
        lab.build()
    assert lab.entries("libraries") == []


def test_a_link_that_cannot_work_drops_no_objects(lab: Lab) -> None:
    lab.build(2)
    lab.compiled()
    real = lab.compiler.path.read_text()
    lab.compiler.path.write_text(
        real.replace('echo "link" >>', 'echo "ld: error: no" >&2; exit 1;')
    )
    os.utime(lab.compiler.path, (1, 1))
    lab.monkeypatch.setattr(Toolchain, "identity", lambda self: "the same")
    lab.monkeypatch.setattr(Toolchain, "links", lambda self: False)
    for _ in range(2):
        with pytest.raises(BuildError, match=r"link of .*ld: error: no"):
            lab.build(3)
    assert lab.compiled() == 3
    assert len(cache.ls()) == 2 + 1 + 3  # the first compiler's, and the second one's objects


@pytest.mark.parametrize("what", ["a program", "not ELF", "another machine", "no sections"])
def test_objects_that_are_not_whole(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x.o"
    data = bytearray(Path(sys.executable).resolve().read_bytes())
    if what == "not ELF":
        data[:4] = b"text"
    elif what == "another machine":
        data[18:20] = b"\x08\x00"
    elif what == "no sections":
        data[60:62] = b"\0\0"
    path.write_bytes(data)
    assert bool(whole_module.object_fault(path)) == (what != "a program")
    path.write_bytes(data[:-1])
    assert whole_module.object_fault(path)


# Locks.


@pytest.fixture
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", missing)


def test_without_locks_builds_go_on(lab: Lab, request: pytest.FixtureRequest) -> None:
    lab.build()
    (lock,) = (lab.root / "locks").iterdir()
    lock.write_text("999999\nanother-host\n")  # as of a process in another container
    shutil.rmtree(lab.root / "libraries")
    request.getfixturevalue("no_flock")
    lab.monkeypatch.setattr(locks, "_WAIT_SECONDS", 1e9)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        libraries = [f.result() for f in [pool.submit(lab.build) for _ in range(2)]]
    assert [kernel_count(library) for library in libraries] == [2, 2]
    assert list((lab.root / "staging").iterdir()) == []


def test_a_marker_of_a_dead_process_is_no_lock(lab: Lab, no_flock: None) -> None:
    out = lab.folder / "out"
    toolchain = Toolchain.find(str(lab.compiler.path))
    generate(keys(1), out, "ninja", toolchain=toolchain, include_dirs=lab.headers, name="mine")
    (out / ".ckdisp.build.lock").write_text("999999\nanother-host\n")
    assert kernel_count(build(out, timeout=100)) == 1


# Removals in between.


def building(lab: Lab, pool: concurrent.futures.Executor) -> concurrent.futures.Future[Path]:
    """A build that has begun to compile, and waits."""
    (lab.compiler.folder / "wait").touch()
    future = pool.submit(lab.build)
    until(lambda: "compile units/" in lab.compiler.log.read_text())
    return future


def go_on(lab: Lab) -> None:
    (lab.compiler.folder / "wait").unlink()


def test_clear_leaves_a_build_alone(lab: Lab) -> None:
    lab.build(1)
    lab.compiled()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = building(lab, pool)
        stats = cache.clear()
        assert (stats.objects, stats.building) == (1, 1)
        assert len(list((lab.root / "staging").iterdir())) == 1
        go_on(lab)
        library = future.result()
    assert kernel_count(library) == 2 and library.is_relative_to(lab.root)
    assert lab.compiled() == 1  # the other object was taken before it was deleted
    assert cache.verify() == [] and cache.clear().building == 0
    assert list(lab.root.iterdir()) == []


@pytest.mark.parametrize("how", ["prune", "another build"])
def test_a_build_is_left_alone_however_old_it_is(lab: Lab, how: str) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = building(lab, pool)
        for folder in (lab.root / "staging").iterdir():
            os.utime(folder, (1, 1))
        if how == "prune":
            cache.prune()
        else:
            with Store(lab.root).staging():
                pass
        go_on(lab)
        assert kernel_count(future.result()) == 2


def test_what_a_killed_build_left_goes_at_once(lab: Lab) -> None:
    lab.build(1)

    def die() -> None:
        with Store(lab.root).staging():
            os._exit(9)

    assert in_child(die) == 9
    assert len(list((lab.root / "staging").iterdir())) == 1
    cache.prune()
    assert list((lab.root / "staging").iterdir()) == []


def test_without_locks_a_folder_is_left_alone_for_a_week(lab: Lab, no_flock: None) -> None:
    with Store(lab.root).staging() as staging:
        for days, stays in ((6, True), (8, False)):
            then = time.time() - days * 86400
            os.utime(staging.folder, (then, then))
            cache.prune()
            assert staging.folder.exists() == stays


def test_a_folder_that_is_removed_is_made_again(lab: Lab) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = building(lab, pool)
        shutil.rmtree(lab.root)
        go_on(lab)
        assert kernel_count(future.result()) == 2
    assert cache.verify() == []


def test_a_folder_that_is_removed_again_and_again_is_said(lab: Lab) -> None:
    (lab.compiler.folder / "remove").write_text(str(lab.root))
    with pytest.raises(BuildError, match=f"{lab.root} were removed while kernels were being built"):
        lab.build()


@pytest.mark.parametrize("prefix", ["build-", "entry-"])
@pytest.mark.parametrize("code", [errno.ESTALE, errno.ENOENT])
def test_a_stale_handle_is_tried_again(lab: Lab, prefix: str, code: int) -> None:
    real, failed = store_module.tempfile.mkdtemp, []

    def stale(*arguments: object, **options: object) -> str:
        if options.get("prefix") == prefix and len(failed) < 2:
            failed.append(prefix)
            raise OSError(code, os.strerror(code))
        return str(real(*arguments, **options))  # type: ignore[call-overload]

    lab.monkeypatch.setattr(store_module.tempfile, "mkdtemp", stale)
    library = lab.build()
    assert library.is_relative_to(lab.root / "libraries") and len(failed) == 2


# Trust.


@pytest.mark.parametrize("mode", [0o020, 0o002])
@pytest.mark.parametrize(
    "what", [".", "libraries", "staging", "include", "libraries/*/*/*", "libraries/*/*/*/*.so"]
)
def test_what_others_can_write_is_refused(lab: Lab, what: str, mode: int) -> None:
    lab.build(1)
    path = next(lab.root.glob(what)) if "*" in what else lab.root / what
    path.mkdir(exist_ok=True, mode=0o755) if what == "include" else None
    path.chmod(path.stat().st_mode | mode)
    who = "its group" if mode == 0o020 else "everyone"
    with pytest.raises(
        BuildError, match=rf"{who} can write in .*chmod -R go-w .*CKDISP_CACHE_SHARED"
    ):
        lab.build(1)
    lab.monkeypatch.setenv("CKDISP_CACHE_SHARED", "1")
    if mode == 0o020:
        assert kernel_count(lab.build(1)) == 1
    else:
        with pytest.raises(BuildError, match="everyone can write"):
            lab.build(1)


def test_a_shared_cache_is_open_to_its_group(lab: Lab) -> None:
    lab.monkeypatch.setenv("CKDISP_CACHE_SHARED", "1")
    lab.root.mkdir()
    lab.root.chmod(0o2770)
    lab.build(1)
    folders = [p for p in lab.root.rglob("*") if p.is_dir() and "staging/" not in str(p)]
    assert folders and all(p.stat().st_mode & 0o022 == 0o020 for p in folders)
    assert cache.verify() == []


def test_nobody_else_can_write_whatever_the_umask(lab: Lab) -> None:
    old = os.umask(0)
    try:
        lab.build(1)
    finally:
        os.umask(old)
    assert [p for p in (lab.root, *lab.root.rglob("*")) if p.stat().st_mode & 0o022] == []
    lab.build(1)


# Orphans.

BUILD = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
sys.path[:0] = sys.argv[1].split("|")
from stub_kernels import keys
from ckdisp.jit import build
build.own_include_dirs = lambda: [Path(p) for p in sys.argv[2].split("|")]
build.missing_headers = dict
pool = ThreadPoolExecutor(2) if sys.argv[3] == "executor" else None
action = lambda: build.build_library(keys(2), build.Options(progress=False, executor=pool))
if sys.argv[3] == "thread":
    thread = threading.Thread(target=action)
    thread.start()
    thread.join()
else:
    action()
"""


def running(lab: Lab) -> bool:
    found = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True).stdout
    return str(lab.compiler.path) in found


@pytest.mark.parametrize("where", ["main", "thread", "executor"])
def test_compilers_end_with_a_build_that_is_killed(lab: Lab, where: str) -> None:
    (lab.compiler.folder / "hang").touch()
    paths = "|".join(p for p in sys.path if p)
    command = [sys.executable, "-c", BUILD, paths, "|".join(map(str, lab.headers)), where]
    with subprocess.Popen(command) as process:
        until(lambda: "compile units/" in lab.compiler.log.read_text())
        assert running(lab)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    until(lambda: not running(lab), 60)
    (lab.compiler.folder / "hang").unlink()
    assert kernel_count(lab.build()) == 2
    assert threading.active_count() >= 1
