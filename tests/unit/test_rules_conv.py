"""Every rule of convolution keys that CK's templates do not imply: a key that breaks only it."""

from __future__ import annotations

from typing import Any

import pytest
from rule_laws import breaks_alone, hold

from ckdisp.codegen.errors import InvalidKey
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.make import make_key
from ckdisp.codegen.ops.conv import ck_rules
from ckdisp.codegen.ops.conv.rules import RULES

Fields = dict[str, Any]

GPU: Fields = {"family": "conv.fwd", "arch": "gfx942", "dtype": "fp16", "pipeline": "compv3"}
GPU |= {"tile": (64, 64, 64), "wave": (2, 2, 1), "warp": (32, 32, 16), "scheduler": "intrawave"}
GPU |= {"vector": (4, 8, 8), "epilogue": "cshuffle"}
PLAIN: Fields = {"epilogue": "default"}
WEIGHT: Fields = {**GPU, "family": "conv.bwd_weight", "vector": (8, 8, 8)}
RDNA: Fields = {**GPU, "arch": "gfx1201", "tile": (64, 64, 32), "wave": (4, 2, 1)}
RDNA |= {"warp": (16, 16, 16)}
CPU: Fields = {"family": "conv.fwd", "arch": "x86-64-v4", "dtype": "fp32"}
DATA: Fields = {**CPU, "family": "conv.bwd_data"}
PACKED: Fields = {"tile": (336, 256, 512), "wave": (1, 1, 1), "warp": (14, 32, 1)}
PACKED |= {"pipeline": "packed", "scheduler": "default"}
DIRECT: Fields = {**CPU, "pipeline": "direct"}
WIDE: Fields = {"tile": (8, 64, 1), "warp": (8, 64, 1)}  # 4 vectors of weights and 32 of sums
ODD: Fields = {"tile": (8, 24, 1), "warp": (8, 24, 1)}

