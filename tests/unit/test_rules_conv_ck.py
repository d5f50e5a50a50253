"""What CK Tile's templates take of convolution keys: a key that breaks each rule, and only it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ckdisp.codegen.make import make_key
from ckdisp.codegen.ops.conv import ck_rules

TILE = {"tile": (64, 64, 64), "wave": (2, 2, 1), "warp": (32, 32, 16), "pipeline": "compv3"}
TILE |= {"scheduler": "intrawave"}
FWD = {**TILE, "family": "conv.fwd", "arch": "gfx942", "vector": (4, 8, 8)}
DATA = {**FWD, "family": "conv.bwd_data"}
WEIGHT = {**FWD, "family": "conv.bwd_weight", "vector": (8, 8, 8)}
RDNA = {"tile": (64, 64, 32), "wave": (4, 2, 1), "warp": (16, 16, 16)}

# Rule -> fields of a key that breaks only this rule, and words of the reason.
BROKEN: list[tuple[str, Mapping[str, Any], str]] = [
    ("vector_width", {**FWD, "vector": (4, 8, 32)}, "vector sizes 4x8x32"),
    # Each row of K would take 128 of the 64 lanes of a wave.
    ("load_a", {**FWD, "tile": (64, 64, 128), "vector": (1, 8, 8)}, "tile of A in whole rows"),
    ("load_b", {**FWD, "tile": (64, 64, 128), "vector": (8, 1, 8)}, "tile of B in whole rows"),
    ("load_b", {**DATA, "vector": (4, 4, 8)}, "which conv.bwd_data transposes"),
    ("load_a", {**WEIGHT, "vector": (4, 8, 8)}, "which conv.bwd_weight transposes"),
    ("load_b", {**WEIGHT, "vector": (8, 1, 8)}, "which conv.bwd_weight transposes"),
    (
        "store_c",
        {**FWD, "tile": (96, 64, 64), "wave": (2, 2, 1), "warp": (16, 16, 32)}
        | {"vector": (4, 8, 8)},
        "cannot store C",
    ),
    ("lds_swizzle", {**WEIGHT, "tile": (64, 64, 48), "vector": (4, 4, 8)}, "tile K is 48"),
    (
        "emulated_tile",
        {**FWD, "arch": "gfx90a", "dtype": "fp8", "tile": (256, 256, 64), "wave": (1, 4, 1)}
        | {"warp": (32, 32, 16)},
        "a tile of 256x256x64 for 1x4x1 waves has 1048576; use a smaller tile",
    ),
    ("native_int8", {**FWD, "arch": "gfx90a", "dtype": "int8"}, "int8 on gfx90a"),
    ("compv5_direction", {**WEIGHT, **TILE} | {"wave": (1, 1, 2)}, "compv5 is for conv.fwd"),
    (
        "data_result_dtype",
        {**DATA, "dtype_in": "fp32", "dtype_wei": "fp16", "dtype_out": "fp16"},
        "cannot make fp32 out of fp16 on gfx942",
    ),
    ("data_double_buffer", {**DATA, "pipeline": "compv4"}, "cannot have double_buffer"),
    ("split_k_output", {**WEIGHT, "split_k": True, "vector": (8, 8, 1)}, "cannot add fp16"),
    ("split_k_output", {**WEIGHT, "split_k": True, "epilogue": "default"}, "cannot add fp16"),
    ("split_k_output", {**WEIGHT, "split_k": True, "two_stage": True}, "in two stages"),
    (
        "split_k_output",
        {**WEIGHT, **RDNA, "arch": "gfx1100", "split_k": True},
        "not on RDNA 3",
    ),
    ("groups_to_merge", {**WEIGHT, "groups_to_merge": 3}, "cannot merge 3 groups"),
    ("groups_to_merge", {**DATA, "groups_to_merge": 2}, "conv.bwd_data cannot merge"),
    ("groups_to_merge", {**FWD, "groups_to_merge": 2}, "with vectors of 1"),
    ("filter3x3_channels", {**FWD, "specialization": "filter3x3"}, "one input channel"),
]


def _key(fields: Mapping[str, Any], rule: str) -> Any:
    values = dict(fields)
    if rule == "compv5_direction":
        values |= {"pipeline": "compv5", "num_wave_groups": 2}
    if values["pipeline"] == "compv4":
        values["double_buffer"] = True
    family = values.pop("family")
    return make_key(family, **values)


@pytest.mark.parametrize(("rule", "fields", "words"), BROKEN)
def test_broken(rule: str, fields: Mapping[str, Any], words: str) -> None:
    found = {r.rule: r.reason for r in _key(fields, rule).check()}
    assert list(found) == [rule], found
    assert words in found[rule]


@pytest.mark.parametrize(
    "fields",
    [
        FWD,
        DATA,
        WEIGHT,
        {**FWD, "vector": (1, 1, 1)},
        {**FWD, "vector": (2, 2, 1), "groups_to_merge": 8},
        {**WEIGHT, "split_k": True, "two_stage": True, "vector": (8, 8, 4)},
        {**WEIGHT, "split_k": True, "vector": (8, 8, 2)},
        {**WEIGHT, "split_k": True, "two_stage": True, "vector": (8, 8, 1), "epilogue": "default"},
        # A lane gets two values, which are loaded one by one.
        {**WEIGHT, "tile": (32, 32, 16), "warp": (16, 16, 16), "vector": (1, 1, 1)},
        # A lane gets four values: as many as CK takes, whatever the vector.
        {**WEIGHT, "tile": (16, 64, 64), "wave": (1, 4, 1), "warp": (16, 16, 32)},
    ],
)
def test_kept(fields: Mapping[str, Any]) -> None:
    assert _key(fields, "").check() == []


def test_every_rule_is_broken_by_a_key() -> None:
    # Of these two, keys that break them break other rules, too.
    elsewhere = {"transposed_read", "mixed_types"}
    assert {name for name, _, _ in BROKEN} | elsewhere == {rule.name for rule in ck_rules.RULES}
