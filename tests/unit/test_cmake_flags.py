"""What CMake keeps of a compiler's answers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ckdisp.codegen.toolchain import which

HELPER = Path(__file__).resolve().parents[2] / "cmake" / "CkdispCheckFlags.cmake"
PROJECT = """\
cmake_minimum_required(VERSION 3.24)
project(flags LANGUAGES CXX)
include("{helper}")
if(NOT "$ENV{{FULL}}" STREQUAL "")
  file(TOUCH "$ENV{{FULL}}")
endif()
ckdisp_check_flags("-O1" plain)
ckdisp_check_flags("-fno-such-flag" unknown)
message(STATUS "plain=${{plain}} unknown=${{unknown}}.")
"""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake")
def test_a_failure_that_passes_is_not_kept(tmp_path: Path) -> None:
    full = tmp_path / "full"
    compiler = tmp_path / "c++"
    compiler.write_text(f"#!/bin/sh\n[ -e '{full}' ] && exit 1\nexec {which('c++')} \"$@\"\n")
    compiler.chmod(0o755)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(helper=HELPER))
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build"]
    environment = {**os.environ, "CXX": str(compiler), "CMAKE_CXX_COMPILER_LAUNCHER": ""}

    def configure(**extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env={**environment, **extra}, capture_output=True, text=True, check=False
        )

    failed = configure(FULL=str(full))
    assert failed.returncode != 0 and "compiles nothing at the moment" in failed.stderr
    full.unlink()
    assert "plain=1 unknown=." in configure().stdout