# Fields of a key that breaks only this rule, and words of the reason.
BROKEN: list[tuple[str, Fields, str]] = [
    ("provider", {**GPU, "provider": "cpu"}, "gfx942 is served by provider ck_tile, not cpu"),
    (
        "dtypes",
        {**RDNA, "arch": "gfx1100", "dtype": "fp8"},
        "gfx1100 has no matrix instruction for fp8 x fp8 in conv.fwd; it has fp16, bf16, int8",
    ),
    # What is multiplied follows from the direction: here the output and the weights.
    (
        "dtypes",
        {**DATA, "dtype_out": "bf16", **PACKED},
        "no kernel for bf16 x fp32 in conv.bwd_data",
    ),
    ("accumulator", {**GPU, "dtype_acc": "int32"}, "fp16 x fp16 accumulates in fp32, not int32"),
    ("result_dtype", {**GPU, "dtype_out": "int8"}, "conv.fwd cannot make int8 out of fp16; use"),
    ("gradient_dtype", {**DATA, "dtype": "int8"}, "conv.bwd_data of int8 input"),
    ("warp_tile", {**GPU, "warp": (16, 16, 64)}, "gfx942 has no warp tile 16x16x64 for fp16"),
    ("warp_tile", {**CPU, "warp": (16, 16, 1)}, "no register tile 16x16x1"),
    (
        "tile_divisible",
        {**GPU, "tile": (96, 64, 64), **PLAIN},
        "M 96 by 2x32",
    ),
    ("tile_covers", {**GPU, "tile": (32, 64, 64), **PLAIN}, "larger than the tile: M 32 by 2x32"),
    ("split_k_direction", {**GPU, "split_k": True}, "conv.fwd cannot have split_k"),
    ("two_stage_direction", {**GPU, "two_stage": True}, "conv.fwd cannot be two_stage"),
    ("split_image_direction", {**WEIGHT, "split_image": True}, "conv.bwd_weight cannot have"),
    ("interwave", {**GPU, "scheduler": "interwave"}, "only for pipeline mem, not compv3"),
    ("scheduler_default", {**GPU, "scheduler": "default"}, "use intrawave"),
    (
        "waves",
        {**GPU, "tile": (64, 128, 64), "wave": (1, 8, 1), "warp": (16, 16, 16)},
        "no 1x8x1 waves per block",
    ),
    ("gpu_pipeline", {**GPU, "pipeline": "packed"}, "no convolution on gfx942 has pipeline packed"),
    ("gpu_pipeline", {**GPU, "pipeline": "compv6"}, "use mem, compv3, compv4, compv5"),
    ("gpu_epilogue", {**GPU, "epilogue": "tma"}, "exists only on NVIDIA GPUs"),
    ("double_buffer", {**GPU, "double_buffer": True}, "compv3 cannot have double_buffer true"),
    (
        "double_buffer",
        {**GPU, "pipeline": "compv4", "double_buffer": False},
        "compv4 cannot have double_buffer false",
    ),
    (
        "lds",
        {**GPU, "pipeline": "compv4", "tile": (64, 128, 128)},
        "64x128x2 + 128x128x2 = 49152 bytes of LDS; compv4 on gfx942 may use 32768",
    ),
    ("wave_groups", {**GPU, "num_wave_groups": 2}, "compv3 cannot run 2 wave group(s)"),
    (
        "wave_group_tile",
        {**GPU, "pipeline": "compv5", "tile": (128, 64, 64), "wave": (1, 1, 2)}
        | {"num_wave_groups": 2},
        "tile 128x64 of compv5 gives each of 64 lanes more than 64 sums",
    ),
    ("occupancy", {**GPU, "block_per_cu": 9}, "9 block(s) of 4 waves of 64 threads"),
    ("cpu_pipeline", {**CPU, "pipeline": "skinny"}, "no pipeline skinny for convolutions"),
    ("cpu_specialization", {**CPU, "specialization": "filter3x3"}, "use default or filter1x1"),
    (
        "cpu_specialization",
        {**DIRECT, "specialization": "filter1x1_stride1_pad0"},
        "pipeline direct on x86-64-v4 has no specialization filter1x1_stride1_pad0; use default",
    ),
    ("cpu_wave", {**CPU, "wave": (1, 1, 2)}, "wave must be [1, 1, 1]"),
    ("cpu_scheduler", {**CPU, "scheduler": "intrawave"}, "must be default"),
    ("cpu_epilogue", {**CPU, "epilogue": "cshuffle"}, "must be default"),
    ("cpu_vector", {**CPU, "vector": (4, 8, 8)}, "vector must be [1, 1, 1] on x86-64-v4"),
    ("cpu_double_buffer", {**CPU, "double_buffer": True}, "a CPU has no LDS"),
    ("cpu_split_k", {**CPU, "family": "conv.bwd_weight", "split_k": True}, "must be false"),
    ("cpu_two_stage", {**CPU, "family": "conv.bwd_weight", "two_stage": True}, "must be false"),
    ("cpu_split_image", {**CPU, "split_image": True}, "CPU kernels count in 64 bits"),
    ("cpu_explicit_gemm", {**CPU, "explicit_gemm": True}, "filter1x1_stride1_pad0 says that"),
    ("cpu_groups_to_merge", {**CPU, "groups_to_merge": 2}, "must be 1 on x86-64-v4, not 2"),
    ("cpu_num_wave_groups", {**CPU, "num_wave_groups": 2}, "must be 1"),
    ("cpu_block_per_cu", {**CPU, "block_per_cu": 0}, "must be 1"),
    ("cpu_block", {**CPU, "tile_k": 65536}, "cache block"),
    ("direct_tile", {**DIRECT, **WIDE}, "register tile 8x64x1 of direct"),
    ("direct_tile", {**DIRECT, **ODD}, "a multiple of 16"),
    (
        "direct_dtype",
        {**DIRECT, "dtype": "int8", "tile": (8, 32, 1), "warp": (8, 32, 1)},
        "pipeline direct has no kernel for int8, int8 and int32; use fp32, fp16, bf16, or packed",
    ),
    (
        "conv_tile",
        {
            **CPU,
            "arch": "x86-64-v4-amx",
            "dtype": "bf16",
            "tile": (320, 256, 512),
            "warp": (32, 32, 2),
        },
        "register tile 32x32x2 is one of AMX",
    ),
]
# No pipeline of convolutions is for CDNA alone.
ELSEWHERE = {"compv6_arch", *(rule.name for rule in ck_rules.RULES)}


