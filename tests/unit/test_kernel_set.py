"""Kernel sets: sweeps, set algebra, sampling, JSON."""

from __future__ import annotations

import json

import pytest

from ckdisp.codegen.arch import arch_names
from ckdisp.codegen.errors import BuildError, InvalidKey
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.make import make_key
from ckdisp.codegen.rules import check_all

FP16 = {"dtype": "fp16", "layout": "rcr"}


def sweep(arch="gfx942", family="gemm.standard", where=None, **options):
    return KernelSet.sweep(family, arch, where=FP16 if where is None else where, **options)


@pytest.mark.parametrize("arch", arch_names())
def test_a_curated_sweep_is_small_valid_and_complete(arch):
    ks = KernelSet.sweep("gemm.standard", arch)
    assert 20 <= len(ks) <= 200
    assert all(not rejected for rejected in check_all(list(ks)))
    assert len(set(ks.names())) == len(ks)
    # Every curated type is there in every layout; gfx950 has no transposing reads of fp32.
    for dtype in {k.dtype_a for k in ks} - ({"fp32"} if arch == "gfx950" else set()):
        assert {k.layout for k in ks if k.dtype_a == dtype} == {"rcr", "rrr", "crr", "ccr"}


def test_where_takes_fields_columns_and_shorthands():
    ks = sweep(
        where={"dtype": ["fp16", "bf16"], "tile_m": 128, "layout": "rcr", "pipeline": "compv3"}
    )
    assert {(k.dtype_a, k.dtype_b, k.tile[0], k.pipeline) for k in ks} == {
        ("fp16", "fp16", 128, "compv3"),
        ("bf16", "bf16", 128, "compv3"),
    }
    one = sweep(where={**FP16, "tile": (128, 128, 64)})
    assert one == sweep(where={**FP16, "tile": ["128x128x64"]})
    assert one == sweep(where={**FP16, "tile": [[128, 128, 64]]}) and {k.tile for k in one} == {
        (128, 128, 64)
    }


def test_a_shorthand_is_no_mixture():
    ks = sweep(where={"dtype": ["fp8", "bf8"]})
    assert {(k.dtype_a, k.dtype_b) for k in ks} == {("fp8", "fp8"), ("bf8", "bf8")}
    mixed = sweep(where={"dtype_a": "fp8", "dtype_b": "bf8"})
    assert {(k.dtype_a, k.dtype_b) for k in mixed} == {("fp8", "bf8")}


def test_naming_a_field_opens_its_range():
    assert {k.dtype_c for k in sweep()} == {"fp16"}
    assert {k.dtype_c for k in sweep(where={**FP16, "dtype_c": ["fp16", "fp32"]})} == {
        "fp16",
        "fp32",
    }
    assert len(sweep(where={**FP16, "persistent": [False, True]})) == 2 * len(sweep())
    assert {k.num_d for k in sweep(family="gemm.multi_d", where={**FP16, "num_d": 4})} == {4}


def test_several_archs_keep_their_order():
    ks = sweep(["gfx950", "gfx942", "gfx950"])
    assert list(dict.fromkeys(k.arch for k in ks)) == ["gfx950", "gfx942"]
    assert {k.arch for k in sweep("cpu")} == set(arch_names()[7:-1])


def test_unknown_words_are_refused_with_the_nearest():
    with pytest.raises(InvalidKey, match=r"unknown field 'dtyp' \(did you mean 'dtype'\?\)"):
        sweep(where={"dtyp": "fp16"})
    with pytest.raises(InvalidKey, match=r"unknown dtype 'fp61' \(did you mean 'fp16'\?\)"):
        sweep(where={"dtype": "fp61"})
    with pytest.raises(InvalidKey, match="unknown tiles 'al'"):
        sweep(tiles="al")
    with pytest.raises(InvalidKey, match="unknown provider 'rocm'"):
        sweep(provider="rocm")
    with pytest.raises(InvalidKey, match="gemm has no receipts"):
        sweep(receipt="flash")
    with pytest.raises(InvalidKey, match="layout lists no value"):
        sweep(where={"layout": []})
    with pytest.raises(InvalidKey, match="tile_m must be an integer"):
        sweep(where={"tile_m": "64"})


def test_an_empty_sweep_says_why():
    with pytest.raises(
        InvalidKey, match=r"gemm.standard on gfx942: no kernel.*provider: gfx942 is"
    ):
        sweep(provider="cpu")
    with pytest.raises(InvalidKey, match=r"fp8 is not in this space.*; tiles='all' has kernels"):
        sweep("gfx90a", where={"dtype": "fp8"})
    with pytest.raises(InvalidKey, match="gfx908 has no matrix instruction for fp8"):
        sweep("gfx908", where={"dtype": "fp8"})
    with pytest.raises(
        InvalidKey, match=r"gemm.standard on gfx908: .*no matrix instruction for fp8"
    ):
        sweep(["gfx942", "gfx908"], where={"dtype": "fp8"}, tiles="all")
    assert len(sweep(["gfx908"], where={"dtype": "fp8"}, tiles="all", allow_empty=True)) == 0


