"""``ckdisp doctor`` on building for AMD GPUs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_rocm import hide_rocm, make_ck, make_rocm, script

from ckdisp.cli.app import app
from ckdisp.codegen.rocm.archs import SETTING


@pytest.fixture(autouse=True)
def no_rocm_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_rocm(monkeypatch, tmp_path)


def checks() -> dict[str, dict[str, str]]:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    return {check["name"]: check for check in json.loads(result.stdout)["checks"]}


def test_nothing_of_amd_is_a_warning_that_says_how_to_get_it() -> None:
    found = checks()
    assert found["rocm"]["status"] == found["ck headers"]["status"] == "warn"
    assert "CPUs need no HIP compiler" in found["rocm"]["todo"]
    assert "amd-aiter" in found["ck headers"]["todo"]
    assert not {"hip compiler", "gpu archs", "other rocm"} & set(found)


def test_what_won_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_rocm(tmp_path / "rocm")
    monkeypatch.setenv("ROCM_PATH", str(root))
    monkeypatch.setenv("GPU_TARGETS", "gfx942;gfx1201")
    found = checks()
    assert found["rocm"]["found"] == (
        f"HIP 7.1.42, AMD clang 20.0.0git in {root} (ROCM_PATH={root})"
    )
    assert found["hip compiler"]["found"].startswith(f"{root}/bin/hipcc, with {root}/lib/llvm/bin")
    assert f"{root}/include (the ROCm at {root}): comp_async, " in found["ck headers"]["found"]
    lacks = "; without tails_in_kernel, conv_explicit_gemm, fmha_async_barrier, "
    assert lacks in found["ck headers"]["found"]
    assert found["gpu archs"]["found"] == "gfx942 gfx1201 (GPU_TARGETS=gfx942;gfx1201)"
    names = ("rocm", "hip compiler", "ck headers", "gpu archs")
    assert {found[name]["status"] for name in names} == {"ok"}
    assert "other rocm" not in found


def test_what_was_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_rocm(tmp_path / "rocm")
    make_rocm(tmp_path / "opt" / "rocm", headers=False)
    monkeypatch.setenv("CKDISP_ROCM_PATH", str(root))
    monkeypatch.setenv("PATH", f"{root}/bin")
    monkeypatch.setenv("CKDISP_CK_INCLUDE", str(make_ck(tmp_path / "ck")))
    found = checks()
    assert found["other rocm"]["found"] == (
        f"passed over: {tmp_path}/opt/rocm (has no HIP headers: "
        f"{tmp_path}/opt/rocm/include/hip/hip_runtime.h is missing)"
    )
    assert found["other headers"]["found"] == f"passed over: the ROCm at {root}"


def test_what_is_wrong_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PATH", "/no/rocm")
    found = checks()
    assert "no HIP compiler at ROCM_PATH=/no/rocm" in found["rocm"]["todo"]
    root = make_rocm(tmp_path / "rocm")
    script(
        root / "bin" / "hipcc",
        'case "$*" in *--version*) echo clang version 1;;\n'
        "*) echo 'error: cannot find ROCm device library' >&2; exit 1;; esac",
    )
    monkeypatch.setenv("ROCM_PATH", str(root))
    monkeypatch.setenv("CKDISP_CK_INCLUDE", "/no/ck")
    found = checks()
    assert "CKDISP_CK_INCLUDE=/no/ck" in found["ck headers"]["todo"]
    assert found["hip compiler"]["status"] == "warn"
    monkeypatch.delenv("CKDISP_CK_INCLUDE")
    assert "cannot find ROCm device library" in checks()["hip compiler"]["todo"]


def test_archs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_rocm(tmp_path / "rocm")
    monkeypatch.setenv("ROCM_PATH", str(root))
    assert "CKDISP_ARCHS=gfx942" in checks()["gpu archs"]["todo"]
    tool = script(root / "lib/llvm/bin/amdgpu-arch", "echo gfx950")
    assert checks()["gpu archs"]["found"] == "gfx950 (the devices present)"
    script(tool, "echo gfx1036")
    assert "gfx1036 left out" in checks()["gpu archs"]["todo"]
    monkeypatch.setenv("PYTORCH_ROCM_ARCH", "gfx900;gfx942")
    found = checks()["gpu archs"]
    assert (found["status"], found["found"]) == (
        "warn",
        "gfx942 (PYTORCH_ROCM_ARCH=gfx900;gfx942)",
    )
    monkeypatch.setenv(SETTING, "gfx924")
    assert "did you mean 'gfx942'" in checks()["gpu archs"]["todo"]
