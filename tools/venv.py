"""Make ``.venv`` ready: create it, install what a task needs, build and install ckdisp.

``python3 tools/venv.py [--torch] [--lint]``, run by the Makefile. It needs the standard library
alone. What is done already is skipped: each step records a hash of what it depends on. Two runs at
once wait for each other.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
# The exact local version keeps pip from fetching gigabytes of GPU libraries when an index offers
# no CPU build; the tests that need PyTorch are then skipped.
TORCH = os.environ.get("TORCH", "torch==2.13.0+cpu")
PACKAGE_SOURCES = ("CMakeLists.txt", "LICENSE", "README.md", "cmake", "codegen", "csrc", "python")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", action="store_true", help="install PyTorch if it can be had")
    parser.add_argument("--lint", action="store_true", help="install the linters, not ckdisp")
    options = parser.parse_args()
    check_machine(compiles=not options.lint)
    with locked():
        create()
        if options.lint:
            install("lint", requirements("dependencies", "lint"))
            return 0
        install("test", requirements("build", "dependencies", "test"))
        if options.torch:
            install_torch()
        install_package()
    return 0


def stop(message: str) -> None:
    """End the program with one readable message."""
    sys.exit(f"make: {message}")


def check_machine(compiles: bool) -> None:
    """Refuse a machine that lacks what pip cannot bring, and say what to install."""
    if sys.version_info < (3, 11):  # noqa: UP036 - started by whatever `python3` is
        stop(f"{sys.executable} is Python {sys.version.split()[0]}; ckdisp needs 3.11 or newer. "
             "Run `make PYTHON=/path/to/python3.11 ...`")  # fmt: skip
    if importlib.util.find_spec("ensurepip") is None and not PYTHON.exists():
        stop(f"{sys.executable} cannot create a virtual environment, because its ensurepip module "
             "is missing. On Debian and Ubuntu: apt-get install python3-venv. Or use another "
             "Python: make PYTHON=/path/to/python3 ...")  # fmt: skip
    if not compiles:
        return
    compiler = os.environ.get("CXX", "").split()[:1] or ["c++", "g++", "clang++"]
    if not any(map(shutil.which, compiler)):
        stop(f"no C++ compiler was found (tried {', '.join(compiler)}). On Debian and Ubuntu: "
             "apt-get install g++. Or name one: make CXX=/path/to/g++ ...")  # fmt: skip
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        stop(f"the headers of {sys.executable} are missing ({header}). On Debian and Ubuntu: "
             "apt-get install python3-dev")  # fmt: skip


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Hold the lock of the checkout's ``.venv``."""
    with (ROOT / ".venv.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("make: waiting for another run that prepares .venv", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def run(*command: str | Path) -> None:
    """Run a command of the set-up; its output is shown, a failure ends the program."""
    line = [str(part) for part in command]
    print("+", " ".join(line), flush=True)
    status = subprocess.run(line, cwd=ROOT, check=False).returncode
    if status != 0:
        stop(f"setting up .venv failed (exit status {status}); the reason is above. Run again once "
             "it is fixed, or `make clean` to start over")  # fmt: skip


def create() -> None:
    """Create the environment, anew if its Python has gone or a run was interrupted."""
    if (VENV / "pyvenv.cfg").exists() and PYTHON.exists():
        works = subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False)
        if works.returncode == 0:
            return
    run(sys.executable, "-m", "venv", "--clear", VENV)


def requirements(*groups: str) -> list[str]:
    """Requirements of ``pyproject.toml``: ``build``, ``dependencies`` or the name of an extra."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tables = dict(project["project"]["optional-dependencies"])
    tables["build"] = project["build-system"]["requires"]
    tables["dependencies"] = project["project"]["dependencies"]
    return [requirement for group in groups for requirement in tables[group]]


def pip(*arguments: str) -> list[str | Path]:
    quiet = ("--disable-pip-version-check", "--quiet")
    return [PYTHON, "-m", "pip", "install", *quiet, *arguments]


@contextlib.contextmanager
def step(name: str, content: str) -> Iterator[bool]:
    """Whether step ``name`` must run; it is recorded as done unless the block raises."""
    stamp = VENV / f".{name}.stamp"
    digest = hashlib.sha256(content.encode()).hexdigest()
    needed = not stamp.exists() or stamp.read_text() != digest
    if needed:
        stamp.unlink(missing_ok=True)
    yield needed
    if needed:
        stamp.write_text(digest)


def install(name: str, names: list[str]) -> None:
    with step(name, "\n".join(names)) as needed:
        if needed:
            run(*pip(*names))


def install_torch() -> None:
    """Install PyTorch, which only some tests need; do without where it cannot be had."""
    with step("torch", TORCH) as needed:
        if not needed:
            return
        command = [str(part) for part in pip("--only-binary", ":all:", TORCH)]
        print("+", " ".join(command), flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            if os.environ.get("CI") == "true":
                stop(f"{TORCH} could not be installed, and CI must run the tests that need it")
            print(f"make: {TORCH} is not available for this Python; its tests will be skipped")


def source_digest() -> str:
    """A hash over every file that ends up in the package or shapes its build."""
    total = hashlib.sha256()
    paths = [ROOT / name for name in PACKAGE_SOURCES]
    files = [f for p in paths for f in ([p] if p.is_file() else p.rglob("*")) if f.is_file()]
    for file in sorted([*files, ROOT / "pyproject.toml"]):
        if "__pycache__" not in file.parts:
            total.update(f"{file.relative_to(ROOT)}\0".encode())
            total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def install_package() -> None:
    """Build ckdisp in ``build/`` and install it as its users do, not in editable form.

    The prebuilt kernels of other machines than this one are left out, unless this is CI, which
    tests the whole package.
    """
    levels = "all" if os.environ.get("CI") == "true" else "native"
    with step("package", source_digest() + levels) as needed:
        if needed:
            print("make: building ckdisp (the first time takes about two minutes)", flush=True)
            run(*pip("--no-build-isolation", "--no-deps", "--force-reinstall",
                     "--config-settings=build-dir=build/venv",
                     f"--config-settings=cmake.define.CKDISP_CPU_LEVELS={levels}",
                     str(ROOT)))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
