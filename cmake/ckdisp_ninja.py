"""Build a generated graph as one step of an outer build.

``ckdisp_ninja.py NINJA FOLDER STAMP``. Runs NINJA in FOLDER with the parallelism of the outer
build, then writes STAMP and STAMP.d, a depfile that names every header a unit has read, so that
the outer build runs this step again exactly when there is something to do.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def job_options(environment: dict[str, str]) -> list[str]:
    """How many jobs the outer build allows; nothing if ninja finds out by itself or is free."""
    make_flags = environment.get("MAKEFLAGS", "")
    if "--jobserver-auth=fifo:" in make_flags:
        return []  # ninja takes job slots from make
    if level := environment.get("CMAKE_BUILD_PARALLEL_LEVEL"):
        return [f"-j{level}"] if level.isdigit() and int(level) > 0 else []
    if jobs := re.search(r"(?:^|\s)-j(\d+)", make_flags):
        return [f"-j{jobs[1]}"]
    if make_flags and "-j" not in make_flags.split() and "MAKELEVEL" in environment:
        return ["-j1"]  # a make without -j
    return []


def read_headers(ninja: str, folder: Path) -> list[Path]:
    """Every file that ninja recorded as a dependency of an object."""
    run = [ninja, "-C", str(folder), "-t", "deps"]
    listing = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    names = {line.strip() for line in listing.splitlines() if line.startswith("    ")}
    return [folder / name for name in sorted(names)]


def escape(path: Path) -> str:
    """``path`` as make and CMake read it in a depfile."""
    return re.sub(r"([ #\\])", r"\\\1", os.path.normpath(path)).replace("$", "$$")


def report_sizes(folder: Path) -> None:
    """Say how large the library is, by the script that the graph of ``folder`` names."""
    script = re.search(r" (\S+)/seal\.py \$out", (folder / "build.ninja").read_text("utf-8"))
    outputs = list(folder.glob("lib*.so"))
    if script is not None and len(outputs) == 1:
        words = [f"{script[1]}/sizes.py", folder / "manifest.json", outputs[0], folder]
        subprocess.run([sys.executable, *words], check=False)


def main(arguments: list[str]) -> int:
    ninja, folder, stamp = arguments[0], Path(arguments[1]), Path(arguments[2])
    environment = dict(os.environ)
    command = [ninja, "-C", str(folder), *job_options(environment)]
    if environment.get("VERBOSE"):
        command.append("-v")
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        return status
    report_sizes(folder)
    headers = " \\\n  ".join(map(escape, read_headers(ninja, folder)))
    stamp.with_name(stamp.name + ".d").write_text(f"{escape(stamp)}: {headers}\n", encoding="utf-8")
    stamp.touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
