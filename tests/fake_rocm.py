"""Small trees of shell scripts that look like a ROCm and like the CK Tile headers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from ckdisp.codegen.rocm import ck, roots
from ckdisp.codegen.rocm.archs import SETTING, SHARED_SETTINGS

VERSION = "AMD clang version 20.0.0git (roc-7.1.0)"

# Answers as hipcc or clang++ do, and compiles "kernels" into empty files.
_COMPILER = """
case " $* " in
*" --version "*) printf '%s\\n' "{version}" 'Target: x86_64' "InstalledDir: $0" ;;
*" -fno-such-flag "*) echo "clang++: error: unknown argument: '-fno-such-flag'" >&2; exit 1 ;;
*" -c "*) while [ "$1" != -o ]; do shift; done; : > "$2" ;;
esac
"""

_HIP_VERSION = """
#define HIP_VERSION_MAJOR 7
#define HIP_VERSION_MINOR 1
#define HIP_VERSION_PATCH 42
"""

_PIPELINES = "ops/gemm/pipeline"
_PROBLEM = f"{_PIPELINES}/gemm_pipeline_problem.hpp"
_SHUFFLE = "ops/epilogue/cshuffle_epilogue.hpp"
_CONV = "ops/grouped_convolution"
_FMHA = "ops/fmha/pipeline"
# What the headers of ROCm 7.1 have, as far as it is looked for.
_CK_FILES = {
    "ops/gemm.hpp": "",
    _PROBLEM: "struct UniversalGemmPipelineProblem {}; template <bool HasHotLoop_>",
    _SHUFFLE: "template <operation MemoryOperation_, bool TiledMMAPermuteN_>",
    f"{_PIPELINES}/gemm_pipeline_ag_bg_cr_comp_v5.hpp": "",
    f"{_PIPELINES}/gemm_pipeline_ag_bg_cr_comp_v6.hpp": "",
    f"{_PIPELINES}/gemm_pipeline_ag_bg_cr_comp_async.hpp": "",
    f"{_PIPELINES}/wp_pipeline_agmem_bgmem_creg_v2.hpp": "",
    f"{_PIPELINES}/tile_gemm_traits.hpp": "bool UsePersistentKernel = UsePersistentKernel_",
    "ops/gemm/kernel/gemm_multi_d_kernel.hpp": "",
    f"{_CONV}/utils/grouped_convolution_utils.hpp": "template <index_t NumGroupsToMerge_>\n"
    "struct GroupedConvTraits { bool FixedVectorSize; };",
    f"{_CONV}/kernel/grouped_convolution_forward_kernel.hpp": "index_t n_per_split = 1;",
    f"{_FMHA}/tile_fmha_traits.hpp": "template <bool kHasLogitsSoftCap_, bool kSkipMinSeqlenQ_>",
    f"{_FMHA}/block_fmha_pipeline_qr_ks_vs_async.hpp": "store(LdsSeq.at(number<k0_loops>{}));",
    f"{_FMHA}/block_fmha_pipeline_qr_ks_vs_async_trload.hpp": "",
    f"{_FMHA}/block_fmha_fwd_v3_pipeline.hpp": "",
}
OLDER = {_PROBLEM: "struct GemmPipelineProblem {};", _SHUFFLE: "template <bool kPadM_>"}
NEWER = {_PROBLEM: "struct\n UniversalGemmPipelineProblem {};", _SHUFFLE: ""}


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def make_rocm(
    root: Path,
    *,
    hipcc: bool = True,
    llvm: str = "lib/llvm/bin",
    version: str = VERSION,
    headers: bool = True,
    ck: bool = True,
) -> Path:
    """A ROCm at ``root``: compilers, HIP's headers, device libraries, and CK's headers."""
    root.mkdir(parents=True, exist_ok=True)
    if hipcc:
        script(root / "bin" / "hipcc", _COMPILER.format(version=version))
    if llvm:
        script(root / llvm / "clang++", _COMPILER.format(version=version))
        script(root / llvm / "clang", "")
        script(root / llvm / "llvm-objdump", "")
    if headers:
        (root / "include" / "hip").mkdir(parents=True)
        (root / "include" / "hip" / "hip_runtime.h").touch()
        (root / "include" / "hip" / "hip_version.h").write_text(_HIP_VERSION)
    bitcode = root / "amdgcn" / "bitcode"
    bitcode.mkdir(parents=True)
    (bitcode / "ocml.bc").write_text("math")
    if ck:
        make_ck(root / "include")
    return root


def make_ck(include: Path, changed: Mapping[str, str] = MappingProxyType({})) -> Path:
    """CK Tile headers below ``include``, but for what :data:`OLDER` or :data:`NEWER` change."""
    for name, text in {**_CK_FILES, **changed}.items():
        path = include / "ck_tile" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return include


def hide_rocm(monkeypatch: pytest.MonkeyPatch, folder: Path, path: str | None = "/nowhere") -> None:
    """Nothing is found but what a test makes: no settings, no packages, no /opt/rocm.

    ``folder`` stands for the root of the file system, ``path`` replaces ``PATH``.
    """
    monkeypatch.setattr(roots, "DEFAULT_ROOT", str(folder / "opt" / "rocm"))
    for name in ("rocm_sdk", "_rocm_sdk_core", "aiter_meta"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in (*roots.SETTINGS, ck.SETTING, SETTING, *SHARED_SETTINGS):
        monkeypatch.delenv(name, raising=False)
    if path is not None:
        monkeypatch.setenv("PATH", path)
