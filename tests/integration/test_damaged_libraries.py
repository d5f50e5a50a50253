"""Random bytes inside a library, and what tools rightly change in one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from jit_lab import flip
from stub_kernels import FakeCompiler, keys, write_headers

import ckdisp
from ckdisp.codegen.build import build
from ckdisp.codegen.generate import generate
from ckdisp.codegen.seal import MAGIC, NotSealable, is_sealed, main, seal
from ckdisp.codegen.toolchain import Toolchain

PREBUILT = sorted((Path(ckdisp.__file__).parent / "prebuilt").glob("*.so"))

# Loads LIBRARY with COUNT changes, each in a child of its own, and prints how the children ended.
FUZZ = """
import collections, os, random, sys
import ckdisp
source, folder, count, seed, share = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
data = open(source, "rb").read()
draw = random.Random(seed)
ends = collections.Counter()
for i in range(int(count)):
    changed = bytearray(data)
    first = draw.randrange(int(len(data) * share))
    for _ in range(draw.choice([1, 1, 4, 64])):
        at = min(first + draw.randrange(64), len(data) - 1)
        changed[at] = draw.randrange(256)
    path = f"{folder}/{i}.so"
    with open(path, "wb") as stream:
        stream.write(changed)
    child = os.fork()
    if child == 0:
        code = 3
        try:
            os.close(2)
            ckdisp.Registry.load(path)
            code = 0
        except ckdisp.LibraryError:
            code = 1
        except BaseException as error:
            print(repr(error), file=sys.stdout, flush=True)
        finally:
            os._exit(code)
    ends[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])] += 1
    os.unlink(path)
print(*(f"{code}:{number}" for code, number in sorted(ends.items())))
"""


def fuzz(library: Path, folder: Path, count: int, seed: int, share: float) -> dict[int, int]:
    """Exit code -> children: 0 loaded, 1 refused, below 0 a crash; of changes in a first share."""
    words = [str(library), str(folder), str(count), str(seed), str(share)]
    done = subprocess.run([sys.executable, "-c", FUZZ, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {int(c): int(n) for c, n in (part.split(":") for part in done.stdout.split())}


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of stub kernels with a run path, built by ninja."""
    folder = tmp_path_factory.mktemp("linked")
    compiler = FakeCompiler(folder / "bin")
    toolchain = Toolchain(str(compiler.path), ("-Wl,-rpath,/a/run/path/of/the/build",))
    headers = write_headers(folder / "headers")
    generate(keys(2), folder / "out", toolchain=toolchain, include_dirs=headers)
    return build(folder / "out", jobs=1)


@pytest.mark.parametrize("share", [1.0, 0.02])
def test_no_random_change_of_a_library_crashes(share: float, tmp_path: Path) -> None:
    ends = fuzz(PREBUILT[-1], tmp_path, 150, 7, share)
    assert not [code for code in ends if code < 0 or code == 3], ends
    assert ends.get(1, 0) >= 130  # what no segment holds, and equal bytes, may load


def test_prebuilt_libraries_are_sealed() -> None:
    assert PREBUILT
    for path in PREBUILT:
        assert is_sealed(path), path


def test_one_bit_is_seen(tmp_path: Path) -> None:
    path = Path(shutil.copy(PREBUILT[-1], tmp_path / "lib.so"))
    flip(path)
    assert not is_sealed(path)
    with pytest.raises(ckdisp.LibraryError, match="is damaged: its bytes are not those that were"):
        ckdisp.Registry.load(path)


def loads(path: Path) -> bool:
    """In a child, since the loader keeps what it has."""
    code = f"import ckdisp; assert len(ckdisp.Registry.load({str(path)!r}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_stripping_keeps_the_sums(linked: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(linked, tmp_path / "lib.so"))
    before = path.stat().st_size
    subprocess.run(["strip", str(path)], check=True)
    assert path.stat().st_size < before and is_sealed(path) and loads(path)


def test_ninja_make_and_cmake_seal(linked: Path, tmp_path: Path) -> None:
    assert is_sealed(linked)
    folder = linked.parent
    made = tmp_path / "made"
    shutil.copytree(folder, made, ignore=shutil.ignore_patterns("*.so", "obj"))
    subprocess.run(["make", "-C", str(made)], check=True, capture_output=True)
    assert is_sealed(made / linked.name)
    for command in (
        ["-S", str(folder), "-B", str(tmp_path / "b")],
        ["--build", str(tmp_path / "b")],
    ):
        done = subprocess.run(["cmake", *command], check=True, capture_output=True, text=True)
    assert is_sealed(tmp_path / "b" / linked.name)
    assert "gemm.standard generic: " in done.stdout


@pytest.mark.parametrize(
    "change",
    [
        'file(RPATH_CHANGE FILE "{path}" OLD_RPATH "/a/run/path/of/the/build" NEW_RPATH "/b")',
        'file(RPATH_REMOVE FILE "{path}")',
    ],
)
def test_cmake_may_rewrite_the_run_path(change: str, linked: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(linked, tmp_path / "lib.so"))
    before = path.read_bytes()
    (tmp_path / "change.cmake").write_text(
        f"cmake_minimum_required(VERSION 3.24)\n{change.format(path=path)}\n"
    )
    subprocess.run(["cmake", "-P", str(tmp_path / "change.cmake")], check=True)
    assert path.read_bytes() != before
    assert is_sealed(path) and loads(path)


def test_a_library_without_sums_loads(tmp_path: Path) -> None:
    data = bytearray(PREBUILT[-1].read_bytes())
    place = data.index(MAGIC) + len(MAGIC)
    data[place : place + 24] = bytes(24)
    path = tmp_path / "lib.so"
    path.write_bytes(data)
    assert not is_sealed(path) and loads(path)
    ends = fuzz(path, tmp_path, 150, 3, 0.05)  # headers and tables
    assert ends.get(1, 0) > 0 and sum(n for code, n in ends.items() if code < 0) <= 10, ends


def test_what_cannot_be_sealed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lib.so"
    for data in (
        b"",
        b"text",
        b"\x7fELF\x02\x01" + bytes(20),
        b"\x7fELF\x02\x01" + bytes(99) + MAGIC,
    ):
        path.write_bytes(data)
        with pytest.raises(NotSealable):
            seal(path)
        assert not is_sealed(path) and path.read_bytes() == data
    assert main([str(path), str(tmp_path / "missing.so")]) == 0  # a build goes on
    assert capsys.readouterr().err.count("has no sums to be checked by") == 2


def test_a_truncated_library_with_sums(tmp_path: Path) -> None:
    data = PREBUILT[-1].read_bytes()
    path = tmp_path / "lib.so"
    for length in (0, 70, 4000, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(ckdisp.LibraryError):
            ckdisp.Registry.load(path)
        os.unlink(path)
