"""Kernels that compile in a moment, for tests of generating and building.

The units, flags and graphs are the real ones; only the provider's header is replaced, by one whose
kernels do nothing.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ckdisp.codegen.emit.cpp_view import write_cpp_view
from ckdisp.codegen.headers import own_include_dirs
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.make import make_key
from ckdisp.codegen.toolchain import which

GEMM_HPP = """\
#pragma once
#include <ckdisp/abi.hpp>
#include "providers/cpu/detail.hpp"
#define CKDISP_CPU_GEMM_KERNEL(symbol, K)                                                      \\
  extern "C" {                                                                                 \\
  [[gnu::visibility("hidden")]] extern const ckdisp::ckdisp_kernel symbol;                     \\
  }                                                                                            \\
  constinit const ckdisp::ckdisp_kernel symbol{                                                \\
      sizeof(ckdisp::ckdisp_kernel), ckdisp::Op::gemm, K::name, "generic", "cpu", &K::key,     \\
      sizeof(K::key), stub_supports, stub_cost, stub_workspace, stub_run};
"""

DETAIL_HPP = """\
#pragma once
static bool stub_supports(const void*, ckdisp::Refusal*) { return true; }
static double stub_cost(const void*, const ckdisp::Launch*) { return 1.0; }
static std::uint64_t stub_workspace(const void*, const ckdisp::Launch*) { return 0; }
static bool stub_run(const void*, const void*, void*, const ckdisp::Launch*, ckdisp::Refusal*) {
  return true;
}
"""


def keys(count: int, first: int = 0, arch: str = "generic") -> list[KernelKey]:
    """``count`` valid keys that differ in their cache block."""
    made = []
    for i in range(first, first + count):
        base = make_key("gemm.standard", arch=arch, dtype="fp32", layout="rcr")
        m, n, _ = base.warp
        made.append(
            make_key(
                "gemm.standard",
                arch=arch,
                dtype="fp32",
                layout="rcr",
                pipeline=base.pipeline,
                warp=base.warp,
                tile=(m * (2 + i % 50), n * (2 + i // 50), 256),
            )
        )
    return made


def write_headers(folder: Path) -> list[Path]:
    """Include folders below ``folder`` with the public headers and the stub provider."""
    include = folder / "include"
    shutil.copytree(own_include_dirs()[0], include, dirs_exist_ok=True)
    write_cpp_view(include)
    provider = folder / "providers" / "cpu"
    provider.mkdir(parents=True)
    (provider / "gemm.hpp").write_text(GEMM_HPP)
    (provider / "detail.hpp").write_text(DETAIL_HPP)
    return [include, folder]


def kernel_count(library: Path) -> int:
    """How many kernels the library at ``library`` registers."""

    class Library(ctypes.Structure):
        _fields_ = [(n, ctypes.c_uint32) for n in ("magic", "abi", "size", "count")]

    function = ctypes.CDLL(str(library)).ckdisp_kernel_library
    function.restype = ctypes.POINTER(Library)
    table = function().contents
    assert table.magic == 0x434B4430
    return int(table.count)


def snapshot(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Path -> identity, size and time of every file and folder below ``folder``."""
    return {
        str(p.relative_to(folder)): (s.st_ino, s.st_size, s.st_mtime_ns)
        for p in sorted(folder.rglob("*"))
        for s in (p.stat(),)
    }


@dataclass
class FakeCompiler:
    """A script in front of the real compiler that counts what it compiles and links.

    It accepts every optional flag. While a file ``fail`` lies next to it, compiling fails; while
    there is ``hang``, it sleeps; while there is ``wait``, it waits. While there is ``break``, it
    reports success for half an output of those commands that have the words in that file. While
    there is ``remove``, compiling removes what is named in that file.
    """

    folder: Path
    comment: str = ""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        real = which("c++") or which("g++")
        assert real is not None
        self.path = self.folder / "c++"
        self.log = self.folder / "log"
        self.log.touch()
        self.path.write_text(
            f"""#!/bin/sh
# {self.comment}
here='{self.folder}'
case " $* " in
*" -shared -fPIC "*"/probe.cpp -o "*) for word; do :; done; cp /bin/sh "$word"; exit ;;
*" -c "*.cpp*)
  for word; do case "$word" in *.cpp) source=$word;; esac; done
  echo "compile $source" >> "$here/log"
  case "$source" in
  units/*)
    if [ -e "$here/fail" ]; then
      echo "In file included from nowhere" >&2
      echo "$source:3:1: error: the fake compiler was told to fail" >&2
      exit 1
    fi
    if [ -e "$here/hang" ]; then sleep 100; fi
    while [ -e "$here/wait" ]; do sleep 0.05; done
    if [ -e "$here/remove" ]; then rm -rf "$(cat "$here/remove")"; fi ;;
  esac ;;
*" -soname,"*|*"-Wl,-soname"*) echo "link" >> "$here/log" ;;
esac
[ -e "$here/break" ] || exec {real} "$@"
{real} "$@" || exit
words=$(cat "$here/break")
case " $* " in
*"$words"*)
  for word; do [ "$last" = -o ] && output=$word; last=$word; done
  truncate -s 3000 "$output" ;;
esac
exit 0
"""
        )
        os.chmod(self.path, 0o755)

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def compiled(self) -> int:
        """Kernels compiled since the last call."""
        count = sum(line.startswith("compile units/") for line in self.lines())
        self.log.write_text("")
        return count
