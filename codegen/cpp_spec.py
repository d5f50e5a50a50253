"""Specs written in C++: compiled by the host compiler and run, so that ``#if``, constants and
comments mean what they mean in C++."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from .errors import BuildError, InvalidKey
from .headers import own_include_dirs
from .probing import run_compiler
from .toolchain import Toolchain

_SECONDS = 60
_PROGRAM = """\
#include <cstdio>

int main() {
  ckdisp::KernelSet set;
  ckdisp_kernel_set(set);
  std::fputs(set.to_json().c_str(), stdout);
}
"""


def run_cpp_spec(path: Path, toolchain: Toolchain | None = None) -> str:
    """The JSON document that the ``CKDISP_KERNEL_SET`` block of the file at ``path`` declares.

    Raises :class:`InvalidKey` for a file that cannot be read, does not compile or does not finish,
    and :class:`BuildError` without a compiler.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidKey(f"cannot read the spec {path}: {error.strerror or error}") from error
    compiler = toolchain or Toolchain.find()
    with tempfile.TemporaryDirectory(prefix="ckdisp-", ignore_cleanup_errors=True) as folder:
        source, program = Path(folder, "spec.cpp"), Path(folder, "spec")
        source.write_text(_PROGRAM, encoding="utf-8")
        command = [*compiler.command, *compiler.cxx_flags, "-std=c++17", "-O0"]
        # -include takes any file name, #include does not.
        command += [f"-I{own_include_dirs()[0]}", "-include", str(path.resolve()), str(source)]
        command += ["-o", str(program)]
        compiled = run_compiler(command)
        if compiled.returncode != 0:
            what = _first_error(compiled.stderr)
            if "CKDISP_KERNEL_SET" not in text:
                what = "it has no CKDISP_KERNEL_SET block; see <ckdisp/kernel_set.hpp>"
            raise InvalidKey(f"{path} does not compile: {what}")
        return _run(program, path)


def _run(program: Path, path: Path) -> str:
    try:
        ran = subprocess.run(
            [str(program)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InvalidKey(f"{path} did not finish declaring kernels in {_SECONDS} s") from None
    except OSError as error:
        raise BuildError(f"cannot run the compiled spec of {path}: {error}") from error
    if ran.returncode != 0:
        text = ran.stderr.strip().splitlines()
        detail = f": {text[-1]}" if text else ""
        raise InvalidKey(f"{path} stopped with code {ran.returncode} while declaring{detail}")
    return ran.stdout


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0] if lines else "no message")
