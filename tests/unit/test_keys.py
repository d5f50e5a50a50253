"""Keys: validation of fields, names, JSON form, defaults."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from ckdisp.codegen.arch import arch_names, arches
from ckdisp.codegen.errors import InvalidKey
from ckdisp.codegen.make import make_key, parse_name
from ckdisp.codegen.ops import key_class, op, op_of_family, ops
from ckdisp.codegen.ops.gemm.key import GemmKey


def key(**fields):
    fields.setdefault("arch", "gfx942")
    return make_key(fields.pop("family", "gemm.standard"), **fields)


def test_a_name_says_everything_and_parses_back():
    k = key(dtype="fp16", layout="rrr", pad_n=False)
    assert k.name.startswith("gemm_standard_cktile_gfx942_fp16_fp16_fp16_fp32_rrr_passthrough_d0_")
    assert "_fmk_" in k.name
    assert k.name.isidentifier()
    assert parse_name(k.name) == k


def test_keys_of_every_op_are_read_without_numpy():
    program = (
        "import sys; from ckdisp.codegen.ops import key_classes\n"
        "assert {c.op for c in key_classes()} == {'gemm', 'conv', 'fmha'}\n"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_json_round_trip():
    k = key(family="gemm.multi_d", elementwise="gelu", num_d=2)
    assert GemmKey.from_dict(json.loads(json.dumps(k.to_dict()))) == k


@pytest.mark.parametrize("arch", arch_names())
def test_defaults_are_valid_on_every_arch(arch):
    for family in filter(arches()[arch].serves, ("gemm.standard", "gemm.multi_d")):
        assert key(family=family, arch=arch, dtype="fp16").check() == []


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1201"])
def test_preshuffle_defaults_are_valid(arch):
    assert key(family="gemm.preshuffle", arch=arch, dtype="fp16").check() == []


def test_missing_default_tile_says_what_to_give():
    with pytest.raises(
        InvalidKey, match=r"no default tile for gemm.preshuffle fp16 x fp16 on gfx908"
    ):
        key(family="gemm.preshuffle", arch="gfx908")
    k = key(
        arch="gfx1100",
        dtype="fp8",
        tile=(64, 64, 64),
        wave=(4, 2, 1),
        warp=(16, 16, 16),
        pipeline="compv3",
        scheduler="intrawave",
    )
    assert [r.rule for r in k.check()] == ["dtypes"]


def test_shorthands_and_defaults_of_types():
    k = key(dtype="int8")
    assert (k.dtype_a, k.dtype_b, k.dtype_acc, k.dtype_c, k.dtype_d) == (
        *("int8", "int8", "int32"),
        *("int32", "int32"),
    )
    assert key(dtype="fp8").dtype_c == "fp16"
    assert key(dtype="bf16").dtype_c == "bf16"
    assert key(dtype="fp8", dtype_b="bf8").dtype_b == "bf8"
    assert key(dtype="fp16", dtype_c="fp32").dtype_d == "fp32"


def test_the_default_tile_follows_the_pipeline_and_single_numbers():
    k = key(arch="x86-64-v4", dtype="fp32", pipeline="skinny")
    assert k.pipeline == "skinny" and k.check() == []
    assert key(tile_k=64, pipeline="compv3").tile[2] == 64


def test_unknown_fields_and_values_name_the_nearest():
    with pytest.raises(InvalidKey, match=r"unknown field 'pipline' \(did you mean 'pipeline'\?\)"):
        key(pipline="mem")
    with pytest.raises(InvalidKey, match=r"unknown pipeline 'comp3' \(did you mean 'compv3'\?\)"):
        key(pipeline="comp3")
    with pytest.raises(InvalidKey, match=r"unknown family 'gemm.standart'.*gemm.standard"):
        key(family="gemm.standart")
    with pytest.raises(InvalidKey, match="unknown op"):
        key_class("gem")


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("tile", (1, 2), "must hold 3 integers"),
        ("tile", "abc", "must hold 3 integers"),
        ("tile", "64x64", "must hold 3 integers"),
        ("tile", "64x64x-64", "must hold 3 integers"),
        ("tile", "1x2x99999999999", "between 0 and"),
        ("tile", (1, 2, -3), "between 0 and"),
        ("tile", (1, 2, 2**31), "between 0 and"),
        ("tile", (1, 2, 3.0), "must be an integer"),
        ("num_d", True, "must be an integer"),
        ("pad_m", "yes", "must be true or false"),
        ("layout", ["rcr"], "unknown layout"),
    ],
)
def test_bad_values_are_refused(field, value, text):
    with pytest.raises(InvalidKey, match=text):
        key(**{field: value})


def test_from_dict_wants_exactly_the_fields():
    values = key().to_dict()
    with pytest.raises(InvalidKey, match="missing field: layout"):
        GemmKey.from_dict({n: v for n, v in values.items() if n != "layout"})
    with pytest.raises(InvalidKey, match="unknown field 'colour'"):
        GemmKey.from_dict({**values, "colour": 1})


@pytest.mark.parametrize(
    "name",
    ["", "gemm", "conv_fwd_x", "gemm_standard", "gemm_standard_cktile_gfx942", 7, None],
)
def test_other_names_are_refused(name):
    with pytest.raises(InvalidKey):
        parse_name(name)


def test_only_the_canonical_spelling_parses():
    name = key(pad_m=True, pad_n=True, pad_k=True).name
    with pytest.raises(InvalidKey, match="did you mean"):
        parse_name(name.replace("_fmnk_", "_fnmk_"))
    with pytest.raises(InvalidKey, match="did you mean"):
        parse_name(name.replace("_d0_", "_d00_"))
    with pytest.raises(InvalidKey, match="cannot read tile"):
        parse_name(name.replace("_t256x", "_tx"))


def test_keys_are_immutable_hashable_and_ordered():
    a, b = key(layout="rcr"), key(layout="rrr")
    assert len({a, b, key(layout="rcr")}) == 2
    assert sorted([b, a]) == sorted([a, b])
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.layout = "rrr"


def test_the_op_table():
    assert [o.name for o in ops()] == ["gemm", "conv", "fmha"]
    assert op_of_family("gemm.multi_d") is op("gemm")
