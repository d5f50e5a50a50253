"""Kernels that touch everything the CK Tile provider has, compiled by the real build and inspected.

Set ``CKDISP_UPDATE_GOLDEN=1`` to write their figures again after a change that is wanted.
"""

from __future__ import annotations

from pathlib import Path

import amd
import pytest
from amd_figures import check_figures, figures_of
from amd_matrix import ARCHS, convolutions, gemms, matrix

from ckdisp.code_objects import check_object, inspect
from ckdisp.codegen.arch import arch
from ckdisp.codegen.enums import (
    CONV_LAYOUT,
    ELEMENTWISE,
    LAYOUT,
    SCHEDULER,
    SPECIALIZATION,
)
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.ops import facts, op
from ckdisp.codegen.ops.conv import gpu_rules
from ckdisp.jit.build import Options, build_library

pytestmark = pytest.mark.xdist_group("amd_matrix")


@pytest.fixture(scope="module")
def libraries(kernel_cache: Path) -> dict[str, Path]:
    """Arch -> the library with its kernels."""
    hip = amd.toolchain()
    return {
        name: build_library(
            [key for key in matrix() if key.arch == name],
            Options(jobs=2, progress=False, hip=hip, cache_dir=kernel_cache, group="tile"),
        )
        for name in ARCHS
    }


def values(keys: list[KernelKey], name: str) -> set[object]:
    return {getattr(key, name) for key in keys}


def test_the_gemms_cover_everything() -> None:
    keys = gemms()
    assert all(key.check() == [] for key in keys)
    assert values(keys, "arch") == set(ARCHS)
    assert values(keys, "family") == set(op("gemm").families)
    assert values(keys, "pipeline") == set(facts.HIP_PIPELINES)
    assert values(keys, "scheduler") == set(SCHEDULER.values)
    assert values(keys, "epilogue") == set(facts.EPILOGUES["hip"])
    assert values(keys, "layout") == set(LAYOUT.values)
    assert values(keys, "elementwise") == set(ELEMENTWISE.values)
    for flag in ("persistent", "split_k", "pad_m"):
        assert values(keys, flag) == {False, True}
    pairs = {tuple(pair.split("_")[:2]) for name in ARCHS for pair in arch(name).warp_tiles}
    assert {key.multiplied for key in keys} == pairs


def test_the_convolutions_cover_everything() -> None:
    keys = convolutions()
    assert all(key.check() == [] for key in keys)
    families, layouts = op("conv").families, CONV_LAYOUT.values
    assert values(keys, "arch") == set(ARCHS)
    assert {(k.family, k.layout) for k in keys} == {(f, x) for f in families for x in layouts}
    spatial = [x for x in layouts if x != "nwgc"]
    everywhere = {(a, f, x) for a in ARCHS for f in families for x in spatial}
    assert everywhere <= {(k.arch, k.family, k.layout) for k in keys}
    assert values(keys, "pipeline") == set(gpu_rules.PIPELINES)
    assert values(keys, "specialization") == set(SPECIALIZATION.values)
    assert values(keys, "epilogue") == set(facts.EPILOGUES["hip"])
    for flag in ("split_k", "two_stage", "split_image"):
        assert values(keys, flag) == {False, True}
    assert values(keys, "groups_to_merge") > {1}
    assert {key.multiplied[0] for key in keys} == {"fp32", "fp16", "bf16", "int8", "fp8", "bf8"}


@pytest.mark.parametrize("key", matrix(), ids=lambda key: key.name)
def test_the_code_of_a_kernel_is_right(key: KernelKey, libraries: dict[str, Path]) -> None:
    assert [str(problem) for problem in check_object(libraries[key.arch], key)] == []


def test_libraries_load_and_list_their_kernels(libraries: dict[str, Path]) -> None:
    from ckdisp import Registry

    registry = Registry("matrix")
    for library in libraries.values():
        registry.add(library)
    assert {kernel.name for kernel in registry.kernels()} == {key.name for key in matrix()}


def test_figures_are_the_known_ones(libraries: dict[str, Path]) -> None:
    reports = [report for library in libraries.values() for report in inspect(library)]
    check_figures("amd_figures.json", figures_of(reports))
