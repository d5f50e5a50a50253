"""Attention kernels of every family and arch: their code has what it should, and is that of CK.

Kernels of an arch that share flags are compiled together, which takes half the time. Those of CK's
own generator have the code of its instances: `make check-amd OP=fmha SAME_CODE=1` compares more.

Set ``CKDISP_UPDATE_GOLDEN=1`` to write their figures again after a change that is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import amd
import pytest
from amd_figures import check_figures, figures_of, known_kernels
from amd_fmha import large_twins, matrix, parts, twins
from fmha_reference import compare, compile_ours, compile_theirs

from ckdisp.code_objects import KernelReport, check_object, inspect
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.ops import op

Part = tuple[str, str]  # arch and branch
FIGURES = "amd_fmha_figures.json"
PARTS = parts(matrix())
TWINS = parts(twins())
# RDNA has no asynchronous copies to LDS.
LACKING = {"gfx1201": {"fmha.batch_prefill"}}
# Spilled registers and scratch memory are the compiler's affair: kernels are as CK makes them.
_SLOW = ("scratch", "spill")


@dataclass(frozen=True)
class Code:
    """The device code of a part."""

    path: Path
    reports: list[KernelReport]


@pytest.fixture(scope="module")
def code_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Part], Code]:
    amd.toolchain()
    made: dict[Part, Code] = {}

    def code(part: Part) -> Code:
        if part not in made:
            path = compile_ours(PARTS[part], tmp_path_factory.mktemp("fmha"))
            made[part] = Code(path, inspect(path))
        return made[part]

    return code


def each(some: Iterable[Part]) -> pytest.MarkDecorator:
    """Once for each part; all tests of one are in one process."""
    return pytest.mark.parametrize(
        "part",
        [pytest.param(p, id="-".join(p), marks=pytest.mark.xdist_group(p[0])) for p in some],
    )


def _values(keys: Sequence[KernelKey], name: str) -> set[object]:
    return {getattr(key, name) for key in keys}


def test_the_kernels_cover_everything() -> None:
    keys = matrix()
    assert all(key.check() == [] for key in keys)
    for arch, branch in PARTS:
        wanted = {f for f in op("fmha").families if f.startswith("fmha.bwd") == ("bwd" in branch)}
        assert _values(PARTS[arch, branch], "family") == wanted - LACKING.get(arch, set())
    values = {
        "dtype": {"fp32", "fp16", "bf16", "fp8", "fp8fp32"},
        "mode": {"batch", "group"},
        "vlayout": {"r", "c"},
        "mask": {"no", "generic"},
        "bias": {"no", "bias", "alibi"},
        "qscale": {"no", "pertensor"},
        "rope": {"none", "interleaved", "half_rotated"},
        "pipeline": {
            *("qr", "qr_async", "qs", "qr_async_trload", "qr_pagedkv", "qr_nwarp_sshuffle"),
            *("appendkv", "splitkv_combine", "bwd"),
        },
    }
    for name, wanted in values.items():
        assert _values(keys, name) == wanted, name
    flags = ("lse", "dropout", "store_randval", "logits", "skip_min_seqlen_q", "paged_kv")
    for flag in (*flags, "dbias", "deterministic", "use_trload"):
        assert _values(keys, flag) == {False, True}, flag


@each(PARTS)
def test_the_code_of_kernels_is_right(part: Part, code_of: Callable[[Part], Code]) -> None:
    code = code_of(part)
    for key in PARTS[part]:
        problems = check_object(code.path, key, code.reports)
        found = [problem.text for problem in problems if problem.kind not in _SLOW]
        assert found == [], key.name


@each(PARTS)
def test_figures_are_the_known_ones(part: Part, code_of: Callable[[Part], Code]) -> None:
    check_figures(FIGURES, figures_of(code_of(part).reports), whole=False)


def test_the_figures_of_all_are_known() -> None:
    assert known_kernels(FIGURES) == {key.name for key in matrix()}


@each(TWINS)
def test_the_code_is_that_of_ck(
    part: Part, code_of: Callable[[Part], Code], tmp_path: Path
) -> None:
    theirs = inspect(compile_theirs(TWINS[part], tmp_path))
    for twin in compare(TWINS[part], code_of(part).reports, theirs):
        assert twin.differences == [], twin.ours.kernel


def test_two_kernels_of_each_family_have_a_twin() -> None:
    assert all(key.check() == [] for key in large_twins())
    for family in op("fmha").families:
        assert sum(key.family == family for key in (*twins(), *large_twins())) >= 2, family
