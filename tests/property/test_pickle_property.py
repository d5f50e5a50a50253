"""What users send to other processes comes back equal: keys, sets, facts, reasons."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ckdisp
from ckdisp.codegen.errors import InvalidKey
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.parts import SpacePart

FAMILIES = (
    *("gemm.standard", "gemm.multi_d", "conv.fwd", "conv.bwd_weight"),
    *("fmha.fwd", "fmha.bwd_dq_dk_dv", "fmha.splitkv_combine"),
)
SWEEPS = [(family, arch) for family in FAMILIES for arch in ("generic", "x86-64-v4", "gfx942")]
LARGE = KernelSet.sweep("fmha.fwd", "gfx942", tiles="all")


def again(value: Any, protocol: int) -> Any:
    return pickle.loads(pickle.dumps(value, protocol))


@st.composite
def kernel_sets(draw: st.DrawFn) -> KernelSet:
    chosen = draw(st.lists(st.sampled_from(SWEEPS), min_size=1, max_size=3))
    made: KernelSet = ckdisp.KernelSet()
    for family, arch in chosen:
        part: KernelSet = ckdisp.KernelSet.sweep(family, arch)
        shape = draw(st.sampled_from(["whole", "picked", "listed", "filtered", "less"]))
        if shape == "picked":
            part = part.sample(draw(st.integers(1, 5)), seed=draw(st.integers(0, 9)))
        elif shape == "listed":
            part = ckdisp.KernelSet(list(part[:6])[::-1])
        elif shape == "filtered":
            part = part.filter(lambda key: "fp16" in key.name)
        elif shape == "less":
            part = part - part[1:3]
        made = made | part
    return made


@settings(max_examples=40, deadline=None)
@given(kernel_sets(), st.integers(2, pickle.HIGHEST_PROTOCOL))
def test_sets_come_back(kernels: KernelSet, protocol: int) -> None:
    for other in (again(kernels, protocol), copy.deepcopy(kernels), copy.copy(kernels)):
        assert type(other) is type(kernels)
        assert other.names() == kernels.names()
        assert other == kernels
        assert other.to_json(expand=True) == kernels.to_json(expand=True)
        assert (other | kernels).names() == kernels.names() and not other - kernels
        assert other.filter("arch == 'generic'") == kernels.filter("arch == 'generic'")


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SWEEPS), st.integers(0, 1000), st.integers(2, pickle.HIGHEST_PROTOCOL))
def test_keys_and_facts_come_back(sweep: tuple[str, str], index: int, protocol: int) -> None:
    kernels = KernelSet.sweep(*sweep)
    key = kernels[index % len(kernels)]
    wrong = ckdisp.make_key("gemm.standard", arch="gfx942", dtype="fp16", tile=(1, 2, index))
    for value in (key, ckdisp.arch(sweep[1]), wrong.check(), ckdisp.Validator()):
        for other in (again(value, protocol), copy.deepcopy(value), copy.copy(value)):
            assert other == value and repr(other) == repr(value)
    assert hash(again(key, protocol)) == hash(key)
    error = again(InvalidKey("text"), protocol)
    assert type(error) is InvalidKey and str(error) == "text"


def test_a_declaration_of_millions_stays_one() -> None:
    data = pickle.dumps(LARGE)
    assert len(LARGE) > 1_000_000 and len(data) < 2000
    other = pickle.loads(data)
    assert len(other) == len(LARGE) and other == LARGE
    assert other.to_json() == LARGE.to_json()


def test_a_narrowed_space_of_many_comes_back_in_order() -> None:
    kept = LARGE.filter("hdim_q == 64 and dtype == 'fp16'")
    other = again(kept, 4)
    assert len(other) > 1000 and other[::997].names() == kept[::997].names()
    assert kept[123] in other and LARGE.filter("hdim_q == 128")[0] not in other


def test_a_declaration_that_has_changed_is_refused() -> None:
    kernels = KernelSet.sweep("gemm.standard", "generic")
    (part,) = kernels._parts
    assert isinstance(part, SpacePart)
    function, (declaration, count) = part.__reduce__()
    assert function(declaration, count).space.same_declaration(part.space)
    with pytest.raises(InvalidKey, match=r"a pickled set of 7 keys.*declare it again"):
        function(declaration, 7)
