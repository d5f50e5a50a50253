"""Keys of the cutlass provider for tests: legal ones, and those that break one rule alone."""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]

BF16: Fields = {"arch": "sm_90a", "dtype": "bf16", "tile": (128, 256, 64), "wave": (2, 1, 1)}
BF16 |= {"warp": (64, 8, 16), "pipeline": "cooperative", "epilogue": "tma"}
FP8: Fields = {**BF16, "dtype": "fp8", "tile": (128, 256, 128), "warp": (64, 8, 32)}
TRANSPOSED: Fields = {**BF16, "tile": (16, 64, 256), "wave": (1, 1, 1), "warp": (8, 64, 16)}
TRANSPOSED |= {"pipeline": "pingpong", "epilogue": "tma_transposed"}
UNALIGNED: Fields = {"arch": "sm_90a", "dtype": "fp8", "tile": (64, 64, 32), "wave": (1, 1, 1)}
UNALIGNED |= {"warp": (16, 16, 16), "pipeline": "unaligned", "epilogue": "default"}

# Rule -> fields of a key that breaks only this rule, and words of the reason.
BROKEN: dict[str, tuple[Fields, str]] = {
    "provider": ({**BF16, "family": "gemm.multi_d"}, "cutlass has kernels for sm_90a of"),
    "cutlass_epilogue": ({**BF16, "epilogue": "cshuffle"}, "cannot store C by epilogue cshuffle"),
    "cutlass_output": ({**FP8, "dtype_c": "fp8"}, "C cannot be fp8"),
    "fast_sums": ({**BF16, "pipeline": "cooperative_fast"}, "is for fp8 and bf8, not bf16"),
    "cutlass_layout": ({**FP8, "layout": "rrr"}, "reads fp8 along K alone"),
    "unaligned_tile": ({**UNALIGNED, "tile": (64, 64, 64)}, "has tile 64x64x32"),
    "cutlass_instruction": (
        {**TRANSPOSED, "tile": (64, 64, 256), "warp": (64, 8, 16)},
        "goes with",
    ),
    "cutlass_tile": ({**BF16, "tile": (128, 256, 32)}, "whole rows of 128 bytes"),
    "cutlass_registers": ({**BF16, "tile": (256, 256, 64)}, "a warp group holds 16384"),
    "cutlass_stages": ({**BF16, "tile": (128, 256, 256)}, "more than the 232448 bytes"),
    "cuda_split_k": ({**BF16, "split_k": True}, "split_k must be false on sm_90a"),
    "cuda_persistent": ({**BF16, "persistent": True}, "persistent must be false on sm_90a"),
    "cutlass_pipeline": (
        {**BF16, "tile": (128, 128, 64), "pipeline": "compv3"},
        "sm_90a has no pipeline compv3",
    ),
    "cuda_scheduler": ({**BF16, "scheduler": "intrawave"}, "scheduler must be default on sm_90a"),
    "cuda_pad_m": ({**BF16, "pad_m": False}, "pad_m must be true on sm_90a"),
    "cuda_pad_n": ({**BF16, "pad_n": False}, "pad_n must be true on sm_90a"),
    "cuda_pad_k": ({**BF16, "pad_k": False}, "pad_k must be true on sm_90a"),
    "cuda_num_wave_groups": ({**BF16, "num_wave_groups": 2}, "must be 1 on sm_90a"),
    "cuda_block_per_cu": ({**BF16, "block_per_cu": 2}, "block_per_cu must be 1 on sm_90a"),
}
