"""Finding ROCm, its compiler and the CK Tile headers, on every route."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from fake_rocm import NEWER, OLDER, hide_rocm, make_ck, make_rocm, script

from ckdisp.codegen.errors import BuildError
from ckdisp.codegen.rocm import HipToolchain

NOWHERE = {"PATH": "/nowhere"}


@pytest.fixture(autouse=True)
def no_rocm_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_rocm(monkeypatch, tmp_path, path=None)


def site_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *packages: str) -> Path:
    """A folder of installed packages, whose modules must not be imported."""
    site = tmp_path / "site-packages"
    for package in packages:
        monkeypatch.delitem(sys.modules, package, raising=False)
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(site))
    return site


def test_settings_in_order(tmp_path: Path) -> None:
    names = ("argument", "CKDISP_ROCM_PATH", "ROCM_PATH", "HIP_PATH")
    made = {name: str(make_rocm(tmp_path / name)) for name in names}
    env = {name: made[name] for name in names[1:]}
    found = HipToolchain.find(made["argument"], env=env)
    assert found.root == made["argument"]
    assert found.origin == f"the ROCm setting {made['argument']}"
    for name in names[1:]:
        found = HipToolchain.find(env=env)
        assert found.root == made[name]
        assert found.origin == f"{name}={made[name]}"
        assert found.compiler == f"{made[name]}/bin/hipcc"
        env[name] = " "  # a setting that is empty is none
    with pytest.raises(BuildError, match="no usable HIP compiler"):
        HipToolchain.find(env=env)


def test_what_is_known_of_a_rocm(tmp_path: Path) -> None:
    root = make_rocm(tmp_path / "rocm")
    found = HipToolchain.find(str(root), env={})
    assert found.version == "HIP 7.1.42, AMD clang 20.0.0git"
    assert found.llvm_bin == str(root / "lib/llvm/bin")
    assert found.flags == (f"--rocm-path={root}", f"--hip-path={root}")
    assert found.command == (found.compiler, *found.flags)
    assert found.ck_include == str(root / "include")
    assert found.ck_origin == f"the ROCm at {root}"
    assert found.tool("llvm-objdump") == f"{found.llvm_bin}/llvm-objdump"
    with pytest.raises(BuildError, match=r"llvm-nm is not in .*rocm-llvm"):
        found.tool("llvm-nm")


def test_clang_takes_the_place_of_a_missing_hipcc(tmp_path: Path) -> None:
    root = make_rocm(tmp_path / "rocm", hipcc=False, llvm="llvm/bin")
    found = HipToolchain.find(str(root), env={})
    assert found.compiler == f"{root}/llvm/bin/clang++"
    paths = (f"--rocm-path={root}", f"--hip-path={root}")
    assert found.flags == ("-x", "hip", *paths, "-isystem", f"{root}/include")
    os.symlink("clang++", root / "llvm" / "bin" / "amdclang++")
    assert HipToolchain.find(str(root), env={}).compiler == f"{root}/llvm/bin/amdclang++"


@pytest.mark.parametrize("compiler", ["bin/hipcc", "lib/llvm/bin/clang++"])
def test_a_setting_may_name_the_compiler(tmp_path: Path, compiler: str) -> None:
    root = make_rocm(tmp_path / "rocm")
    found = HipToolchain.find(env={"CKDISP_ROCM_PATH": f"{root}/{compiler}"})
    assert (found.root, found.compiler) == (str(root), f"{root}/{compiler}")


def test_debian_clang_outside_of_rocm(tmp_path: Path) -> None:
    root = make_rocm(tmp_path / "usr", llvm="", version="Debian clang version 22.1.8 (1~deb12u1)")
    clang = script(tmp_path / "llvm-22" / "bin" / "clang++", "")
    with pytest.raises(BuildError, match=r"the clang behind .*hipcc was not found"):
        HipToolchain.find(str(root), env={})
    script(root / "bin" / "hipconfig", f'[ "$1" = --hipclangpath ] && echo "{clang.parent}"')
    found = HipToolchain.find(str(root), env={})
    assert (found.version, found.llvm_bin) == ("HIP 7.1.42, clang 22.1.8", str(clang.parent))
    other = script(tmp_path / "other" / "clang++", "")
    assert HipToolchain.find(str(root), env={"HIP_CLANG_PATH": str(other.parent)}).llvm_bin == str(
        other.parent
    )


def test_hipcc_on_the_path(tmp_path: Path) -> None:
    root = make_rocm(tmp_path / "rocm-7.1.0")
    (tmp_path / "bin").mkdir()
    os.symlink(root / "bin" / "hipcc", tmp_path / "bin" / "hipcc")
    found = HipToolchain.find(env={"PATH": str(tmp_path / "bin")})
    assert found.root == str(root)
    assert found.origin == f"{tmp_path}/bin/hipcc on PATH"
    assert found.passed_over == ("the ROCm SDK of pip (not installed)",)


def test_hipcc_on_the_path_that_only_starts_another(tmp_path: Path) -> None:
    root = make_rocm(tmp_path / "lib" / "_rocm_sdk_devel")
    script(tmp_path / "bin" / "hipcc", f'exec {root}/bin/hipcc "$@"')
    script(tmp_path / "bin" / "hipconfig", f'[ "$1" = --rocmpath ] && echo {root}')
    found = HipToolchain.find(env={"PATH": str(tmp_path / "bin")})
    assert (found.root, found.compiler) == (str(root), f"{tmp_path}/bin/hipcc")


def test_opt_rocm_comes_last(tmp_path: Path) -> None:
    root = make_rocm(tmp_path / "opt" / "rocm")
    found = HipToolchain.find(env=NOWHERE)
    assert (found.root, found.origin) == (str(root), str(root))
    assert found.passed_over == (
        "the ROCm SDK of pip (not installed)",
        "hipcc on PATH (not found)",
    )
    other = make_rocm(tmp_path / "other")
    assert HipToolchain.find(env={"PATH": f"{other}/bin"}).root == str(other)


@pytest.mark.parametrize("suffix", ["", "_linux_x86_64"])
def test_the_sdk_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    site = site_packages(tmp_path, monkeypatch, "rocm_sdk", "rocm_sdk_devel")
    core = make_rocm(site / f"_rocm_sdk_core{suffix}")
    assert HipToolchain.find(env=NOWHERE).root == str(core)
    devel = make_rocm(site / f"_rocm_sdk_devel{suffix}")
    found = HipToolchain.find(env=NOWHERE)
    assert (found.root, found.origin) == (str(devel), f"the ROCm SDK of pip: {devel}")
    make_rocm(tmp_path / "opt" / "rocm")
    assert HipToolchain.find(env=NOWHERE).root == str(devel)


def test_an_incomplete_sdk_of_pip_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_packages(tmp_path, monkeypatch, "rocm_sdk", "rocm_sdk_devel")
    with pytest.raises(BuildError, match=r'holds no compiler; pip install "rocm\[devel\]"'):
        HipToolchain.find(env=NOWHERE)
    make_rocm(site / "_rocm_sdk_core", headers=False, ck=False)
    (site / "rocm_sdk_devel" / "_devel.tar.xz").touch()
    with pytest.raises(BuildError) as caught:
        HipToolchain.find(env=NOWHERE)
    assert "its development files are packed; run `rocm-sdk init`" in str(caught.value)
    assert "hip_runtime.h is missing" in str(caught.value)
    make_rocm(tmp_path / "opt" / "rocm")
    assert len(HipToolchain.find(env=NOWHERE).passed_over) == 3


@pytest.mark.parametrize("name", ["CKDISP_ROCM_PATH", "ROCM_PATH", "HIP_PATH"])
def test_a_wrong_setting_is_an_error(tmp_path: Path, name: str) -> None:
    make_rocm(tmp_path / "opt" / "rocm")
    with pytest.raises(BuildError) as caught:
        HipToolchain.find(env={name: "/no/rocm"})
    text = str(caught.value)
    assert f"no HIP compiler at {name}=/no/rocm: there is no such folder" in text
    assert "unset it" in text
    (tmp_path / "empty").mkdir()
    with pytest.raises(BuildError, match=r"holds neither bin/hipcc nor lib/llvm/bin/clang\+\+ nor"):
        HipToolchain.find(env={name: str(tmp_path / "empty")})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exit 3", "it printed nothing"),
        ("echo 'nvcc: NVIDIA (R)'", "does not answer as a clang: nvcc: NVIDIA"),
        ("echo 'perl: not found' >&2; exit 127", "does not answer as a clang: perl: not found"),
    ],
)
def test_a_compiler_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    root = make_rocm(tmp_path / "rocm")
    script(root / "bin" / "hipcc", text)
    with pytest.raises(BuildError) as caught:
        HipToolchain.find(str(root), env={})
    assert message in str(caught.value)
    with pytest.raises(BuildError, match=r"tried .* on PATH .* does not answer as a clang"):
        HipToolchain.find(env={"PATH": f"{root}/bin"})


def test_a_compiler_that_cannot_start(tmp_path: Path) -> None:
    root = make_rocm(tmp_path / "rocm")
    (root / "bin" / "hipcc").write_bytes(b"\x7fELF broken")
    with pytest.raises(BuildError, match=r"cannot run .*hipcc.*set CKDISP_ROCM_PATH to one that"):
        HipToolchain.find(str(root), env={})


def test_headers_of_ck_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(make_rocm(tmp_path / "rocm"))
    site = site_packages(tmp_path, monkeypatch, "aiter_meta")
    aiter = make_ck(site / "aiter_meta" / "3rdparty" / "composable_kernel" / "include")
    made = {name: str(make_ck(tmp_path / name / "include")) for name in ("argument", "env", "find")}
    env = {"CKDISP_CK_INCLUDE": made["env"], "CKDISP_CK_PACKAGE": made["find"]}
    found = HipToolchain.find(root, made["argument"], env=env)
    assert (found.ck_include, found.ck_origin) == (
        made["argument"],
        f"the CK setting {made['argument']}",
    )
    found = HipToolchain.find(root, env=env)
    assert found.ck_origin == f"CKDISP_CK_INCLUDE={made['env']}"
    del env["CKDISP_CK_INCLUDE"]
    found = HipToolchain.find(root, env=env)
    assert found.ck_origin == f"find_package(composable_kernel): {made['find']}"
    assert HipToolchain.find(root, env={}).ck_origin == f"the ROCm at {root}"
    shutil.rmtree(Path(root, "include", "ck_tile"))
    found = HipToolchain.find(root, env={})
    assert found.ck_include == str(aiter)
    assert found.ck_origin == f"the package amd-aiter: {site / 'aiter_meta'}"
    assert f"the ROCm at {root} (no ck_tile/ops/gemm.hpp there)" in found.passed_over


def test_a_checkout_of_ck_will_do(tmp_path: Path) -> None:
    root = str(make_rocm(tmp_path / "rocm", ck=False))
    include = make_ck(tmp_path / "composable_kernel" / "include")
    assert HipToolchain.find(root, str(include.parent), env={}).ck_include == str(include)


def test_missing_headers_of_ck_are_explained(tmp_path: Path) -> None:
    root = str(make_rocm(tmp_path / "rocm", ck=False))
    with pytest.raises(BuildError) as caught:
        HipToolchain.find(root, env={})
    for part in ("CKDISP_CK_INCLUDE (not set)", f"the ROCm at {root}", "amd-aiter (not installed)"):
        assert part in str(caught.value)
    with pytest.raises(BuildError, match="CKDISP_CK_INCLUDE=/no/ck: there is no such folder"):
        HipToolchain.find(root, env={"CKDISP_CK_INCLUDE": "/no/ck"})
    with pytest.raises(BuildError, match=r"no ck_tile/ops/gemm\.hpp there"):
        HipToolchain.find(root, env={"CKDISP_CK_INCLUDE": root})


def test_features_are_read_from_the_headers(tmp_path: Path) -> None:
    root = str(make_rocm(tmp_path / "rocm"))
    found = HipToolchain.find(root, env={}).features()
    assert {"universal_gemm", "memory_operation", "comp_v5", "comp_async", "multi_d"} <= found
    assert "tails_in_kernel" not in found
    older = HipToolchain.find(root, str(make_ck(tmp_path / "old", OLDER)), env={}).features()
    assert not {"universal_gemm", "tails_in_kernel", "memory_operation", "permute_n"} & older
    newer = HipToolchain.find(root, str(make_ck(tmp_path / "new", NEWER)), env={}).features()
    assert {"universal_gemm", "tails_in_kernel"} <= newer and "memory_operation" not in newer
    (tmp_path / "new" / "ck_tile/ops/gemm/pipeline/gemm_pipeline_ag_bg_cr_comp_v6.hpp").unlink()
    (tmp_path / "new").rename(tmp_path / "other")
    other = HipToolchain.find(root, str(tmp_path / "other"), env={}).features()
    assert newer - other == {"comp_v6"}


def test_headers_in_which_waves_wait_are_told_apart(tmp_path: Path) -> None:
    root = str(make_rocm(tmp_path / "rocm"))
    barriers = {"fmha_async_barrier", "fmha_prefill_barrier"}
    assert not barriers & HipToolchain.find(root, env={}).features()
    waits = "if constexpr(LdsSeq.at(number<k0_loops - 1>{}) ==\n LdsSeq.at(number<k0_loops>{}))"
    for name, wanted in zip(
        ("pipeline_qr", "batch_prefill_pipeline_qr"), sorted(barriers), strict=True
    ):
        file = f"ops/fmha/pipeline/block_fmha_{name}_ks_vs_async.hpp"
        headers = make_ck(tmp_path / name, {file: waits})
        found = HipToolchain.find(root, str(headers), env={}).features()
        assert barriers & found == {wanted}


def test_flags_are_tried_before_use(tmp_path: Path) -> None:
    found = HipToolchain.find(str(make_rocm(tmp_path / "rocm")), env={})
    assert found.accepts("-O2") and found.accepts("-mllvm", "-x=1", arch="gfx1201")
    assert not found.accepts("-fno-such-flag")
    found.check()


def test_a_compiler_that_cannot_compile_is_explained(tmp_path: Path) -> None:
    root = make_rocm(tmp_path / "rocm")
    script(
        root / "bin" / "hipcc",
        'case "$*" in *--version*) echo clang version 1;;\n'
        "*) echo warning: dust; echo 'error: cannot find ROCm device library' >&2; exit 1;; esac",
    )
    found = HipToolchain.find(str(root), env={})
    with pytest.raises(BuildError, match="kernel for gfx942: error: cannot find ROCm device"):
        found.check()


def test_identity_follows_content_not_place(tmp_path: Path) -> None:
    root = make_rocm(tmp_path / "one")
    first = HipToolchain.find(str(root), env={}).identity()
    shutil.copytree(root, tmp_path / "two")
    os.utime(tmp_path / "two" / "bin" / "hipcc", (1, 1))
    assert HipToolchain.find(str(tmp_path / "two"), env={}).identity() == first
    clang = make_rocm(tmp_path / "three") / "lib" / "llvm" / "bin" / "clang++"
    clang.write_text(clang.read_text() + "# another build of the same version\n")
    assert HipToolchain.find(str(tmp_path / "three"), env={}).identity() != first


def test_device_libraries_are_part_of_the_identity(tmp_path: Path) -> None:
    first = HipToolchain.find(str(make_rocm(tmp_path / "one")), env={}).identity()
    root = make_rocm(tmp_path / "two")
    (root / "amdgcn" / "bitcode" / "ocml.bc").write_text("other")
    assert HipToolchain.find(str(root), env={}).identity() != first


def test_launchers(tmp_path: Path) -> None:
    root = str(make_rocm(tmp_path / "rocm"))
    ccache = str(script(tmp_path / "bin" / "ccache", ""))
    path = {"PATH": str(tmp_path / "bin")}
    assert HipToolchain.find(root, env=path).launcher == ()
    for name in ("CKDISP_COMPILER_LAUNCHER", "CMAKE_HIP_COMPILER_LAUNCHER"):
        found = HipToolchain.find(root, env={**path, name: "ccache;-v"})
        assert found.launcher == (ccache, "-v")
        assert found.command[:3] == (ccache, "-v", found.compiler)
    assert HipToolchain.find(root, launcher="ccache", env=path).launcher == (ccache,)
    with pytest.raises(BuildError, match="launcher nocache"):
        HipToolchain.find(root, launcher="nocache", env=path)


def test_relative_and_home_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_rocm(tmp_path / "a rocm")
    monkeypatch.chdir(tmp_path)
    assert HipToolchain.find("a rocm", env={}).root == str(tmp_path / "a rocm")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert HipToolchain.find(env={"ROCM_PATH": "~/a rocm"}).root == str(tmp_path / "a rocm")
