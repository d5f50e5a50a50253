"""Which kernels of the CK Tile provider share flags, and which flags these are."""

from __future__ import annotations

import pytest
from fmha_keys import fmha_key

from ckdisp.codegen.make import make_key
from ckdisp.codegen.ops import key_class
from ckdisp.codegen.providers.ck_tile import TILE_FIELDS, branch_of, compile_flags, device_flags
from ckdisp.codegen.schema import fields_of

FLUSH = "-fgpu-flush-denormals-to-zero"
EXP2 = "-DCK_TILE_FMHA_FWD_FAST_EXP2=1"
ROUND = "-DCK_TILE_FLOAT_TO_BFLOAT16_DEFAULT=3"
PACKED = "-DCK_TILE_DISABLE_PACKED_FP32=1"
FAMILIES = {
    "fwd": "fmha_fwd",
    "splitkv": "fmha_fwd",
    "splitkv_combine": "fmha_fwd",
    "pagedkv": "fmha_fwd",
    "appendkv": "fmha_fwd",
    "batch_prefill": "fmha_fwd",
    "bwd_dot_do_o": "fmha_bwd",
    "bwd_dq_dk_dv": "fmha_bwd",
    "bwd_convert_dq": "fmha_bwd",
}


def flags(branch: str, takes: bool = True) -> tuple[str, ...]:
    return compile_flags("gfx950", "gfx950", lambda words: takes, branch)


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_branches_by_direction(family: str) -> None:
    assert branch_of(fmha_key(family, "gfx942")) == FAMILIES[family]


def test_other_branches() -> None:
    assert branch_of(fmha_key("fwd", "gfx950", pipeline="v3")) == "fmha_v3"
    assert branch_of(make_key("gemm.standard", arch="gfx942")) == "gemm"
    assert branch_of(make_key("conv.fwd", arch="gfx942")) == "conv"


def test_flags_are_those_of_ck() -> None:
    assert EXP2 in flags("fmha_fwd") and ROUND not in flags("fmha_fwd")
    assert ROUND in flags("fmha_bwd") and EXP2 not in flags("fmha_bwd")
    assert not {EXP2, ROUND} & {*flags("gemm"), *flags("conv")}
    # Host code has no denormals to flush, and the compiler says so.
    for branch in ("fmha_fwd", "fmha_v3", "fmha_bwd"):
        assert FLUSH in device_flags(branch) and FLUSH not in flags(branch)
    assert FLUSH not in device_flags("gemm")


def test_v3_has_scalar_additions_where_the_compiler_can() -> None:
    assert PACKED in flags("fmha_v3")
    assert PACKED not in flags("fmha_v3", takes=False)
    assert PACKED not in flags("fmha_fwd")


@pytest.mark.parametrize("op", TILE_FIELDS)
def test_kernels_of_a_group_agree_in_fields_of_the_key(op: str) -> None:
    cls = key_class(op)
    assert set(TILE_FIELDS[op]) <= {field.name for field in fields_of(cls)} | {"op"}


def test_kernels_of_one_type_of_ck_are_in_units_of_their_own() -> None:
    """CK has one kernel for both triangles, and does not compile where a unit has it twice."""
    upper, lower = (
        fmha_key("fwd", "gfx942", mask=mask, simplified_mask=False)
        for mask in ("top_left", "bottom_right")
    )
    fields = TILE_FIELDS["fmha"]
    assert [f for f in fields if getattr(upper, f) != getattr(lower, f)] == ["mask"]
