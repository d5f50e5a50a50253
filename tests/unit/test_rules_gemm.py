"""Every GEMM rule: a key that breaks it, and it alone; its reason; and the facts behind it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from cutlass_keys import BROKEN as CUTLASS
from rule_laws import breaks_alone, hold

from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.make import make_key
from ckdisp.codegen.ops import op
from ckdisp.codegen.ops.definition import SpaceRequest
from ckdisp.codegen.ops.gemm import ck_rules
from ckdisp.codegen.ops.gemm.rules import RULES
from ckdisp.codegen.rules import Rule
from ckdisp.codegen.space import Space

GPU = {"arch": "gfx942", "dtype": "fp16", "pipeline": "compv3", "scheduler": "intrawave"}
GPU |= {"tile": (128, 128, 64), "wave": (2, 2, 1), "warp": (32, 32, 16)}
PAIR = {name: value for name, value in GPU.items() if name != "dtype"}
MULTI = {**GPU, "family": "gemm.multi_d", "elementwise": "add", "num_d": 1}
SHUFFLE = {"arch": "gfx942", "dtype": "fp16", "family": "gemm.preshuffle"}
CPU = {"arch": "x86-64-v4", "dtype": "fp32"}
AMX = {"arch": "x86-64-v4-amx", "dtype": "bf16", "warp": (32, 32, 2)}

# Rule -> fields of a key that breaks only this rule, and words of the reason.
BROKEN = {
    "provider": ({**GPU, "provider": "cpu"}, "gfx942 is served by provider ck_tile, not cpu"),
    "dtypes": (
        {**GPU, "arch": "gfx1100", "dtype": "fp8", "wave": (4, 2, 1), "warp": (16, 16, 16)},
        "gfx1100 has no matrix instruction for fp8 x fp8 in gemm.standard; it has fp16, bf16, int8",
    ),
    "accumulator": ({**GPU, "dtype_acc": "int32"}, "fp16 x fp16 accumulates in fp32, not int32"),
    "output_dtype": ({**GPU, "dtype_c": "int8"}, "use fp32, fp16, bf16"),
    "d_dtype": ({**MULTI, "dtype_d": "int32"}, "D cannot be int32 when A is fp16"),
    "family_elementwise": ({**GPU, "elementwise": "relu"}, "use gemm.multi_d"),
    "d_count": ({**MULTI, "num_d": 2}, "add takes 1 D tensor(s), not 2"),
    "unused_d": ({**GPU, "dtype_d": "fp32"}, "dtype_d must be fp16 and layout_d r"),
    "warp_tile": (
        {**GPU, "warp": (16, 16, 64)},
        "gfx942 has no warp tile 16x16x64 for fp16 x fp16",
    ),
    "tile_divisible": ({**GPU, "tile": (96, 128, 64)}, "M 96 by 2x32"),
    "tile_covers": ({**GPU, "tile": (32, 128, 64)}, "larger than the tile: M 32 by 2x32"),
    "gpu_pipeline": ({**GPU, "pipeline": "direct"}, "none of CK Tile's"),
    "gpu_epilogue": ({**GPU, "epilogue": "tma"}, "exists only on NVIDIA GPUs"),
    "preshuffle_pipeline": (
        {**GPU, "pipeline": "preshufflev2", "scheduler": "default"},
        "belongs to gemm.preshuffle",
    ),
    "preshuffle_layout": ({**SHUFFLE, "layout": "rrr"}, "only layout rcr, not rrr"),
    "preshuffle_epilogue": ({**SHUFFLE, "epilogue": "default"}, "only epilogue cshuffle"),
    "preshuffle_split_k": ({**SHUFFLE, "split_k": True}, "cannot have split_k"),
    "compv6_arch": (
        {**GPU, "arch": "gfx1201", "pipeline": "compv6", "tile": (128, 128, 32)}
        | {"wave": (4, 2, 1), "warp": (16, 16, 16)},
        "compv6 is made for CDNA, gfx1201 is rdna4",
    ),
    "interwave": ({**GPU, "scheduler": "interwave"}, "only for pipeline mem, not compv3"),
    "scheduler_default": ({**GPU, "scheduler": "default"}, "default is for preshufflev2"),
    "native_int8": (
        {**GPU, "arch": "gfx90a", "dtype": "int8"},
        "int8 on gfx90a to fp32 matrix instructions",
    ),
    "emulated_tile": (
        {**GPU, "arch": "gfx90a", "dtype": "fp8", "tile": (256, 256, 64), "wave": (1, 4, 1)}
        | {"warp": (32, 32, 16)},
        "gfx90a emulates fp8: 524288 products for a wave and step",
    ),
    "waves": ({**GPU, "wave": (1, 8, 1), "warp": (16, 16, 16)}, "no 1x8x1 waves per block"),
    "tile_minimum": (
        {**GPU, "tile": (4, 64, 64), "wave": (1, 1, 1), "warp": (4, 64, 16)},
        "tile 4x64x64 is below the minimum 16x16x8",
    ),
    "tile_alignment": (
        {**GPU, "tile": (20, 64, 64), "wave": (1, 1, 1), "warp": (4, 64, 16)}
        | {"epilogue": "default"},
        "not a multiple of 16x16x8",
    ),
    "lds": (
        {**GPU, "pipeline": "compv4", "tile": (256, 256, 64)},
        "256x64x2 + 256x64x2 = 65536 bytes of LDS; compv4 on gfx942 may use 32768",
    ),
    "preshuffle_load": (
        {**SHUFFLE, "tile": (64, 64, 64), "wave": (4, 1, 1), "warp": (16, 16, 16)},
        "not a multiple of 16 bytes",
    ),
    "preshuffle_rows": (
        {**SHUFFLE, "tile": (64, 64, 96), "wave": (1, 4, 1), "warp": (16, 16, 32)},
        "rows each of 12 16-byte vectors",
    ),
    "wave_groups": ({**GPU, "num_wave_groups": 2}, "compv3 cannot run 2 wave group(s)"),
    "wave_group_tile": (
        {**GPU, "pipeline": "compv5", "wave": (1, 1, 2), "num_wave_groups": 2}
        | {"layout": "rcr", "tile": (128, 64, 64)},
        "tile 128x64 of compv5 gives each of 64 lanes more than 64 sums",
    ),
    "occupancy": ({**GPU, "block_per_cu": 9}, "9 block(s) of 4 waves of 64 threads"),
    "split_k_output": (
        {**GPU, "split_k": True, "epilogue": "default"},
        "cannot add fp16 atomically on gfx942 with epilogue default",
    ),
    "split_k_linear": (
        {**MULTI, "elementwise": "relu", "num_d": 0, "split_k": True},
        "relu would be applied to parts",
    ),
    "d_layout": ({**MULTI, "layout_d": "c"}, "use r"),
    "load_a": (
        {**GPU, "layout": "ccr", "tile": (192, 128, 64)},
        "cannot load a M 192 x K 64 tile of fp16 A, contiguous along M 192, in whole rows",
    ),
    "load_b": (
        {**GPU, "layout": "rrr", "tile": (128, 192, 64)},
        "cannot load a N 192 x K 64 tile of fp16 B, contiguous along N 192, in whole rows",
    ),
    "lds_swizzle": ({**GPU, "layout": "crr", "tile": (128, 128, 96)}, "tile K is 96"),
    "transposed_read": (
        {**GPU, "arch": "gfx950", "dtype": "fp8", "warp": (32, 32, 32), "layout": "crr"},
        "for fp8 and warp tile 32x32x32; use layout rcr",
    ),
    "mixed_types": (
        {**PAIR, "dtype_a": "fp8", "dtype_b": "bf8"},
        "compv3 multiplies fp8 x bf8 as if both were fp8; use compv4",
    ),
    "persistent_pipeline": (
        {**GPU, "pipeline": "compv6", "persistent": True},
        "compv6 has no persistent kernel; use mem, compv3, compv4",
    ),
    "compv5_layout": (
        {**GPU, "pipeline": "compv5", "wave": (1, 1, 2), "num_wave_groups": 2}
        | {"layout": "rrr", "tile": (64, 64, 64)},
        "compv5 has only layout rcr, not rrr",
    ),
    "compasync_arch": ({**GPU, "pipeline": "compasync"}, "is for gfx950, gfx942 has no such"),
    "cshuffle_rows": (
        {**GPU, "tile": (96, 128, 64), "warp": (16, 16, 16)},
        "each wave has 3 warp tiles of 16x16 along M",
    ),
    "cshuffle_fused": (
        {**MULTI, "dtype": "fp8", "dtype_c": "fp8"},
        "cshuffle rounds to fp8 before add; use epilogue default",
    ),
    "cpu_family": ({**CPU, "family": "gemm.preshuffle"}, "no kernel for x86-64-v4"),
    "cpu_pipeline": ({**CPU, "pipeline": "direct"}, "use packed or skinny"),
    "cpu_wave": ({**CPU, "wave": (1, 1, 2)}, "wave must be [1, 1, 1]"),
    "cpu_scheduler": ({**CPU, "scheduler": "intrawave"}, "must be default"),
    "cpu_epilogue": ({**CPU, "epilogue": "cshuffle"}, "must be default"),
    "cpu_pad_m": ({**CPU, "pad_m": False}, "pad_m must be true"),
    "cpu_pad_n": ({**CPU, "pad_n": False}, "pad_n must be true"),
    "cpu_pad_k": ({**CPU, "pad_k": False}, "pad_k must be true"),
    "cpu_persistent": ({**CPU, "persistent": True}, "persistent must be false"),
    "cpu_split_k": ({**CPU, "split_k": True}, "split_k must be false"),
    "cpu_num_wave_groups": ({**CPU, "num_wave_groups": 2}, "must be 1"),
    "cpu_block_per_cu": ({**CPU, "block_per_cu": 0}, "must be 1"),
    "cpu_block": ({**CPU, "tile_k": 65536}, "cache block"),
    "skinny_rows": ({**CPU, "pipeline": "skinny", "tile_m": 128}, "at most 64 rows"),
    "skinny_tile": (AMX | {"pipeline": "skinny", "tile": (32, 8064, 128)}, "use packed"),
}


BROKEN |= {name: case for name, case in CUTLASS.items() if name not in BROKEN}


def build(fields: dict) -> KernelKey:
    fields = dict(fields)
    return make_key(fields.pop("family", "gemm.standard"), **fields)


def test_the_table_has_every_rule():
    assert sorted(rule.name for rule in RULES) == sorted(BROKEN)


@pytest.mark.parametrize("name", BROKEN)
def test_a_key_can_break_one_rule_alone(name):
    fields, words = BROKEN[name]
    breaks_alone(build(fields), name, words)


@pytest.mark.parametrize("fields", [GPU, MULTI, SHUFFLE, CPU, AMX])
def test_the_keys_that_the_table_starts_from_are_valid(fields):
    assert build(fields).check() == []


def test_the_laws_of_rules():
    hold(RULES, [build(fields) for fields, _ in BROKEN.values()])


@pytest.mark.parametrize(
    ("arch", "dtype"),
    [
        ("gfx908", "fp8"),  # no such instruction
        ("gfx1100", "fp8"),  # compiles to no matrix instruction at all
        ("gfx1100", "fp32"),
        ("gfx1201", "fp32"),
        ("gfx90a", "int8"),  # compiles to fp32 matrix instructions
    ],
)
def test_types_without_matrix_instructions_have_no_kernel(arch, dtype):
    ks = KernelSet.sweep(
        "gemm.standard", arch, tiles="all", where={"dtype": dtype}, allow_empty=True
    )
    assert len(ks) == 0


# The sweep that earlier tools use by default. They count 3532, 8084, 8892, 632 and 632 standard
# and 104, 262, 274, 18 and 18 preshuffle kernels for fp16 when each pipeline has its own LDS
# budget, with 64 KiB of LDS everywhere. Not all of those compile: their tools know nothing of what
# CK asserts, and for preshuffle reckon with 64 lanes everywhere.
SWEEP = {"tile_m": [64, 128, 192, 256], "tile_n": [64, 128, 192, 256]}
SWEEP |= {"tile_k": [64, 128, 192, 256], "wave_m": [1, 2, 4], "wave_n": [1, 2, 4], "wave_k": [1]}
SWEEP |= {"warp_m": [4, 16, 32], "warp_n": [16, 32, 64], "warp_k": [8, 16, 32, 64, 128]}
SWEEP |= {"pad_m": [False], "dtype_a": ["fp16"], "dtype_b": ["fp16"], "dtype_c": ["fp16"]}
SWEEP |= {"dtype_d": ["fp16"], "layout": ["rcr"], "split_k": [False], "block_per_cu": [1]}


def sweep_size(family: str, arch: str, pipelines: list[str], rules: Sequence[Rule]) -> int:
    def fits_64_kib(key):  # rule lds: gfx950 has 160 KiB, so more tiles are valid there
        m, n, k = key.tile
        half = key.pipeline in ("compv4", "preshufflev2")
        return 2 * k * (m + n) <= (32768 if half else 65536)

    space = op("gemm").space(SpaceRequest(family, arch, "ck_tile", "all"))
    space = Space(space.key_class, space.axes, rules, space.free)
    for name, values in {**SWEEP, "pipeline": pipelines}.items():
        space = space.restrict(name, values)
    return sum(map(fits_64_kib, space))


@pytest.mark.parametrize(
    ("arch", "theirs", "ours"),
    [
        ("gfx90a", (3532, 104), (3182, 94)),
        ("gfx942", (8084, 262), (7298, 240)),
        ("gfx950", (8892, 274), (8012, 252)),
        ("gfx1100", (632, 28), (544, 24)),
        ("gfx1201", (632, 28), (544, 24)),
    ],
)
def test_the_default_sweep_has_the_known_size(arch, theirs, ours):
    without = [rule for rule in RULES if rule not in ck_rules.RULES]
    for rules, sizes in ((without, theirs), (RULES, ours)):
        standard = sweep_size("gemm.standard", arch, ["compv3", "compv4", "mem"], rules)
        preshuffle = sweep_size("gemm.preshuffle", arch, ["preshufflev2"], rules)
        assert (standard, preshuffle) == sizes
