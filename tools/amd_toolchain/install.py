#!/usr/bin/env python3
"""Install what compiles HIP kernels for AMD GPUs on a machine that has neither ROCm nor a GPU.

The compiler comes from the packages of Debian 12 or 13, HIP's headers and the Composable Kernel
from wheels, and libamdhip64 is a stub (see README.md). Running it again does only what changed.
Afterwards ROCM_PATH=PREFIX is all that a build needs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

import selftest
import stub
import sysroot
from common import HERE, Failure, Prefix, digest, guarded, run, say
from packages import Apt, extract, wheel

HIP_WHEEL = "triton==3.9.0"
CK_WHEEL = "amd-aiter==0.1.7.post2.dev18"
_HIP_FOLDER = "triton/backends/amd"
_CK_FOLDER = "aiter_meta/3rdparty/composable_kernel"
_CK_PARTS = ("include", "example/ck_tile", "tile_engine")
_NEEDED_MB = 900  # at the peak, with the larger wheel and pip's copy of it


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prefix", metavar="PREFIX", type=Path, help="folder to install to")
    parser.add_argument(
        "--wheels", metavar="FOLDER", type=Path, help="look for wheels here, and keep them here"
    )
    parser.add_argument("--force", action="store_true", help="do every step again")
    options = parser.parse_args()
    prefix = Prefix(options.prefix.expanduser().resolve(), options.force)
    return guarded(prefix, lambda: _install(prefix, options.wheels))


def _install(prefix: Prefix, wheels: Path | None) -> None:
    shutil.rmtree(prefix.work, ignore_errors=True)
    for folder in (prefix.work, prefix.stamps, prefix.raw):
        folder.mkdir(exist_ok=True)
    if not (prefix.stamps / "ck").exists():
        free = shutil.disk_usage(prefix.root).free // 2**20
        if free < _NEEDED_MB:
            raise Failure(
                f"{prefix.root} has {free} MB of free space; {_NEEDED_MB} MB are needed while "
                "installing. Free some, or choose another folder"
            )
    apt = Apt()
    chosen = prefix.stamps / "clang"
    llvm = apt.clang(chosen.read_text() if chosen.exists() and not prefix.force else "")
    version = llvm.parent.name.removeprefix("llvm-")
    chosen.write_text(version)
    say(f"using clang {version}")

    def fetch(requirement: str, members: dict[str, Path]) -> None:
        archive = wheel(requirement, wheels, apt, prefix.work)
        extract(archive, members)
        if wheels is None:
            archive.unlink()

    def fetch_hip(out: Path) -> None:
        target = out / ".raw" / "hip"
        parts = ("include", "lib")
        fetch(HIP_WHEEL, {f"{_HIP_FOLDER}/{part}/": target / part for part in parts})

    def fetch_headers(out: Path) -> None:
        target = out / ".raw" / "debian"
        target.mkdir(parents=True)
        sysroot.debian_headers(apt, target)

    def fetch_ck(out: Path) -> None:
        target = out / "ck"
        fetch(CK_WHEEL, {f"{_CK_FOLDER}/{part}/": target / part for part in _CK_PARTS})
        sysroot.ck(target)

    def make_stub(out: Path) -> None:
        (out / "lib").mkdir()
        count = stub.build(llvm / "clang", prefix.root / "include", out / "lib")
        (out / "lib" / "generated.c").unlink()
        say(f"the HIP runtime stub defines {count} functions")

    compiler = run(llvm / "clang", "--version").splitlines()[0]
    recipe = digest(HERE / "sysroot.py")
    prefix.step("hip-wheel", HIP_WHEEL, fetch_hip)
    prefix.step("headers-of-debian", " ".join(sysroot.DEBIAN_HEADERS), fetch_headers)
    prefix.step("ck", f"{CK_WHEEL} {' '.join(_CK_PARTS)}", fetch_ck)
    prefix.step("hip", f"{HIP_WHEEL} {recipe}", lambda out: sysroot.hip(prefix.raw, out))
    prefix.step(
        "bitcode",
        f"{HIP_WHEEL} {recipe} {compiler}",
        lambda out: sysroot.bitcode(prefix.raw, llvm, out),
    )
    sources = sorted((HERE / "stub").iterdir())
    prefix.step("stub", f"{HIP_WHEEL} {compiler} {digest(HERE / 'stub.py', *sources)}", make_stub)
    prefix.step(
        "commands",
        f"{llvm} {recipe} {digest(HERE / 'hipcc.py', HERE / 'hipconfig.py')}",
        lambda out: sysroot.commands(llvm, out),
    )
    say("self test ...")
    selftest.check(prefix.root, prefix.work)
    shutil.rmtree(prefix.work)
    say(f"ready: ROCM_PATH={prefix.root}")


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
