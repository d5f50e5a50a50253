"""Run ``mypy --strict`` over the package as it is when installed.

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
    command = [sys.executable, "-m", "mypy", "-p", "ckdisp"]
    print("mypy --strict ckdisp (with ckdisp.codegen)", flush=True)
    environment = {**os.environ, "MYPYPATH": str(view)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
