"""Kernels for NVIDIA GPUs, compiled and asked without a driver. Needs nvcc and CUTLASS's headers;
values need a device of sm_90a."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ckdisp
from ckdisp.codegen.cuda import CudaToolchain
from ckdisp.codegen.errors import BuildError

pytestmark = pytest.mark.xdist_group("cutlass")

try:
    CudaToolchain.find()
    MISSING = ""
except BuildError as error:
    MISSING = str(error)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> ckdisp.Registry:
    """The kernel that compiles fast and the smallest one that loads by TMA."""
    if MISSING:
        pytest.skip(MISSING)
    kernels = ckdisp.KernelSet.sweep(
        "gemm.standard", arch="sm_90a", where={"dtype": ["bf16"], "layout": ["rcr"]}
    ).filter(lambda k: k.pipeline == "unaligned" or k.tile[0] == 16)
    return kernels.build(cache_dir=tmp_path_factory.mktemp("cache"), progress=False)


def test_kernels_answer_without_a_driver(registry: ckdisp.Registry) -> None:
    disp = ckdisp.Dispatcher(registry, arch="sm_90a")

    def chosen(m: int, n: int, k: int, **more: int) -> str:
        problem = ckdisp.GemmProblem(m, n, k, dtype="bf16", layout="rcr", **more)
        return ckdisp.parse_name(disp.select(problem).name).pipeline

    assert chosen(16, 4096, 4096) == "pingpong"
    assert chosen(16, 4096, 4095) == "unaligned"
    assert chosen(16, 4095, 4096) == "unaligned"
    assert chosen(16, 4096, 0) == "unaligned"
    reasons = {
        ckdisp.parse_name(c.kernel.name).pipeline: (c.reason, c.text)
        for c in disp.explain(ckdisp.GemmProblem(16, 64, 100, dtype="bf16", layout="rcr"))
    }
    assert reasons["pingpong"][0] == "alignment"
    assert "the lines of A have 100 elements, not a multiple of 8" in reasons["pingpong"][1]
    with pytest.raises(ckdisp.UnsupportedProblem, match="split in 2 parts"):
        disp.select(ckdisp.GemmProblem(16, 64, 64, dtype="bf16", layout="rcr", k_batch=2))


def test_values_on_a_device(registry: ckdisp.Registry) -> None:
    if not any(device.arch == "sm_90a" for device in ckdisp.devices()):
        pytest.skip("there is no device of sm_90a")
    library = next(iter(registry)).library.path
    script = Path(__file__).parents[1] / "cutlass_values.py"
    done = subprocess.run(
        [sys.executable, script, str(library)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
