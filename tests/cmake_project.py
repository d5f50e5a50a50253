"""Configure, build and run the small projects of ``tests/packages``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import ninja

import ckdisp

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "tests" / "packages"
NINJA = Path(ninja.BIN_DIR) / "ninja"
CPP_FLAGS = "-O1"  # what the tests compile besides kernels need not be fast


def cmake_dir() -> Path:
    """The CMake folder of the installed package."""
    folders = [Path(p) / "cmake" for p in ckdisp.__path__]
    return next(f for f in folders if (f / "ckdispConfig.cmake").is_file())


def clean_environment(**changes: str) -> dict[str, str]:
    """The environment without settings that would reach the compiler or CMake."""
    unwanted = ("CKDISP_", "CMAKE_", "MAKE", "MFLAGS", "SKBUILD", "PYTEST_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
    for name in ("CXX", "CXXFLAGS", "VERBOSE", "NINJA_STATUS"):
        kept.pop(name, None)
    folders = [str(Path(sys.executable).parent), str(NINJA.parent), kept.get("PATH", "")]
    return {**kept, "PATH": os.pathsep.join(folders), **changes}


def find_cmake() -> str:
    path = shutil.which("cmake", path=clean_environment()["PATH"])
    assert path is not None, "the `test` extra installs cmake"
    return path


@dataclass(frozen=True)
class Result:
    """Exit status and everything printed, of one command."""

    status: int
    text: str

    def ok(self) -> Result:
        assert self.status == 0, self.text
        return self

    def failed(self) -> Result:
        assert self.status != 0, self.text
        return self

    @property
    def flat(self) -> str:
        """The text with line breaks and indentation, which CMake chooses, as single blanks."""
        return re.sub(r"\s+", " ", self.text)


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> Result:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return Result(done.returncode, done.stdout)


@dataclass
class Project:
    """A copy of a project and its build folder."""

    source: Path
    build: Path
    generator: str = "Ninja"
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def copy(cls, name: str, folder: Path, generator: str = "Ninja", **settings: str) -> Project:
        """The project ``name`` copied below ``folder``; nothing is configured yet."""
        source = folder / name
        shutil.copytree(PACKAGES / name, source)
        return cls(source, folder / "build", generator, settings)

    def configure(self, *arguments: str) -> Result:
        values = {"CMAKE_CXX_FLAGS": CPP_FLAGS, "Python_EXECUTABLE": sys.executable}
        if self.generator == "Ninja":
            values["CMAKE_MAKE_PROGRAM"] = str(NINJA)
        defines = [f"-D{k}={v}" for k, v in {**values, **self.settings}.items()]
        places = ("-S", self.source, "-B", self.build, "-G", self.generator)
        return run(find_cmake(), *places, *defines, *arguments)

    def make(self, *arguments: str, **environment: str) -> Result:
        return run(
            find_cmake(), "--build", self.build, "--parallel", "2", *arguments, **environment
        )