def build(fields: Fields) -> KernelKey:
    values = dict(fields)
    return make_key(values.pop("family"), **values)


@pytest.mark.parametrize(("rule", "fields", "words"), BROKEN)
def test_a_key_can_break_one_rule_alone(rule: str, fields: Fields, words: str) -> None:
    breaks_alone(build(fields), rule, words)


def test_the_table_has_every_rule() -> None:
    assert {name for name, _, _ in BROKEN} | ELSEWHERE == {rule.name for rule in RULES}


def test_the_laws_of_rules() -> None:
    hold(RULES, [build(fields) for _, fields, _ in BROKEN])


@pytest.mark.parametrize("fields", [GPU, WEIGHT, RDNA, CPU, DATA, DIRECT])
def test_the_keys_that_the_table_starts_from_are_valid(fields: Fields) -> None:
    assert build(fields).check() == []


@pytest.mark.parametrize(
    ("family", "where", "dtypes"),
    [
        # A direction's result is wider than what it multiplies; each names its own tensors.
        ("conv.fwd", {"dtype": "fp16", "dtype_out": "fp32"}, ("fp16", "fp16", "fp32")),
        ("conv.bwd_data", {"dtype_wei": "fp16", "dtype_in": "fp32"}, ("fp32", "fp16", "fp16")),
        ("conv.bwd_weight", {"dtype_in": "bf16", "dtype_wei": "fp32"}, ("bf16", "fp32", "bf16")),
    ],
)
@pytest.mark.parametrize("arch", ["gfx942", "x86-64-v4"])
def test_results_may_be_wider(
    family: str, where: Fields, dtypes: tuple[str, str, str], arch: str
) -> None:
    if (family, arch) == ("conv.bwd_data", "gfx942"):
        with pytest.raises(InvalidKey, match=r"data_result_dtype: .* use dtype_in fp16"):
            KernelSet.sweep(family, arch, where=where)
        return
    found = KernelSet.sweep(family, arch, where=where)
    assert {(k.dtype_in, k.dtype_wei, k.dtype_out) for k in found} == {dtypes}


@pytest.mark.parametrize("family", ["conv.fwd", "conv.bwd_data", "conv.bwd_weight"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "x86-64-v4"])
def test_the_full_space_holds_what_the_direction_has(family: str, arch: str) -> None:
    where = {"dtype_in": "fp16", "dtype_wei": "fp16", "dtype_out": "fp16", "layout": "nhwgc"}
    found = KernelSet.sweep(family, arch, tiles="all", where=where)
    gpu = arch.startswith("gfx")

    def has(**fields: Any) -> bool:
        try:
            return len(KernelSet.sweep(family, arch, tiles="all", where={**where, **fields})) > 0
        except InvalidKey:
            return False

    assert len(found) > (10_000 if gpu else 100)
    assert has(split_k=True) == has(two_stage=True) == (gpu and family == "conv.bwd_weight")
    assert has(split_image=True) == (gpu and family == "conv.fwd")
    # compv5 runs 1x1x2 waves, which RDNA's blocks cannot have.
    assert has(pipeline="compv5") == (arch in ("gfx942", "gfx950") and family == "conv.fwd")
    assert has(groups_to_merge=4) == (gpu and family != "conv.bwd_data")
    assert has(pipeline="direct") == (not gpu)
    assert has(specialization="filter1x1_stride1_pad0")
