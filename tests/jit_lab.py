"""A cache, headers and a compiler of its own for each test of the JIT."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from stub_kernels import FakeCompiler, keys, write_headers

from ckdisp.jit import build as build_module
from ckdisp.jit.build import Options, build_library


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


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


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
