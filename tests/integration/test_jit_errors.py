"""Machines that lack something: each ends in an error of ckdisp that says what to do."""

from __future__ import annotations

import concurrent.futures
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from jit_lab import Lab
from stub_kernels import kernel_count, keys

import ckdisp
from ckdisp.cli.app import app
from ckdisp.codegen.errors import BuildError, Error
from ckdisp.jit import cache, failed, location
from ckdisp.jit.build import Options, build_library

CLOSED = "CKDISP_CACHE_DIR"


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No HOME, and a user id that has no entry in the list of users."""
    import pwd

    def nobody(*arguments: object) -> None:
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("HOME", "XDG_CACHE_HOME", CLOSED):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home() -> None:
    with pytest.raises(BuildError, match=rf"no place for the kernel cache.*set {CLOSED}"):
        location.cache_dir()
    with pytest.raises(BuildError, match=CLOSED):
        build_library(keys(1), Options(progress=False))
    doctor = CliRunner().invoke(app, ["doctor"])
    assert doctor.exception is None or isinstance(doctor.exception, SystemExit)
    assert "no place for the kernel cache" in doctor.stdout
    listed = CliRunner().invoke(app, ["cache", "ls"])
    assert listed.exit_code == 1 and CLOSED in listed.stderr


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize("text", ["~", "~/cache", "~nobody_has_this_name/cache"])
def test_a_tilde_that_means_nothing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLOSED, text)
    with pytest.raises(BuildError, match="give a path without '~'"):
        location.cache_dir()


@pytest.mark.parametrize("home", ["", "relative"])
def test_a_home_that_is_no_place(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may come to lie in the folder where the program happens to run."""
    for name in ("XDG_CACHE_HOME", CLOSED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)
    try:
        found = location.cache_dir()
    except BuildError as error:
        assert CLOSED in str(error)
    else:
        assert found.is_absolute() and not found.is_relative_to(Path.cwd())


@pytest.mark.parametrize("length", [3500, 3590, 3600, 3800, 4060, 4090, 5000])
def test_a_long_path(length: int, lab: Lab) -> None:
    base = str(lab.folder)
    rest = length - len(base)
    long = base + "".join("/" + "x" * min(200, rest - i - 1) for i in range(0, rest - 1, 201))
    try:
        assert kernel_count(build_library(keys(1), Options(progress=False, cache_dir=long))) == 1
    except BuildError as error:
        assert length > 3590 and "at most 3595" in str(error)
    else:
        assert length <= 3595
    finally:
        shutil.rmtree(lab.folder / ("x" * 200), ignore_errors=True)


def test_a_long_name(lab: Lab) -> None:
    with pytest.raises(BuildError, match="File name too long"):
        build_library(keys(1), Options(progress=False, cache_dir=lab.folder / ("y" * 300)))


def test_whatever_the_file_system_refuses(lab: Lab) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(5, "Input/output error", "/some/file")

    lab.build(1)
    lab.monkeypatch.setattr(os, "link", refuse)
    lab.monkeypatch.setattr(Path, "symlink_to", refuse)
    with pytest.raises(BuildError, match=r"Input/output error \(/some/file\); set CKDISP_CACHE"):
        lab.build(2)


# Compilers that lie.


def lying(lab: Lab, kind: str) -> None:
    """A compiler that says that all is well and writes nothing, for units or for the link."""
    lab.compiler.path.write_text(
        f"""#!/bin/sh
case " $* " in
*" -shared -fPIC "*"/probe.cpp -o "*) for word; do :; done; cp /bin/sh "$word"; exit ;;
*{kind}*) exit 0 ;;
esac
exec c++ "$@"
"""
    )


@pytest.mark.parametrize("executor", [False, True])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ('" -c "*units/', r"compilation of gemm_\w+ failed: the compiler ended without an error but"
         r" wrote no output, obj/gemm_\w+\.o"),
        ('"-Wl,-soname"', "link of libckdisp_jit_.* failed: the compiler ended without an error but"
         " wrote no output, libckdisp_jit"),
    ],
)  # fmt: skip
def test_a_compiler_that_writes_nothing(kind: str, text: str, executor: bool, lab: Lab) -> None:
    good = lab.compiler.path.read_text()
    lying(lab, kind)
    with concurrent.futures.ThreadPoolExecutor(1) as pool, pytest.raises(BuildError, match=text):
        lab.build(2, executor=pool if executor else None)
    lab.compiler.path.write_text(good)
    assert kernel_count(lab.build(2)) == 2
    assert cache.verify() == []


# What failed builds leave behind.


