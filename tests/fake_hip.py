"""A HIP compiler that compiles in a moment, for tests of generating and building.

Units, flags and graphs are the real ones. The provider's header is replaced by one whose kernels
do nothing, and the compiler by a script that runs the C++ compiler of this machine.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from fake_rocm import make_rocm, script
from stub_kernels import DETAIL_HPP, write_headers

from ckdisp.codegen.headers import own_include_dirs
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.providers.ck_tile import TILE_FIELDS
from ckdisp.codegen.rocm import HipToolchain
from ckdisp.codegen.toolchain import which

_KERNEL_HPP = """\
#pragma once
#include <ckdisp/abi.hpp>
#include "providers/ck_tile/detail.hpp"
#define CKDISP_CK_TILE_{OP}_KERNEL(symbol, K)                                                  \\
  extern "C" {                                                                                 \\
  [[gnu::visibility("hidden")]] extern const unsigned char symbol##_code[];                    \\
  [[gnu::visibility("hidden")]] extern const ckdisp::ckdisp_kernel symbol;                     \\
  }                                                                                            \\
  const ckdisp::ckdisp_kernel symbol{                                                          \\
      sizeof(ckdisp::ckdisp_kernel), ckdisp::Op::{op}, K::name, K::target, "ck_tile", &K::key, \\
      sizeof(K::key), stub_supports, stub_cost, stub_workspace, stub_run};                     \\
  [[gnu::used]] static const unsigned char* const symbol##_bytes = symbol##_code;
"""

# argv: compiler, folder of this script, then what the HIP compiler was called with.
_COMPILER = r"""
import os, re, subprocess, sys

cxx, folder, words = sys.argv[1], sys.argv[2], sys.argv[3:]
VERSION = "AMD clang version 20.0.0"

def log(line):
    with open(f"{folder}/log", "a") as file:
        file.write(line + "\n")

def read(name, default):
    path = f"{folder}/{name}"
    return open(path).read() if os.path.exists(path) else default

version = read("version", VERSION)
if "--version" in words:
    print(version)
    sys.exit()
front = []  # what is meant for the inner compiler
plain = []
while words:
    word = words.pop(0)
    if word == "-Xclang":
        front.append(words.pop(0))
    elif word == "-mllvm":
        words.pop(0)
    elif not word.startswith(("--offload", "--rocm-path", "--hip-path", "--gpu-bundle",
                              "-fno-offload", "-fgpu-", "-fpch", "-Wno-")):
        plain.append(word)

def option(words, name, default=None):
    return words[words.index(name) + 1] if name in words else default

def flags():
    return " ".join(w for w in plain if w.startswith(("-D", "-O", "-std")))

if "-v" in plain:
    plain = ["c++" if w == "hip" else w for w in plain]
    sys.exit(subprocess.call([cxx, *plain]))
source = next(w for w in plain if w.endswith(".hip"))
header = option(front, "-include-pch")
if "probe" in source:
    open(option(plain, "-o"), "w").close()
    sys.exit(0 if "refused" not in " ".join(plain) else 1)
stamp = f"{version}\n{flags()}\n"
if header is not None and open(header).read() != stamp:
    print(f"error: PCH file '{header}' was built by another compiler", file=sys.stderr)
    sys.exit(1)
depfile, target = option(front, "-dependency-file"), option(front, "-MT")
output = option(front if "-emit-pch" in front else plain, "-o")
kind = "header" if "-emit-pch" in front else "host" if source.startswith("host/") else "device"
if "host/" in source:
    kind = "host"
log(f"{kind} {os.path.basename(source)}")
if kind == "device" and os.path.exists(f"{folder}/fail"):
    print(f"In file included from nowhere:1:\n{source}:3:1: error: told to fail", file=sys.stderr)
    sys.exit(1)
depend = ["-MD", "-MP", "-MF", depfile, "-MT", target]
plain = [w for w in plain if w not in ("-c", "-fsyntax-only", source, "-o", output)]
common = [cxx, *plain, *depend, "-x", "c++", source]
if kind == "header":
    code = subprocess.call([*common, "-fsyntax-only"])
    open(output, "w").write(stamp)
elif kind == "host":
    code = subprocess.call([*common, "-c", "-o", output])
else:
    code = subprocess.call([*common, "-E", "-P", "-o", output])
sys.exit(code)
"""


def many_gpu_keys(count: int, arch: str = "gfx942") -> list[KernelKey]:
    """``count`` valid keys."""
    where = {"dtype": ["fp16"], "layout": ["rcr"], "pipeline": ["compv3"]}
    return list(KernelSet.sweep("gemm.standard", arch, tiles="all", where=where)[:count])


def gpu_keys(count: int, arch: str = "gfx942") -> list[KernelKey]:
    """``count`` valid keys that share a tile and its types."""
    keys = many_gpu_keys(4000, arch)
    first = keys[0]
    same = (
        k for k in keys if all(getattr(k, f) == getattr(first, f) for f in TILE_FIELDS[first.op])
    )
    return list(same)[:count]


def write_hip_headers(folder: Path) -> list[Path]:
    """Include folders below ``folder`` with the public headers and stubs of both providers."""
    folders = write_headers(folder)
    real = own_include_dirs()[1] / "providers" / "ck_tile"
    provider = folder / "providers" / "ck_tile"
    provider.mkdir(parents=True)
    (provider / "detail.hpp").write_text(DETAIL_HPP)
    (provider / "pch").mkdir()
    for op in ("gemm", "fmha"):
        text = _KERNEL_HPP.replace("{op}", op).replace("{OP}", op.upper())
        (provider / f"{op}.hpp").write_text(text)
        (provider / "pch" / f"{op}.hip").write_text(f'#include "providers/ck_tile/{op}.hpp"\n')
    shutil.copy(real.parent / "embed.S", provider.parent)
    return folders


@dataclass
class FakeHip:
    """A ROCm whose compiler counts. While a file ``fail`` lies in ``folder``, kernels fail."""

    folder: Path

    def __post_init__(self) -> None:
        root = make_rocm(self.folder / "rocm")
        cxx = which("c++") or which("g++")
        assert cxx is not None
        program = self.folder / "hipcc.py"
        program.write_text(_COMPILER)
        self.log = self.folder / "log"
        self.log.touch()
        command = f"exec '{sys.executable}' -S '{program}' '{cxx}' '{self.folder}' \"$@\""
        self.path = script(root / "bin" / "hipcc", command)
        script(root / "lib" / "llvm" / "bin" / "clang", f"exec '{cxx}' \"$@\"")
        script(root / "lib" / "llvm" / "bin" / "clang++", f"exec '{cxx}' \"$@\"")
        environment = {"ROCM_PATH": str(root), "PATH": os.environ["PATH"]}
        self.toolchain = HipToolchain.find(env=environment)

    def change(self, version: str) -> None:
        """Make it another compiler at the same place."""
        (self.folder / "version").write_text(version)
        os.utime(self.path)

    def done(self) -> dict[str, int]:
        """How often each kind of thing was compiled since the last call."""
        lines = self.log.read_text().splitlines()
        self.log.write_text("")
        kinds = [line.split()[0] for line in lines]
        return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
