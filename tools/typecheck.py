"""Run ``mypy --strict`` over the package as it is when installed, and over a program that uses it.

``codegen`` lies outside ``python/ckdisp`` in the source tree and inside it in a wheel, so a folder
of links shows mypy the installed form.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    view = ROOT / "build" / "typecheck"
    shutil.rmtree(view, ignore_errors=True)
    package = view / "ckdisp"
    package.mkdir(parents=True)
    for entry in (*(ROOT / "python" / "ckdisp").iterdir(), ROOT / "codegen"):
        (package / entry.name).symlink_to(entry)
    environment = {**os.environ, "MYPYPATH": str(view)}
    statuses = []
    for what in (["-p", "ckdisp"], ["tests/typed_program.py"]):
        print("mypy --strict", *what, flush=True)
        command = [sys.executable, "-m", "mypy", *what]
        statuses.append(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode)
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
