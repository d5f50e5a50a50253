"""Kernels that touch everything the CK Tile provider has, compiled by the real build and inspected.

Set ``CKDISP_UPDATE_GOLDEN=1`` to write their figures again after a change that is wanted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import amd
import pytest
from amd_matrix import ARCHS, convolutions, gemms, matrix

from ckdisp.code_objects import KernelReport, check_object, inspect
from ckdisp.code_objects.check import variant_text
from ckdisp.codegen.arch import arch
from ckdisp.codegen.enums import (
    CONV_LAYOUT,
    ELEMENTWISE,
    EPILOGUE,
    LAYOUT,
    PIPELINE,
    SCHEDULER,
    SPECIALIZATION,
)
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.ops import op
from ckdisp.codegen.ops.conv import gpu_rules
from ckdisp.jit.build import Options, build_library

GOLDEN = Path(__file__).parent.parent / "golden" / "amd_figures.json"
CPU_PIPELINES = {"packed", "skinny", "direct"}

pytestmark = pytest.mark.xdist_group("amd_matrix")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Arch -> the library with its kernels."""
    hip = amd.toolchain()
    cache = amd.kernel_cache(tmp_path_factory.getbasetemp())
    return {
        name: build_library(
            [key for key in matrix() if key.arch == name],
            Options(jobs=2, progress=False, hip=hip, cache_dir=cache, group="tile"),
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
    assert values(keys, "pipeline") == set(PIPELINE.values) - CPU_PIPELINES
    assert values(keys, "scheduler") == set(SCHEDULER.values)
    assert values(keys, "epilogue") == set(EPILOGUE.values)
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
    assert values(keys, "pipeline") == set(gpu_rules.PIPELINES)
    assert values(keys, "specialization") == set(SPECIALIZATION.values)
    assert values(keys, "epilogue") == set(EPILOGUE.values)
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
    version = amd.toolchain().version
    figures = dict(sorted(_figures(libraries)))
    if os.environ.get("CKDISP_UPDATE_GOLDEN"):
        text = json.dumps({"compiler": version, "kernels": figures}, indent=1)
        GOLDEN.write_text(text + "\n", encoding="utf-8")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    known = golden["kernels"]
    assert list(figures) == list(known)
    for name, variants in figures.items():
        assert list(variants) == list(known[name]), name
        for variant, found in variants.items():
            wanted = known[name][variant]
            # LDS and arguments follow from the key alone, the rest also from the compiler.
            same = ("lds", "arguments") if golden["compiler"] != version else tuple(wanted)
            assert {f: found[f] for f in same} == {f: wanted[f] for f in same}, (name, variant)


def _figures(libraries: dict[str, Path]) -> Iterator[tuple[str, dict[str, dict[str, object]]]]:
    for library in libraries.values():
        kernels: dict[str, list[KernelReport]] = {}
        for report in inspect(library):
            if report.kernel is not None:
                kernels.setdefault(report.kernel, []).append(report)
        for name, reports in kernels.items():
            found = {variant_text(report): _summary(report) for report in reports}
            yield name, dict(sorted(found.items()))


def _summary(report: KernelReport) -> dict[str, object]:
    return {
        "vgpr": report.vgpr,
        "agpr": report.agpr,
        "sgpr": report.sgpr,
        "lds": report.lds_bytes,
        "scratch": report.scratch_bytes,
        "arguments": report.argument_bytes,
        "matrix": report.matrix,
    }
