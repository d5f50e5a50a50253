"""``KernelSet.build``: from declared kernels to numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ckdisp


@pytest.fixture
def kernels() -> ckdisp.KernelSet:
    key = ckdisp.make_key("gemm.standard", arch="generic", dtype="fp32", layout="rrr")
    return ckdisp.KernelSet([key])


def test_a_built_set_computes(
    kernels: ckdisp.KernelSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = kernels.build(progress=False, cache_dir=tmp_path / "cache")
    assert [k.name for k in registry.kernels()] == kernels.names()
    rng = np.random.default_rng(1)
    a = rng.standard_normal((37, 53), np.float32)
    b = rng.standard_normal((53, 41), np.float32)
    result = ckdisp.Dispatcher(registry).gemm(a, b)
    np.testing.assert_allclose(result, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)
    # What is there already needs no compiler.
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    again = kernels.build(cache_dir=tmp_path / "cache")
    assert [k.name for k in again.kernels()] == kernels.names()


def test_build_keeps_the_kind_of_set(kernels: ckdisp.KernelSet) -> None:
    assert type(kernels | kernels) is type(kernels[:1]) is ckdisp.KernelSet


def test_the_cache_can_be_looked_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKDISP_CACHE_DIR", str(tmp_path / "cache"))
    assert ckdisp.jit.cache.ls() == []
    assert ckdisp.jit.cache.stats().root == tmp_path / "cache"


def test_importing_ckdisp_touches_no_cache(tmp_path: Path) -> None:
    code = "import ckdisp, ckdisp.kernel_set, ckdisp.jit.cache, ckdisp.jit.build"
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={"CKDISP_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/nowhere"},
    )
    assert list(tmp_path.iterdir()) == []
