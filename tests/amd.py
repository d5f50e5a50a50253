"""The AMD toolchain that tests compile with, or the reason why there is none."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ckdisp.codegen.errors import BuildError
from ckdisp.codegen.rocm import HipToolchain

# Written out because HIP's own headers would make compiling ten times as long.
TYPES = """
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
#define GLOBAL extern "C" __attribute__((global))
typedef float floats __attribute__((ext_vector_type(16)));
typedef _Float16 halves __attribute__((ext_vector_type(4)));
"""
# `multiply` has one matrix instruction, `copy` has none.
KERNELS = f"""{TYPES}
GLOBAL __attribute__((amdgpu_flat_work_group_size(1, 256)))
void multiply(halves* a, floats* c, int n, short m) {{
#ifdef __gfx942__
  c[n] = __builtin_amdgcn_mfma_f32_32x32x8f16(a[0], a[m], c[1], 0, 0, 0);
#endif
}}
GLOBAL void copy(int* to, int* from) {{ *to = *from; }}
"""


def missing(reason: str) -> None:
    """Skip the test; in CI, where everything has to be there, it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def toolchain() -> HipToolchain:
    """The toolchain at ``ROCM_PATH``, or wherever else ckdisp finds one."""
    found = _find()
    if isinstance(found, str):
        missing(f"no AMD toolchain; `make amd-toolchain` installs one. {found}")
    assert isinstance(found, HipToolchain)
    return found


@functools.cache
def _find() -> HipToolchain | str:
    try:
        return HipToolchain.find()
    except BuildError as error:
        return str(error)


def stub_runtime() -> Path:
    """The HIP runtime of the toolchain, if it is the stub that emulates devices."""
    library = Path(toolchain().root) / "lib" / "libamdhip64.so.7"
    if not library.exists() or b"CKDISP_STUB_DEVICES" not in library.read_bytes():
        missing(f"{library} is not the stub runtime that `make amd-toolchain` installs")
    return library


def compile_kernels(output: Path, *archs: str, flags: Sequence[str] = ()) -> Path:
    """A bundle of :data:`KERNELS` for ``archs``; ``flags`` may ask for another form."""
    source = output.with_suffix(".hip")
    source.write_text(KERNELS)
    command = [*toolchain().command, *(f"--offload-arch={arch}" for arch in archs)]
    command += ["--offload-device-only", "-nogpuinc", "-nogpulib", "-O2", *flags]
    command += ["-c", str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


def run_with_stub(script: str, **environment: str) -> str:
    """Standard output of a Python ``script`` in a process of its own, which may load the stub."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "CKDISP_HIP_RUNTIME": str(stub_runtime()), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read_trace(file: Path) -> list[Mapping[str, Any]]:
    """What the stub wrote to ``CKDISP_STUB_TRACE``."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def kernel_cache(base: Path) -> Path:
    """The kernel cache that all tests share, also in other processes of one run.

    ``base`` is the folder for temporary files of this process. ``CKDISP_TEST_CACHE`` names a
    folder that outlives the run.
    """
    kept = os.environ.get("CKDISP_TEST_CACHE")
    parent = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return Path(kept) if kept else parent / "amd-kernels"
