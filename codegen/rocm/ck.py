"""Where the CK Tile headers are, and what this version of them has."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .roots import package_folder

SETTING = "CKDISP_CK_INCLUDE"
# Where CMake's find_package(composable_kernel) found them; set by ckdisp's own CMake code.
_PACKAGE = "CKDISP_CK_PACKAGE"
_MARK = "ck_tile/ops/gemm.hpp"
_AITER = "3rdparty/composable_kernel/include"

_PROBLEM = "ops/gemm/pipeline/gemm_pipeline_problem.hpp"
_SHUFFLE = "ops/epilogue/cshuffle_epilogue.hpp"
_CONV = "ops/grouped_convolution/utils/grouped_convolution_utils.hpp"
_CONV_FORWARD = "ops/grouped_convolution/kernel/grouped_convolution_forward_kernel.hpp"
_FMHA = "ops/fmha/pipeline/tile_fmha_traits.hpp"
_FMHA_PIPELINE = "ops/fmha/pipeline/block_fmha_{}.hpp"
# Waves wait where the last step of K and the first of V have one buffer.
_BARRIER = r"LdsSeq\.at\(number<k0_loops - 1>\{\}\)\s*==\s*LdsSeq\.at\(number<k0_loops>\{\}\)"
_PIPELINE = "ops/gemm/pipeline/gemm_pipeline_ag_bg_cr_{}.hpp"
# What a header must contain for the headers to have a feature. CK carries no usable version: the
# file with its number is written by CK's own build and lacks in packages of the headers.
_FEATURES = {
    "universal_gemm": (_PROBLEM, r"\bUniversalGemmPipelineProblem\b"),
    "tails_in_kernel": (_PROBLEM, r"\A(?!.*\bHasHotLoop_).*\bUniversalGemmPipelineProblem\b"),
    "memory_operation": (_SHUFFLE, r"\bMemoryOperation_\b"),
    "permute_n": (_SHUFFLE, r"\bTiledMMAPermuteN_\b"),
    "comp_v5": (_PIPELINE.format("comp_v5"), ""),
    "comp_v6": (_PIPELINE.format("comp_v6"), ""),
    "comp_async": (_PIPELINE.format("comp_async"), ""),
    "preshuffle_v2": ("ops/gemm/pipeline/wp_pipeline_agmem_bgmem_creg_v2.hpp", ""),
    "multi_d": ("ops/gemm/kernel/gemm_multi_d_kernel.hpp", ""),
    "grouped_conv": (_CONV, r"\bGroupedConvTraits\b.*\bFixedVectorSize\b"),
    "conv_split_images": (_CONV_FORWARD, r"\bn_per_split\b"),
    "conv_merged_groups": (_CONV, r"\bNumGroupsToMerge_\b"),
    "conv_explicit_gemm": (_CONV, r"\bExplicitGemm_\b"),
    "fmha": (_FMHA, r"\bkHasLogitsSoftCap_\b.*\bkSkipMinSeqlenQ_\b"),
    "fmha_async_barrier": (_FMHA_PIPELINE.format("pipeline_qr_ks_vs_async"), _BARRIER),
    "fmha_prefill_barrier": (
        _FMHA_PIPELINE.format("batch_prefill_pipeline_qr_ks_vs_async"),
        _BARRIER,
    ),
    "fmha_trload": (_FMHA_PIPELINE.format("pipeline_qr_ks_vs_async_trload"), ""),
    "fmha_v3": (_FMHA_PIPELINE.format("fwd_v3_pipeline"), ""),
    "fmha_v3_soft_cap": (_FMHA_PIPELINE.format("fwd_v3_pipeline"), r"\bkHasLogitsSoftCap\b"),
    "fmha_sink": (_FMHA, r"\bkHasSink_\b"),
    "fmha_block_scales": (_FMHA, r"\bQScaleEnum_?\b"),
    "fmha_prefill_pages": (_FMHA, r"\bTileFmhaBatchPrefillTraits\b"),
    "persistent": ("ops/gemm/pipeline/tile_gemm_traits.hpp", r"\bUsePersistentKernel\b"),
}


@dataclass(frozen=True)
class Headers:
    """One place where the headers were looked for; usable if ``problem`` is empty."""

    origin: str
    setting: bool
    folder: str = ""
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.origin} ({self.problem})" if self.problem else self.origin


def candidates(ck: str | None, root: str, env: Mapping[str, str]) -> Iterator[Headers]:
    """Every place, best first: settings, CMake's find, the ROCm at ``root``, ``amd-aiter``."""
    if ck:
        yield _inspect(ck, f"the CK setting {ck}", True)
    value = env.get(SETTING, "").strip()
    if value:
        yield _inspect(value, f"{SETTING}={value}", True)
    value = env.get(_PACKAGE, "").strip()
    if value:
        yield _inspect(value, f"find_package(composable_kernel): {value}", False)
    if root:
        yield _inspect(root, f"the ROCm at {root}", False)
    package = package_folder("aiter_meta")
    if package is None:
        yield Headers("the package amd-aiter", False, problem="not installed")
    else:
        yield _inspect(str(package / _AITER), f"the package amd-aiter: {package}", False)


def _inspect(place: str, origin: str, setting: bool) -> Headers:
    """``place`` may be the include folder or the checkout or prefix that holds it."""
    place = os.path.abspath(os.path.expanduser(place))
    for folder in (place, os.path.join(place, "include")):
        if os.path.isfile(os.path.join(folder, _MARK)):
            return Headers(origin, setting, folder)
    problem = f"no {_MARK} there" if os.path.isdir(place) else "there is no such folder"
    return Headers(origin, setting, place, problem)


@functools.cache
def features(include: str) -> frozenset[str]:
    """The names of what the headers at ``include`` have."""
    return frozenset(
        name for name, (file, words) in _FEATURES.items() if _has(include, file, words)
    )


def _has(include: str, file: str, words: str) -> bool:
    try:
        text = Path(include, "ck_tile", file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return re.search(words, text, re.S) is not None


def known_features() -> tuple[str, ...]:
    return tuple(_FEATURES)
