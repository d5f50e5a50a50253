"""The generator as CMake runs it, for GPU kernels: archs, compilers and what is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_rocm import hide_rocm, make_rocm

from ckdisp.codegen.__main__ import main
from ckdisp.codegen.rocm.archs import SETTING

GPU = {
    "family": "gemm.standard",
    "provider": "ck_tile",
    "where": {"dtype": "fp16", "layout": "rcr", "tile": [64, 64, 64], "pipeline": "compv3"},
}
CPU = {"family": "gemm.standard", "arch": "generic", "where": {"dtype": "fp32", "layout": "rrr"}}


@pytest.fixture(autouse=True)
def no_rocm_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_rocm(monkeypatch, tmp_path, "/usr/bin:/bin")


class Lab:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def generate(self, *entries: dict[str, object], options: str = "") -> tuple[int, str, str]:
        """Exit status, standard output and standard error of generating from a spec."""
        spec = self.folder / "spec.json"
        spec.write_text(json.dumps({"ckdisp": 1, "sets": entries}))
        out = ["--out", str(self.folder / "out"), "--emit", "cmake", "--include", "/headers"]
        status = main(["generate", "--spec", str(spec), *out, *options.split()])
        return (status, *self._capsys.readouterr())

    def archs(self) -> list[str]:
        document = json.loads((self.folder / "out" / "manifest.json").read_text())
        return [kernel["key"]["arch"] for kernel in document["kernels"]]


@pytest.fixture
def lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Lab:
    return Lab(tmp_path, capsys)


def test_archs_of_settings_and_the_compiler_are_named(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_rocm(lab.folder / "rocm")
    monkeypatch.setenv("ROCM_PATH", str(root))
    monkeypatch.setenv("GPU_TARGETS", "gfx942;gfx1201")
    status, out, err = lab.generate(GPU, CPU)
    assert (status, err) == (0, "")
    assert "ckdisp_kernels: 4 kernels, 1 for gfx942, 1 for gfx1201, 2 for generic\n" in out
    assert f"HIP compiler: {root}/bin/hipcc, HIP 7.1.42, AMD clang 20" in out
    assert f"(ROCM_PATH={root})\nCK Tile headers: {root}/include (the ROCm at {root})\n" in out
    assert set(lab.archs()) == {"gfx942", "gfx1201", "generic"}


def test_archs_that_are_not_known_are_warned_of(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PATH", str(make_rocm(lab.folder / "rocm")))
    monkeypatch.setenv("PYTORCH_ROCM_ARCH", "gfx900;gfx942")
    status, _, err = lab.generate(GPU, GPU)
    assert status == 0
    assert err.startswith("warning: PYTORCH_ROCM_ARCH=gfx900;gfx942: gfx900 left out")
    assert err.count("\n") == 1
    assert lab.archs() == ["gfx942"]


def test_without_a_compiler_gpu_kernels_are_an_error_or_left_out(lab: Lab) -> None:
    status, _, err = lab.generate({**GPU, "arch": "gfx942"}, CPU)
    assert status == 2
    assert err.startswith("error: no usable HIP compiler: tried CKDISP_ROCM_PATH, ROCM_PATH, ")
    status, out, err = lab.generate({**GPU, "arch": "gfx942"}, CPU, options="--missing skip")
    assert status == 0
    assert err.startswith("warning: 1 kernel left out: no usable HIP compiler: tried ")
    assert "Left out: gemm_standard_cktile_gfx942_fp16_" in err
    assert "2 kernels, 2 for generic\n" in out
    assert lab.archs() == ["generic", "generic"]


def test_nothing_left_is_an_empty_library(lab: Lab) -> None:
    status, out, err = lab.generate({**GPU, "arch": "gfx942"}, options="--missing skip")
    assert status == 0 and "1 kernel left out" in err
    assert "ckdisp_kernels: 0 kernels\n" in out
    assert lab.archs() == []
    assert (lab.folder / "out" / "library.cpp").is_file()


def test_neither_arch_nor_compiler(lab: Lab) -> None:
    status, _, err = lab.generate(GPU)
    assert status == 2 and "no arch: none of CKDISP_ARCHS, CMAKE_HIP_ARCHITECTURES, " in err
    status, _, err = lab.generate(GPU, options="--missing skip")
    assert status == 0 and "1 kernel left out: no usable HIP compiler" in err


def test_an_arch_is_still_asked_for_where_kernels_could_be_compiled(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_PATH", str(make_rocm(lab.folder / "rocm")))
    status, _, err = lab.generate(GPU, options="--missing skip")
    assert status == 2 and "no arch" in err


def test_a_wrong_setting_is_not_passed_over(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PATH", "/no/rocm")
    assert lab.generate(CPU, options="--missing skip")[0] == 0
    status, _, err = lab.generate({**GPU, "arch": "gfx942"}, options="--missing skip")
    assert status == 2 and "no HIP compiler at ROCM_PATH=/no/rocm: there is no such folder" in err


def test_presets_of_gpu_kernels_need_no_arch(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["generate", "--out", str(lab.folder / "out"), "--emit", "cmake"]
    arguments += ["--preset", "gemm.fp16_rcr_essential"]
    monkeypatch.setenv("ROCM_PATH", str(make_rocm(lab.folder / "rocm")))
    monkeypatch.setenv(SETTING, "gfx950")
    assert main(arguments) == 2
    assert "a preset names no arch" in capsys.readouterr().err
    assert main([*arguments, "--provider", "ck_tile"]) == 0
    assert set(lab.archs()) == {"gfx950"}
