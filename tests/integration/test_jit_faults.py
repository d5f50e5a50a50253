"""The cache of compiled kernels: damage, failures, and many users at once.

Each test is named after one way in which caches of compiled code have failed elsewhere.
"""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from jit_lab import Lab, flip, in_child
from stub_kernels import kernel_count, keys

from ckdisp.codegen.errors import BuildError
from ckdisp.jit import build as build_module
from ckdisp.jit import cache
from ckdisp.jit import store as store_module
from ckdisp.jit.build import Options, build_library
from ckdisp.jit.digest import digest
from ckdisp.jit.headers import Headers
from ckdisp.jit.locks import building
from ckdisp.jit.store import Store

# The children that are forked here only build and exit; newer Pythons warn of threads nevertheless.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


# Damage, failure, and what is left behind.


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE: dict[str, Callable[[Path], None]] = {
    "truncated": truncate,
    "one bit": flip,
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir())[0],  # type: ignore[func-returns-value]
}


@pytest.mark.parametrize("what", ["*.so", "entry.json"])
@pytest.mark.parametrize("how", list(DAMAGE))
def test_a_damaged_library_is_built_again(lab: Lab, what: str, how: str) -> None:
    first = lab.build()
    path = next(lab.entries("libraries")[0].glob(what))
    DAMAGE[how](path)
    lab.compiled()
    again = lab.build()
    assert again == first
    assert kernel_count(again) == 2
    assert lab.compiled() == 0  # the objects were whole
    assert cache.verify() == []


@pytest.mark.parametrize("how", list(DAMAGE))
def test_a_damaged_object_is_built_again(lab: Lab, how: str) -> None:
    lab.build(2)
    damaged = lab.entries("objects")[0]
    DAMAGE[how](next(damaged.glob("*.o")))
    lab.compiled()
    assert kernel_count(lab.build(3)) == 3
    assert lab.compiled() == 2
    assert cache.verify() == []


def test_an_artefact_of_another_entry_is_noticed(lab: Lab) -> None:
    lab.build(2)
    one, two = lab.entries("objects")
    shutil.copy(next(one.glob("*.o")), next(two.glob("*.o")))
    shutil.copy(one / "entry.json", two / "entry.json")
    lab.compiled()
    lab.build(3)
    assert lab.compiled() == 2


def test_a_failing_compiler_publishes_nothing_and_does_not_stick(lab: Lab) -> None:
    (lab.compiler.folder / "fail").touch()
    with pytest.raises(BuildError, match="the fake compiler was told to fail"):
        lab.build()
    assert lab.entries("objects") == lab.entries("libraries") == []
    assert list((lab.root / "staging").iterdir()) == []
    with pytest.raises(BuildError):
        lab.build()
    (lab.compiler.folder / "fail").unlink()
    assert kernel_count(lab.build()) == 2


def test_what_compiled_before_a_failure_is_kept(lab: Lab) -> None:
    lab.build(1)
    (lab.compiler.folder / "fail").touch()
    with pytest.raises(BuildError):
        lab.build(2)
    (lab.compiler.folder / "fail").unlink()
    lab.compiled()
    lab.build(2)
    assert lab.compiled() == 1


def test_the_command_in_the_message_repeats_the_failure(lab: Lab) -> None:
    (lab.compiler.folder / "fail").touch()
    with pytest.raises(BuildError) as caught:
        lab.build(1)
    text = str(caught.value)
    assert text.startswith(f"compilation of {keys(1)[0].name} failed: units/")
    command = next(line for line in text.splitlines() if line.startswith("repeat it with: "))
    command = command.removeprefix("repeat it with: ")
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 1 and "told to fail" in done.stderr
    (lab.compiler.folder / "fail").unlink()
    assert subprocess.run(command, shell=True, capture_output=True).returncode == 0


def test_failing_to_clean_up_is_only_a_warning(lab: Lab) -> None:
    remove = shutil.rmtree

    def busy(path: object, *args: object, **options: object) -> None:
        if lab.root in Path(str(path)).parents:
            raise OSError(16, "Device or resource busy")
        remove(str(path), *args, **options)  # type: ignore[call-overload]

    lab.monkeypatch.setattr(store_module.shutil, "rmtree", busy)
    with pytest.warns(RuntimeWarning, match=r"cannot remove .*busy"):
        library = lab.build()
    assert kernel_count(library) == 2


def test_a_file_system_that_cannot_rename_folders(lab: Lab) -> None:
    rename = os.rename

    def rename_near(source: Path, target: Path) -> None:
        if Path(source).parent != Path(target).parent:
            raise OSError(18, "Invalid cross-device link")
        rename(source, target)

    lab.monkeypatch.setattr(store_module.os, "rename", rename_near)
    first = lab.build()
    assert first.is_relative_to(lab.root / "libraries")
    lab.compiled()
    assert lab.build() == first
    assert lab.compiled() == 0
    assert cache.verify() == []


def test_a_publisher_that_cannot_see_the_winner_uses_its_own_copy(lab: Lab) -> None:
    # On a network file system a look-up may go on missing what another machine published.
    lab.monkeypatch.setattr(store_module, "_move", lambda *arguments: None)
    library = lab.build()
    assert library.is_relative_to(lab.root / "staging")
    assert kernel_count(library) == 2