def fail(lab: Lab, count: int = 2) -> BuildError:
    (lab.compiler.folder / "fail").touch()
    with pytest.raises(BuildError) as caught:
        lab.build(count)
    (lab.compiler.folder / "fail").unlink()
    return caught.value


def test_the_folder_of_a_failure_holds_no_copies(lab: Lab) -> None:
    lab.compiler.path.write_text(
        lab.compiler.path.read_text().replace("units/*)", f"units/{keys(3)[2].name}.cpp)")
    )
    fail(lab, 3)
    objects = list((lab.root / "failed").glob("*/obj/gemm*.o"))
    assert objects and all(path.is_symlink() and path.stat().st_size for path in objects)


def test_folders_of_failures_are_bounded(lab: Lab) -> None:
    fail(lab, 1)
    fail(lab, 2)
    first, second = sorted((lab.root / "failed").iterdir(), key=lambda p: p.stat().st_mtime_ns)
    size = failed._size(second)
    assert 0 < size < 1 << 20
    lab.monkeypatch.setattr(failed, "_MOST_BYTES", size * 5 // 2)
    fail(lab, 3)
    left = sorted((lab.root / "failed").iterdir())
    assert len(left) == 2 and first not in left
    lab.monkeypatch.setattr(failed, "_MOST_BYTES", 10)
    error = fail(lab, 4)
    assert list((lab.root / "failed").iterdir()) == []
    assert "told to fail" in str(error) and "repeat it with" not in str(error)
    assert list((lab.root / "staging").iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs the rights of root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_keeps_nothing(lab: Lab, small_disk: Path) -> None:
    lab.compiler.path.write_text(
        lab.compiler.path.read_text().replace(
            "exec ", 'case "$*" in *" -c units"*) dd if=/dev/zero of=filler bs=64k; esac\nexec '
        )
    )
    root = small_disk / "cache"
    with pytest.raises(BuildError) as caught:
        build_library(keys(1), Options(progress=False, cache_dir=root))
    assert str(caught.value).startswith(f"no space left on {root}")
    assert "repeat it with" not in str(caught.value)
    assert not list((root / "failed").glob("*")) and not list((root / "staging").iterdir())


# Long names elsewhere.


@pytest.mark.parametrize("length", [300, 5000])
def test_names_that_are_too_long_elsewhere(length: int, tmp_path: Path) -> None:
    long = str(tmp_path / "z" / ("z" * length))
    kernels = ckdisp.KernelSet(keys(1))
    for action in (
        lambda: ckdisp.generate(kernels, long, emit="make"),
        lambda: ckdisp.Registry.load(long),
        lambda: ckdisp.KernelSet.from_json(long),
        lambda: kernels.to_json(long),
    ):
        with pytest.raises(Error):
            action()
    for words in (["build", long], ["generate", "gemm.standard", "--out", long]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code in (1, 2) and isinstance(result.exception, SystemExit)


# One set, one library.


def test_the_order_of_a_set_does_not_matter(lab: Lab) -> None:
    declared = keys(4)
    shuffled = random.Random(1).sample(declared, 4)
    assert shuffled != declared
    libraries = {build_library(ks, Options(progress=False)) for ks in (declared, shuffled)}
    libraries.add(build_library(declared[::-1], Options(progress=False)))
    assert len(libraries) == 1 and lab.compiled() == 4
    assert cache.stats().libraries == 1


def test_the_order_of_a_set_writes_one_folder(tmp_path: Path) -> None:
    declared = ckdisp.KernelSet(keys(4))
    for level in ("x86-64-v3", "gfx942"):
        declared |= ckdisp.KernelSet.sweep("gemm.standard", level, where={"dtype": "fp16"})[:3]
    first = ckdisp.generate(declared, tmp_path, emit=("cmake", "make"), missing="skip")
    again = ckdisp.generate(declared[::-1], tmp_path, emit=("cmake", "make"), missing="skip")
    assert first.written and again.written == again.removed == ()


def test_the_raw_errors_of_a_child(tmp_path: Path) -> None:
    """As a user of a container sees it: no HOME, no entry, no variable."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("another user id needs the rights of root, and setpriv")
    folder = Path(ckdisp.__file__).parent.parent
    rights = "-all,+dac_read_search"
    done = subprocess.run(
        [
            *("setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"),
            *("--inh-caps", rights, "--ambient-caps", rights),
            *("env", "-i", "PATH=/usr/bin:/bin", f"PYTHONPATH={folder}", "PYTHONSAFEPATH=1"),
            *(os.path.realpath(sys.executable), "-B", "-c"),
            "import sys; sys.argv = ['ckdisp', 'doctor']; from ckdisp.cli import main; main()",
        ],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "no place for the kernel cache" in done.stdout
