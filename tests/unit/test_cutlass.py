"""The cutlass provider without a GPU: keys, rules, units, the search for nvcc and CUTLASS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cutlass_keys import BF16, FP8, TRANSPOSED, UNALIGNED

from ckdisp.codegen.arch import arch
from ckdisp.codegen.cuda import CudaToolchain, NotInstalled
from ckdisp.codegen.errors import BuildError, InvalidKey
from ckdisp.codegen.generate import generate
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.make import make_key
from ckdisp.codegen.rules import check_all


@pytest.mark.parametrize("values", [BF16, FP8, TRANSPOSED, UNALIGNED], ids=str)
def test_keys_that_are_legal(values):
    key = make_key("gemm.standard", **values)
    assert key.provider == "cutlass" and key.check() == []
    assert type(key).from_name(key.name) == key


def test_the_curated_set_covers_every_problem():
    kernels = list(KernelSet.sweep("gemm.standard", arch="sm_90a", where={"dtype": ["fp16"]}))
    assert check_all(kernels) == [[] for _ in kernels]
    for layout in ("rcr", "rrr", "crr", "ccr"):
        some = [k for k in kernels if k.layout == layout]
        assert {k.pipeline for k in some} == {"cooperative", "pingpong", "unaligned"}
        assert min(k.tile[0] for k in some if k.pipeline == "pingpong") == 16
    narrow = KernelSet.sweep("gemm.standard", arch="sm_90a", where={"dtype": ["fp8"]})
    assert {k.layout for k in narrow if k.pipeline != "unaligned"} == {"rcr"}
    assert {k.layout for k in narrow if k.pipeline == "unaligned"} == {"rcr", "rrr", "crr", "ccr"}


def test_other_families_have_no_kernels():
    for family in ("gemm.multi_d", "conv.fwd", "fmha.fwd"):
        with pytest.raises(InvalidKey, match=r"cutlass has kernels there of gemm\.standard only"):
            KernelSet.sweep(family, arch="sm_90a")
    assert not arch("sm_90a").serves("conv.fwd") and arch("gfx942").serves("conv.fwd")


@pytest.fixture
def toolkit(tmp_path: Path) -> tuple[Path, Path]:
    """Folders that look like a CUDA toolkit and the headers of CUTLASS."""
    root, headers = tmp_path / "cuda", tmp_path / "cutlass"
    for path in ("include/crt", "include/cccl/cuda"):
        (root / path).mkdir(parents=True)
    (root / "bin").mkdir()
    nvcc = root / "bin" / "nvcc"
    nvcc.write_text("#!/bin/sh\necho nvcc of a test\n")
    nvcc.chmod(0o755)
    (root / "include" / "cuda.h").write_text("#define CUDA_VERSION 13000\n")
    (headers / "cutlass").mkdir(parents=True)
    version = "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n"
    (headers / "cutlass" / "version.h").write_text(version)
    return root, headers


def settings(toolkit: tuple[Path, Path]) -> dict[str, str]:
    root, headers = toolkit
    return {"CUDA_HOME": str(root), "CKDISP_CUTLASS_INCLUDE": str(headers), "PATH": ""}


def test_the_toolkit_that_is_taken(toolkit):
    found = CudaToolchain.find(env=settings(toolkit))
    assert (found.root, found.origin, found.version) == (str(toolkit[0]), "CUDA_HOME", (13, 0))
    assert found.cutlass_version == (4, 2) and found.include_dirs[0] == str(toolkit[1])
    assert len(found.identity()) == 64
    nowhere = settings(toolkit) | {"CKDISP_CUDA_PATH": "/nowhere"}
    with pytest.raises(BuildError, match="CKDISP_CUDA_PATH=/nowhere: there is no such folder"):
        CudaToolchain.find(env=nowhere)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("cuda/include/cuda.h", "#define CUDA_VERSION 11080\n", "it is CUDA 11.8"),
        ("cutlass/cutlass/version.h", "#define CUTLASS_MAJOR 3\n", "it is CUTLASS 3.0"),
    ],
)
def test_a_toolkit_that_is_too_old(toolkit, file, text, words):
    (toolkit[0].parent / file).write_text(text)
    with pytest.raises(BuildError, match=words) as caught:
        CudaToolchain.find(env=settings(toolkit))
    assert not isinstance(caught.value, NotInstalled)


def test_what_is_generated(toolkit, tmp_path):
    kernels = KernelSet.sweep(
        "gemm.standard", arch="sm_90a", where={"dtype": ["bf16"], "layout": ["rcr"]}
    )
    cuda = CudaToolchain.find(env=settings(toolkit))
    out = tmp_path / "out"
    generate(kernels, out, emit=("ninja",), name="nv", cuda=cuda)
    names = kernels.names()
    assert sorted(p.stem for p in (out / "units").glob("*.cu")) == sorted(names)
    (host,) = (out / "host").glob("*.cpp")
    assert host.read_text().count("#include") == len(names)
    commands = (out / "build.ninja").read_text()
    assert "-gencode=arch=compute_90a,code=sm_90a" in commands and "-arch=sm_90a" not in commands
    assert "-D__CUDACC_VER_MAJOR__=13" in commands
    assert json.loads((out / "manifest.json").read_text())["job_memory_mb"] == 4000


def test_a_machine_without_nvcc_leaves_kernels_out(tmp_path, monkeypatch):
    from ckdisp.codegen import compilers

    def missing(keys):
        raise NotInstalled("no usable nvcc: none in this test")

    monkeypatch.setattr("ckdisp.codegen.generate.find_cuda", missing)
    nvidia = KernelSet.sweep("gemm.standard", arch="sm_90a", where={"dtype": ["bf16"]})
    both = nvidia | KernelSet.sweep("gemm.standard", arch="generic", where={"dtype": ["fp32"]})
    with pytest.raises(NotInstalled):
        generate(both, tmp_path / "a", emit=("make",))
    result = generate(both, tmp_path / "b", emit=("make",), missing="skip")
    assert {kernel.name for kernel in result.left_out} == set(nvidia.names())
    assert all("none in this test" in kernel.reason for kernel in result.left_out)
    assert compilers.split("cuda", [(k.name, k) for k in both], "why")[0]


def test_doctor_says_what_was_found_and_what_to_do(toolkit, monkeypatch):
    from ckdisp.cli.cuda_checks import build_checks

    for name, value in settings(toolkit).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CKDISP_CUDA_PATH", raising=False)
    nvcc, cutlass = build_checks()
    assert (nvcc.name, nvcc.status, cutlass.name, cutlass.status) == ("nvcc", "ok", "cutlass", "ok")
    assert nvcc.found == f"CUDA 13.0 in {toolkit[0]} (CUDA_HOME)"
    monkeypatch.setenv("CKDISP_CUTLASS_INCLUDE", "/nowhere")
    _, cutlass = build_checks()
    assert cutlass.status == "warn" and "pip install --no-deps nvidia-cutlass" in cutlass.todo
    assert "/nowhere (CKDISP_CUTLASS_INCLUDE): it has no cutlass/version.h" in cutlass.todo
