"""What other CK Tile headers lack is refused by a named rule, before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_rocm import make_ck, make_rocm
from fmha_keys import fmha_key

from ckdisp.codegen.errors import BuildError
from ckdisp.codegen.generate import generate
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.make import make_key
from ckdisp.codegen.ops import op
from ckdisp.codegen.ops.conv.feature_rules import RULES as CONV_RULES
from ckdisp.codegen.ops.fmha.feature_rules import RULES as FMHA_RULES
from ckdisp.codegen.ops.gemm.feature_rules import RULES, missing_features
from ckdisp.codegen.rocm import HipToolchain
from ckdisp.codegen.rocm.ck import known_features

GPU = {"arch": "gfx950", "dtype": "fp16", "scheduler": "intrawave"}
GPU |= {"tile": (128, 128, 64), "wave": (2, 2, 1), "warp": (32, 32, 16)}
PRESENT = [rule.feature for rule in RULES if not rule.absent]

# Rule -> fields of a key that breaks it alone, when its feature alone is missing.
BROKEN = {
    "headers_universal_gemm": {},
    "headers_tails": {},
    "headers_memory_operation": {},
    "headers_compv5": {
        "pipeline": "compv5",
        "tile": (64, 64, 64),
        "wave": (1, 1, 2),
        "num_wave_groups": 2,
    },
    "headers_compv6": {"pipeline": "compv6"},
    "headers_compasync": {"pipeline": "compasync"},
    "headers_preshufflev2": {"family": "gemm.preshuffle"},
    "headers_permute_n": {"family": "gemm.preshuffle"},
    "headers_multi_d": {"family": "gemm.multi_d", "elementwise": "add"},
    "headers_persistent": {"persistent": True},
}


def build(fields):
    fields = {**GPU, "pipeline": "compv3", **fields}
    family = fields.pop("family", "gemm.standard")
    if family == "gemm.preshuffle":
        fields = {"arch": "gfx950", "dtype": "fp16"}
    return make_key(family, **fields)


def test_the_table_has_every_rule_and_features_that_are_looked_for():
    assert [rule.name for rule in RULES] == list(BROKEN)
    assert {rule.feature for rule in (*RULES, *CONV_RULES, *FMHA_RULES)} == set(known_features())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_key_that_needs_what_is_missing_is_refused_by_one_rule(rule):
    key = build(BROKEN[rule.name])
    assert key.check() == []
    assert missing_features(key, PRESENT) == []
    changed = [*PRESENT, rule.feature] if rule.absent else set(PRESENT) - {rule.feature}
    (rejection,) = op("gemm").missing_features(key, changed)
    assert rejection.rule == rule.name
    assert "headers" in rejection.reason and "use " in rejection.reason


@pytest.mark.parametrize("rule", RULES[3:], ids=lambda rule: rule.name)
def test_other_kernels_are_not_concerned(rule):
    assert missing_features(build({}), set(PRESENT) - {rule.feature}) == []


CONV = {"arch": "gfx942", "vector": (4, 8, 1)}
# Rule -> fields of a key that breaks it alone, when its feature alone is missing.
CONV_BROKEN = {
    "headers_grouped_conv": {},
    "headers_split_images": {},
    "headers_merged_groups": {"groups_to_merge": 2},
}


@pytest.mark.parametrize("rule", CONV_BROKEN)
def test_a_convolution_that_needs_what_is_missing_is_refused_by_one_rule(rule: str) -> None:
    key = make_key("conv.fwd", **CONV, **CONV_BROKEN[rule])
    present = {r.feature for r in CONV_RULES if not r.absent}
    (missing,) = (r.feature for r in CONV_RULES if r.name == rule)
    assert key.check() == [] and op("conv").missing_features(key, present) == []
    (rejection,) = op("conv").missing_features(key, present - {missing})
    assert rejection.rule == rule and "; use " in rejection.reason


def test_weight_gradients_need_no_layers_of_images() -> None:
    key = make_key("conv.bwd_weight", arch="gfx942")
    present = {r.feature for r in CONV_RULES if not r.absent} - {"conv_split_images"}
    assert op("conv").missing_features(key, present) == []


def test_nothing_is_written_for_headers_that_lack_something(tmp_path: Path) -> None:
    rocm = make_rocm(tmp_path / "rocm", ck=False)
    headers = make_ck(tmp_path / "ck")
    (pipeline,) = headers.rglob("*_comp_async.hpp")
    pipeline.unlink()
    hip = HipToolchain.find(str(rocm), str(headers), env={})
    keys = [build({"pipeline": "compasync"}), build({})]
    with pytest.raises(BuildError, match="1 of 2 kernels cannot be built with these headers") as e:
        generate(keys, tmp_path / "out", emit=("make",), hip=hip)
    assert f"{keys[0].name}: headers_compasync: the CK Tile headers have no" in str(e.value)
    assert keys[1].name not in str(e.value)
    assert not (tmp_path / "out").exists()


# Steps along the head, tile and step of the keys; whether K and V have one buffer there. CK's own
# table and formula for three buffers: ops/fmha/pipeline/block_fmha_pipeline_qx_ks_vs_custom_policy.
STEPS = [
    ((128, 64, 32, 64, 32, 64), 64, False),
    ((128, 128, 32, 128, 32, 96), 96, True),
    ((128, 128, 32, 128, 64, 96), 96, False),
    ((128, 128, 32, 128, 32, 128), 128, False),
    ((128, 128, 32, 160, 32, 160), 160, False),
    ((128, 128, 32, 192, 32, 192), 192, True),
    ((128, 128, 32, 192, 64, 192), 192, False),
    ((128, 128, 32, 256, 32, 256), 256, False),
]


@pytest.mark.parametrize("family", ["fwd", "batch_prefill"])
@pytest.mark.parametrize(("tile", "hdim", "races"), STEPS)
def test_waves_of_qr_async_that_race_need_newer_headers(
    family: str, tile: tuple[int, ...], hdim: int, races: bool
) -> None:
    pads = (1, 1, 1, 1)
    key = fmha_key(family, "gfx942", tile=tile, hdim=hdim, pipeline="qr_async", padding=pads)
    rule = {"fwd": "headers_async_barrier", "batch_prefill": "headers_prefill_barrier"}[family]
    present = {r.feature for r in FMHA_RULES if not r.absent}
    assert op("fmha").missing_features(key, present) == []
    (feature,) = (r.feature for r in FMHA_RULES if r.name == rule)
    found = op("fmha").missing_features(key, present - {feature})
    assert [r.rule for r in found] == [rule] * races
    assert all("others still read" in r.reason and "; use " in r.reason for r in found)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_no_curated_kernel_needs_waves_that_wait(arch: str) -> None:
    present = {r.feature for r in FMHA_RULES if not r.absent}
    present -= {"fmha_async_barrier", "fmha_prefill_barrier"}
    for family in ("fmha.fwd", "fmha.batch_prefill"):
        keys = KernelSet.sweep(family, arch)
        assert {key.pipeline for key in keys} >= {"qr_async"}
        assert all(op("fmha").missing_features(key, present) == [] for key in keys)