def test_indexing_and_slicing():
    ks = KernelSet.sweep("gemm.standard", "gfx942") | KernelSet.preset(
        "gemm.cpu_prebuilt", "generic"
    )
    keys = list(ks)
    assert len(ks) == len(keys)
    assert ks[0] == keys[0] and ks[-1] == keys[-1] and ks[len(keys) - 5] == keys[-5]
    for cut in (slice(3, 9), slice(None, None, 7), slice(-4, None), slice(None, None, -1)):
        assert list(ks[cut]) == keys[cut]
        assert isinstance(ks[cut], KernelSet)
    for index in (len(keys), -len(keys) - 1):
        with pytest.raises(IndexError):
            ks[index]


def test_filter_sample_and_membership():
    ks = sweep(tiles="all")
    few = ks.sample(50, seed=3)
    assert len(few) == 50 and all(k in ks for k in few)
    assert list(few) == list(ks.sample(50, seed=3)) != list(ks.sample(50, seed=4))
    assert ks.sample(10**9) == ks
    small = few.filter(lambda k: k.tile[0] == 64)
    assert [k for k in few if k.tile[0] == 64] == list(small)
    assert all((k in small) == (k.tile[0] == 64) for k in few)
    assert "x" not in ks
    with pytest.raises(InvalidKey, match="must not be negative"):
        ks.sample(-1)


def test_union_has_no_duplicates_and_keeps_order():
    a = sweep(where={**FP16, "pipeline": ["mem", "compv3"]})
    b = sweep(where={**FP16, "pipeline": ["compv3", "compv4"]})
    both = a | b
    assert list(both) == list(a) + [k for k in b if k not in a]
    assert len(set(both)) == len(both) < len(a) + len(b)
    assert a | a == a and len(a | a) == len(a)
    assert both - b == a - b and (both & b) == b and not (a - a)
    assert list(a & b) == [k for k in a if k in b]


def test_union_of_a_space_and_a_narrower_one():
    some = {**FP16, "tile_m": [64, 128], "tile_n": 128, "dtype_c": "fp16"}
    everything = sweep(tiles="all", where=some)
    part = sweep(tiles="all", where={**some, "pipeline": "mem"})
    assert everything | part == everything
    assert len(part | everything) == len(everything)
    assert len(everything - part) == len(everything) - len(part)


def test_explicit_keys():
    a, b = make_key("gemm.standard", arch="gfx942"), make_key("gemm.standard", arch="gfx950")
    ks = KernelSet([a, b, a])
    assert list(ks) == [a, b] and a in ks and len(ks - KernelSet([b])) == 1
    assert list(ks | KernelSet.sweep("gemm.standard", "gfx942"))[:2] == [a, b]
    whole = KernelSet.sweep("gemm.standard", "gfx942")
    assert a in whole and len(whole - ks) == len(whole) - 1 and len(whole | ks) == len(whole) + 1
    with pytest.raises(InvalidKey, match="holds kernel keys"):
        KernelSet(["gemm"])


def test_equality_is_that_of_sets():
    ks = sweep()
    assert ks == KernelSet(reversed(list(ks))) and ks != KernelSet(list(ks)[1:])
    assert ks != "text" and KernelSet() == KernelSet() and not KernelSet()
    with pytest.raises(TypeError, match="unhashable"):
        hash(ks)


def test_two_archs_never_share_a_name():
    names = [n for arch in arch_names() for n in KernelSet.sweep("gemm.standard", arch).names()]
    assert len(set(names)) == len(names)


def test_json_keeps_declarations_and_expands_on_demand(tmp_path):
    ks = sweep(["gfx942", "gfx950"]) | KernelSet.preset("gemm.fp16_rcr_essential", "gfx1201")
    document = json.loads(ks.to_json(tmp_path / "kernels.json"))
    assert document["ckdisp"] == 1 and [next(iter(e)) for e in document["sets"]] == [
        *("family", "family", "preset")
    ]
    again = KernelSet.from_json(tmp_path / "kernels.json")
    assert list(again) == list(ks)
    frozen = json.loads(ks.to_json(expand=True))
    assert sum(len(e["keys"]) for e in frozen["sets"]) == len(ks)
    assert list(KernelSet.from_json(ks.to_json(expand=True))) == list(ks)


def test_json_of_a_changed_set_lists_keys():
    preset = KernelSet.preset("gemm.fp16_rcr_essential", "gfx942")
    ks = preset - KernelSet([preset[0]])
    assert list(KernelSet.from_json(ks.to_json())) == list(ks)
    assert all("keys" in entry for entry in json.loads(ks.to_json())["sets"])


def test_json_to_a_missing_folder_is_a_build_error(tmp_path):
    with pytest.raises(BuildError, match="cannot write"):
        sweep().to_json(tmp_path / "missing" / "kernels.json")


def test_subclasses_stay_subclasses():
    class Mine(KernelSet):
        pass

    ks = Mine.preset("gemm.fp16_rcr_essential", "gfx942")
    for other in (ks[1:], ks | ks, ks - ks, ks & ks, ks.filter(bool), ks.sample(2)):
        assert type(other) is Mine


def test_repr_tells_size_and_families():
    assert repr(sweep()) == f"<KernelSet: {len(sweep())} kernels of gemm.standard>"
    assert repr(KernelSet()) == "<KernelSet: 0 kernels of nothing>"
