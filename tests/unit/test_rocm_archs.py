"""Which GPU archs are built when a declaration names none."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from fake_rocm import hide_rocm, make_rocm, script

from ckdisp import InvalidKey, KernelSet
from ckdisp.codegen.declare import resolve_archs
from ckdisp.codegen.rocm.archs import SETTING, SHARED_SETTINGS, default_archs, find_archs

ENTRY = {"family": "gemm.standard", "provider": "ck_tile", "where": {"dtype": "fp16"}}


@pytest.fixture(autouse=True)
def no_rocm_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_rocm(monkeypatch, tmp_path)


def test_settings_in_order() -> None:
    names = (SETTING, *SHARED_SETTINGS)
    archs = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
    env = dict(zip(names, archs, strict=True))
    for name, arch in zip(names, archs, strict=True):
        found = find_archs(env)
        assert (found.names, found.origin) == ((arch,), f"{name}={arch}")
        env[name] = ""
    assert find_archs(env).names == ()


def test_separators_features_and_repetition() -> None:
    text = "gfx90a:sramecc+:xnack-;gfx942,gfx950  gfx942:xnack-\n;;"
    found = find_archs({"PYTORCH_ROCM_ARCH": text})
    assert found.names == ("gfx90a", "gfx942", "gfx950")
    assert found.left_out == () and found.warning() == ""


def test_settings_of_others_may_name_more() -> None:
    text = "gfx900;gfx942;gfx1030:xnack+;generic;gfx942:fast+"
    found = find_archs({"GPU_TARGETS": text})
    assert found.names == ("gfx942",)
    assert found.left_out == ("gfx900", "gfx1030:xnack+", "generic", "gfx942:fast+")
    assert found.warning().startswith(f"GPU_TARGETS={text}: gfx900, gfx1030:xnack+, generic, ")
    assert "it knows gfx908, gfx90a, gfx942" in found.warning()


def test_the_own_setting_must_be_right() -> None:
    with pytest.raises(InvalidKey, match=r"CKDISP_ARCHS=gfx924: unknown arch .*did you mean 'gfx9"):
        find_archs({SETTING: "gfx924"})
    with pytest.raises(InvalidKey, match="cannot read 'fast"):
        find_archs({SETTING: "gfx942:fast+"})
    assert find_archs({SETTING: "gfx942;x86-64-v3;cpu"}).names == ("gfx942",)


def test_cmake_may_turn_its_variable_off() -> None:
    env = {"CMAKE_HIP_ARCHITECTURES": "OFF", "AMDGPU_TARGETS": "gfx950"}
    assert find_archs(env).origin == "AMDGPU_TARGETS=gfx950"


@pytest.mark.parametrize("tool", ["lib/llvm/bin/amdgpu-arch", "bin/rocm_agent_enumerator"])
def test_devices_as_the_tools_of_rocm_tell(tmp_path: Path, tool: str) -> None:
    root = make_rocm(tmp_path / "rocm")
    env = {"ROCM_PATH": str(root)}
    assert find_archs(env).names == ()
    script(root / tool, "printf 'gfx000\\ngfx942:sramecc+:xnack-\\ngfx942\\ngfx1036\\n'")
    found = find_archs(env)
    assert found.names == ("gfx942",)
    assert (found.origin, found.left_out) == ("the devices present", ("gfx1036",))
    native = find_archs({**env, "CMAKE_HIP_ARCHITECTURES": "gfx90a;native"})
    assert native.names == ("gfx90a", "gfx942")


def test_tools_that_fail_are_passed_over(tmp_path: Path) -> None:
    root = make_rocm(tmp_path / "rocm")
    script(root / "lib/llvm/bin/amdgpu-arch", "echo 'failed to load libhsa' >&2; exit 1")
    (root / "bin" / "amdgpu-arch").write_bytes(b"\x7fELF broken")
    (root / "bin" / "amdgpu-arch").chmod(0o755)
    path = script(tmp_path / "bin" / "rocm_agent_enumerator", "echo gfx1201").parent
    env = {"ROCM_PATH": str(root), "PATH": str(path)}
    assert find_archs(env).names == ("gfx1201",)
    assert find_archs({"PATH": str(path)}).names == ("gfx1201",)  # a runtime without a compiler


def test_no_arch_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InvalidKey) as caught:
        default_archs({})
    for part in (SETTING, *SHARED_SETTINGS, "no AMD GPU was found on this machine.", "e.g. gfx942"):
        assert part in str(caught.value)
    with pytest.raises(InvalidKey, match="no arch: GPU_TARGETS=gfx906, and ckdisp knows none"):
        default_archs({"GPU_TARGETS": "gfx906"})
    with pytest.raises(InvalidKey, match="CMAKE_HIP_ARCHITECTURES=native, and no AMD GPU"):
        default_archs({"CMAKE_HIP_ARCHITECTURES": "native"})
    path = script(tmp_path / "rocm_agent_enumerator", "echo gfx1036").parent
    with pytest.raises(InvalidKey, match=r"no AMD GPU was found on this machine, but for gfx1036"):
        default_archs({"PATH": str(path)})


def test_declarations_of_gpu_kernels_need_no_arch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_ROCM_ARCH", "gfx942;gfx1201")
    assert resolve_archs("native", "ck_tile") == ("gfx942", "gfx1201")
    assert resolve_archs(["native", "gfx950"], "ck_tile") == ("gfx942", "gfx1201", "gfx950")
    assert not any(a.startswith("gfx") for a in resolve_archs("native", "cpu"))
    expected = KernelSet.sweep("gemm.standard", ["gfx942", "gfx1201"], where=ENTRY["where"])
    document = {"ckdisp": 1, "sets": [ENTRY]}
    assert KernelSet.from_spec(document) == expected
    assert KernelSet.from_spec(json.dumps(document), archs="native") == expected
    named = {"ckdisp": 1, "sets": [{**ENTRY, "arch": "native"}]}
    assert KernelSet.from_spec(named, archs="gfx90a") == expected
    document = {"ckdisp": 1, "sets": [{k: v for k, v in ENTRY.items() if k != "provider"}]}
    assert KernelSet.from_spec(document, provider="ck_tile") == expected
    with pytest.raises(InvalidKey, match=r"sets\[0\]: no arch"):
        KernelSet.from_spec(document)


def test_unknown_archs_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_ROCM_ARCH", "gfx900;gfx942")
    with pytest.warns(UserWarning, match="PYTORCH_ROCM_ARCH=gfx900;gfx942: gfx900 left out"):
        assert resolve_archs("native", "ck_tile") == ("gfx942",)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve_archs("gfx942", "ck_tile") == ("gfx942",)
