"""What compilers are asked: only a definite answer is one."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from fake_rocm import make_rocm, script

from ckdisp.codegen import toolchain as toolchain_module
from ckdisp.codegen.errors import BuildError
from ckdisp.codegen.rocm import HipToolchain
from ckdisp.codegen.toolchain import Toolchain, which

REAL = which("c++") or ""
WRITE = 'for word; do :; done; echo library > "$word"'


def compiler(folder: Path, flagged: str, plain: str = WRITE) -> Toolchain:
    """A compiler that does ``flagged`` with -fopenmp and ``plain`` without, and counts."""
    count = f"echo x >> '{folder}/asked'"
    text = f'{count}\ncase "$*" in *-fopenmp*) {flagged} ;; *) {plain} ;; esac'
    return Toolchain(str(script(folder / "c++", text)))


def asked(folder: Path) -> int:
    return len((folder / "asked").read_text().splitlines())


def test_a_flag_that_is_refused_while_all_else_works(tmp_path: Path) -> None:
    found = compiler(tmp_path, "echo 'error: unrecognized option' >&2; exit 1")
    assert not found.accepts("-fopenmp")
    assert asked(tmp_path) == 3  # with it, without it, and with it again
    assert not found.accepts("-fopenmp")
    assert asked(tmp_path) == 3


def test_a_failure_that_passed_is_no_answer(tmp_path: Path) -> None:
    once = f"[ -e '{tmp_path}/once' ] && {{ {WRITE}; exit; }}; touch '{tmp_path}/once'; exit 1"
    assert compiler(tmp_path, once).accepts("-fopenmp")


@pytest.mark.parametrize(
    ("flagged", "reason"),
    [
        ("echo 'fatal error: No space left on device' >&2; exit 1", "No space left on device"),
        ("echo 'ld: Too many open files' >&2; exit 1", "Too many open files"),
        ("echo 'sh: 1: Cannot fork' >&2; exit 2", "Cannot fork"),
        ("kill -KILL $$", "exit status 137"),
        ("exit 0", "reported success and wrote nothing"),
    ],
)
def test_a_failure_of_the_machine_is_no_answer(tmp_path: Path, flagged: str, reason: str) -> None:
    found = compiler(tmp_path, flagged)
    with pytest.raises(BuildError, match=f"cannot find out whether .* takes -fopenmp: .*{reason}"):
        found.accepts("-fopenmp")
    compiler(tmp_path, WRITE)
    assert found.accepts("-fopenmp")


def test_a_compiler_that_compiles_nothing_says_nothing_of_flags(tmp_path: Path) -> None:
    found = compiler(tmp_path, "exit 1", "echo 'error: no such instruction' >&2; exit 1")
    with pytest.raises(BuildError, match=r"no such instruction.*compiles nothing at the moment"):
        found.accepts("-fopenmp")


@pytest.mark.parametrize("kilobytes", [1, 8, 17])
def test_a_limit_for_files_is_no_answer(kilobytes: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    toolchain_module._accepts.cache_clear()
    resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10, hard))
    try:
        taken = Toolchain(REAL).accepts("-O1")
    except BuildError:
        taken = True  # said so
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert taken
    assert Toolchain(REAL).accepts("-O1")


def test_an_identity_is_not_made_of_a_killed_compiler(tmp_path: Path) -> None:
    path = script(tmp_path / "c++", 'case "$*" in --version) kill -KILL $$ ;; esac')
    with pytest.raises(BuildError, match=r"did not answer: exit status -9"):
        Toolchain(str(path)).identity()
    script(path, "echo a compiler")
    assert len(Toolchain(str(path)).identity()) == 64


def test_hip_flags_are_asked_in_the_same_way(tmp_path: Path) -> None:
    root = make_rocm(tmp_path / "rocm")
    found = HipToolchain.find(str(root), env={})
    assert not found.accepts("-fno-such-flag")
    full = "echo 'error: No space left on device' >&2; exit 1"
    text = f'case "$*" in *--version*) echo clang version 1;; *) {full};; esac'
    script(root / "bin" / "hipcc", text)
    with pytest.raises(BuildError, match=r"takes -fnew: .*No space left on device"):
        found.accepts("-fnew")
