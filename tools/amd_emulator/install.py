#!/usr/bin/env python3
"""Install the emulated AMD GPU: the ISA tables that it reads and its HIP runtime library.

The tables come from a wheel; nothing else of it is kept. The library is compiled by the clang of a
ROCm or of ``make amd-toolchain``. Running it again does only what changed. Afterwards
CKDISP_HIP_RUNTIME=PREFIX/lib/libamdhip64.so.7 and EMUHIP_ARCH make a process see the device.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "amd_toolchain"))

import runtime  # noqa: E402
from common import Failure, Prefix, digest, guarded, run  # noqa: E402
from packages import extract, wheel  # noqa: E402

TABLES_WHEEL = "tinygrad==0.14.0"
# The tables, and the classes that they are written with.
_TABLE_PARTS = ("tinygrad/renderer/amd/", "tinygrad/runtime/autogen/amd/")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prefix", metavar="PREFIX", type=Path, help="folder to install to")
    parser.add_argument(
        "--rocm", metavar="FOLDER", type=Path, default=os.environ.get("ROCM_PATH", "/opt/rocm"),
        help="where HIP's headers and clang are; default: $ROCM_PATH, then /opt/rocm",
    )  # fmt: skip
    parser.add_argument(
        "--wheels", metavar="FOLDER", type=Path, help="look for wheels here, and keep them here"
    )
    parser.add_argument("--force", action="store_true", help="do every step again")
    options = parser.parse_args()
    prefix = Prefix(options.prefix.expanduser().resolve(), options.force)
    return guarded(prefix, lambda: _install(prefix, Path(options.rocm), options.wheels))


def _install(prefix: Prefix, rocm: Path, wheels: Path | None) -> None:
    for folder in (prefix.work, prefix.stamps):
        folder.mkdir(exist_ok=True)

    def fetch_tables(out: Path) -> None:
        archive = wheel(TABLES_WHEEL, wheels, None, prefix.work)
        extract(archive, {part: out / "tables" / part for part in _TABLE_PARTS})
        if wheels is None:
            archive.unlink()

    prefix.step("tables", f"{TABLES_WHEEL} {' '.join(_TABLE_PARTS)}", fetch_tables)
    clang = _clang(rocm)
    header = rocm / "include" / "hip" / "hip_runtime_api.h"
    if not header.exists():
        raise Failure(f"there is no {header}; `make amd-toolchain` installs it, or set ROCM_PATH")
    compiler = run(clang, "--version").splitlines()[0]
    key = digest(compiler, HERE / "runtime.py", header, *sorted((HERE / "hip").glob("*.?pp")))

    def make_library(out: Path) -> None:
        objects = prefix.work / "objects"
        shutil.rmtree(objects, ignore_errors=True)
        runtime.build(clang, rocm / "include", out / "lib", objects)

    prefix.step("library", key, make_library)
    shutil.rmtree(prefix.work)


def _clang(rocm: Path) -> Path:
    for place in ("llvm/bin/clang", "lib/llvm/bin/clang", "bin/clang"):
        if (rocm / place).exists():
            return rocm / place
    found = shutil.which("clang")
    if found is None:
        raise Failure(f"there is no clang below {rocm}; `make amd-toolchain` installs one")
    return Path(found)


if __name__ == "__main__":
    sys.exit(main())
