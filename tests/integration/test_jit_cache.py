"""The cache of compiled kernels: what is reused, what is built again, and what nobody can break.

Each test is named after one way in which caches of compiled code have failed elsewhere.
"""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from stub_kernels import FakeCompiler, kernel_count, keys, snapshot, write_headers

from ckdisp.codegen import toolchain as toolchain_module
from ckdisp.codegen.errors import BuildError, InvalidKey
from ckdisp.codegen.toolchain import Toolchain
from ckdisp.jit import build as build_module
from ckdisp.jit import cache, location
from ckdisp.jit import store as store_module
from ckdisp.jit.build import Options, build_library
from ckdisp.jit.digest import digest
from ckdisp.jit.headers import Headers
from ckdisp.jit.locks import building
from ckdisp.jit.store import Store, read_entry

# The children that are forked here only build and exit; newer Pythons warn of threads nevertheless.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


class Lab:
    """A cache, headers and a compiler that counts, all of one test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.root = folder / "cache dir"
        self.compiler = FakeCompiler(folder / "bin")
        self.use_headers(write_headers(folder / "headers"))
        monkeypatch.setenv("CXX", str(self.compiler.path))
        monkeypatch.setenv("CKDISP_CACHE_DIR", str(self.root))
        for name in ("CKDISP_CXXFLAGS", "CKDISP_COMPILER_LAUNCHER", "CPATH"):
            monkeypatch.delenv(name, raising=False)

    def use_headers(self, folders: list[Path]) -> None:
        self.headers = folders
        self.detail = folders[1] / "providers" / "cpu" / "detail.hpp"
        self.monkeypatch.setattr(build_module, "own_include_dirs", lambda: folders)
        self.monkeypatch.setattr(build_module, "missing_headers", dict)

    def build(self, count: int = 2, first: int = 0, **options: object) -> Path:
        options = {"progress": False, **options}
        return build_library(keys(count, first), Options(**options))  # type: ignore[arg-type]

    def compiled(self) -> int:
        return self.compiler.compiled()

    def entries(self, kind: str) -> list[Path]:
        return sorted(p.parent for p in (self.root / kind).rglob("entry.json"))


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


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


# Damage, failure, and what is left behind.


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


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


def in_child(action: Callable[[], object]) -> int:
    """Exit code of ``action`` in a forked process: 0, or 1 if it raised."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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
    headers = Headers([], [])
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
    levels = ("generic", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16")
    for chosen in range(1, 1 << len(levels)):
        subset = [level for i, level in enumerate(levels) if chosen >> i & 1]
        kernels = [key for level in subset for key in keys(1, arch=level)]
        library = build_library(kernels, Options(progress=False))
        assert kernel_count(library) == len(subset)
    assert lab.compiled() == len(levels)


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
        def submit(self, function, command, *rest):  # type: ignore[no-untyped-def]
            return super().submit(function, ["/nowhere/c++", *command[1:]], *rest)

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