def test_a_store_that_cannot_take_an_entry_is_a_warning(lab: Lab) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    lab.monkeypatch.setattr(store_module, "_move", full)
    with pytest.warns(RuntimeWarning, match=r"could not be kept .*No space left"):
        assert kernel_count(lab.build(1)) == 1


def test_a_library_in_use_is_never_replaced_in_place(lab: Lab) -> None:
    library = lab.build()
    with library.open("rb") as loaded:
        flip(library)
        inode = os.fstat(loaded.fileno()).st_ino
        damaged = loaded.read()
        again = lab.build()
        assert again == library
        assert again.stat().st_ino != inode
        loaded.seek(0)
        assert loaded.read() == damaged  # whoever had it loaded keeps what was loaded


def test_the_time_limit_stops_the_compilers(lab: Lab) -> None:
    (lab.compiler.folder / "hang").touch()
    start = time.monotonic()
    with pytest.raises(BuildError, match=r"did not end within 0\.5 s"):
        lab.build(timeout=0.5)
    assert time.monotonic() - start < 60
    assert lab.entries("libraries") == []
    (lab.compiler.folder / "hang").unlink()
    assert kernel_count(lab.build()) == 2


# Many at once.


def test_many_threads_build_once(lab: Lab) -> None:
    barrier = threading.Barrier(32)

    def first_call() -> Path:
        barrier.wait()
        return lab.build()

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        futures = [pool.submit(first_call) for _ in range(32)]
        libraries = {f.result() for f in futures}
    assert len(libraries) == 1
    assert lab.compiled() == 2


def test_many_processes_build_once(lab: Lab) -> None:
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if kernel_count(lab.build()) == 2 else 1)
            finally:
                os._exit(2)
        children.append(child)
    assert [os.waitpid(c, 0)[1] for c in children] == [0] * 4
    assert lab.compiled() == 2


def test_locks_only_save_work(lab: Lab) -> None:
    """Without any lock two builders may both compile; both get a whole library."""
    lab.monkeypatch.setattr(build_module, "building", lambda *a: threading.Lock())
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        libraries = [f.result() for f in [pool.submit(lab.build) for _ in range(4)]]
    assert all(kernel_count(library) == 2 for library in libraries)
    assert cache.verify() == []


def test_a_lock_ends_with_its_process_and_names_none(tmp_path: Path) -> None:
    def die_holding() -> None:
        building(tmp_path, "a" * 64).__enter__()
        os._exit(7)

    assert in_child(die_holding) == 7
    with building(tmp_path, "a" * 64):
        locks = list((tmp_path / "locks").iterdir())
        assert [p.name for p in locks] == [f"{'a' * 32}.lock"]
        assert locks[0].read_bytes() == b""


def test_readers_never_see_a_part_of_an_entry(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    headers = Headers([], {})
    key = digest("k")
    content = os.urandom(200_000)
    stop = threading.Event()
    seen: list[bool] = []

    def read() -> None:
        while not stop.is_set():
            found = store.find("libraries", key, "context", headers)
            if found is not None:
                try:
                    seen.append(found.read_bytes() == content)
                except FileNotFoundError:
                    continue  # pruned in between

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(30):
        with store.staging() as staging:
            source = staging.folder / "lib.so"
            source.write_bytes(content)
            store.publish(
                staging, "libraries", key, source, label="x", context="context", headers=[]
            )
        cache.prune(max_bytes=0, cache_dir=store.root)
    stop.set()
    for reader in readers:
        reader.join()
    assert all(seen)


def test_every_subset_of_archs_links(lab: Lab) -> None:
    levels = ("generic", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx")
    for chosen in range(1, 1 << len(levels)):
        subset = [level for i, level in enumerate(levels) if chosen >> i & 1]
        kernels = [key for level in subset for key in keys(1, arch=level)]
        library = build_library(kernels, Options(progress=False))
        assert kernel_count(library) == len(subset)
    assert lab.compiled() == len(levels)


def test_headers_behind_a_link_are_known_by_their_place_below_the_folder(tmp_path: Path) -> None:
    """A ROCm may hold CK's headers as a link; the cache must not depend on where that leads."""
    (tmp_path / "ck" / "tile").mkdir(parents=True)
    (tmp_path / "ck" / "tile" / "gemm.hpp").write_text("gemm")
    (tmp_path / "rocm").mkdir()
    (tmp_path / "rocm" / "tile").symlink_to(tmp_path / "ck" / "tile")
    headers = Headers([], {"hip": [str(tmp_path / "rocm")]})
    ((path, whose, contents),) = headers.listing([f"{tmp_path}/rocm/tile/gemm.hpp"], "hip")
    assert (path, whose, len(contents)) == ("tile/gemm.hpp", "hip", 1)
    moved = Headers([], {"hip": [str(tmp_path / "ck")]})
    assert moved.matches([(path, whose, contents)])
    (tmp_path / "ck" / "tile" / "gemm.hpp").write_text("changed")
    changed = Headers([], {"hip": [str(tmp_path / "rocm")]})
    assert not changed.matches([(path, whose, contents)])
