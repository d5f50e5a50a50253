"""The examples run as their readers would run them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from cmake_project import ROOT, Project, cmake_dir, run

EXAMPLES = ROOT / "examples"


def test_gemm(tmp_path: Path) -> None:
    for _ in range(2):  # the second run takes its kernels from the cache
        text = run(sys.executable, EXAMPLES / "gemm.py", CKDISP_CACHE_DIR=str(tmp_path)).ok().text
        assert "the first is gemm_standard_cpu_" in text
    assert len(list((tmp_path / "libraries").rglob("*.so"))) == 1


def test_conv(kernel_cache: Path) -> None:
    text = run(sys.executable, EXAMPLES / "conv.py", CKDISP_CACHE_DIR=str(kernel_cache)).ok().text
    assert "a depthwise layer runs conv_fwd_cpu_" in text
    assert "_direct_" in text


def test_torch_attention(kernel_cache: Path) -> None:
    pytest.importorskip("torch")
    example = EXAMPLES / "torch_attention.py"
    text = run(sys.executable, example, CKDISP_CACHE_DIR=str(kernel_cache)).ok().text
    assert "gradients of 131584 parameters agree" in text
    assert "a window of 17 keys: lse of " in text


@pytest.mark.xdist_group("packages")
def test_cmake(tmp_path: Path) -> None:
    source = tmp_path / "app"
    shutil.copytree(EXAMPLES / "cmake", source)
    project = Project(source, tmp_path / "build", settings={"ckdisp_DIR": str(cmake_dir())})
    project.configure().ok()
    project.make().ok()
    text = run(project.build / "app").ok().text
    assert "chose gemm_multid_cpu_" in text
    assert "relu_d1" in text
