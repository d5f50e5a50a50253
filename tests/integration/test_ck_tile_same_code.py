"""Our kernels are those of CK's own examples, instruction for instruction or nearly so.

With split-K where there is, as the examples always have it: what else is in a code object has a
small influence on the compiler. `tools/compare_ck.py` compares more kernels, and test_amd_fmha.py
compares those of attention.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ck_reference import compare

from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.make import make_key

KEYS = [
    make_key(
        "gemm.standard", arch="gfx942", tile=(64, 64, 64), wave=(2, 2, 1), warp=(32, 32, 16),
        pipeline="compv3", split_k=True,
    ),
    make_key(
        "conv.fwd", arch="gfx1201", layout="ndhwgc", tile=(32, 32, 32), wave=(2, 2, 1),
        warp=(16, 16, 16), pipeline="compv3", vector=(8, 8, 8),
    ),
    make_key(
        "conv.bwd_data", arch="gfx942", tile=(64, 64, 64), wave=(2, 2, 1), warp=(32, 32, 16),
        pipeline="compv3",
    ),
    make_key(
        "conv.bwd_weight", arch="gfx1201", dtype="bf16", tile=(64, 64, 32), wave=(4, 2, 1),
        warp=(16, 16, 16), pipeline="compv3", vector=(8, 8, 8), split_k=True,
    ),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.family}-{key.arch}")
def test_the_code_is_that_of_ck(key: KernelKey, tmp_path: Path) -> None:
    for comparison in compare(key, tmp_path):
        assert comparison.differences == [], comparison.variant
        assert comparison.ours.matrix_instructions
