"""Attention kernels are of the very types that CK's own generator instantiates.

So their code is the same, and one look at the types costs no more than reading the headers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fmha_keys import fmha_key
from fmha_reference import check_types

from ckdisp.codegen.key import KernelKey

_PADS = (1, 1, 1, 1)
_ENDS = (1, 0, 0, 1)  # of the rows of Q and O
_BIG: dict[str, Any] = {"hdim": 128, "tile": (128, 128, 32, 128, 32, 128)}
_WIDE: dict[str, Any] = {"hdim": 256, "tile": (128, 128, 32, 256, 32, 256)}
_BYTES: dict[str, Any] = {**_BIG, "warp": (32,) * 6}
_SMALL: dict[str, Any] = {"hdim": 128, "warp": (16,) * 6}
_BWD: dict[str, Any] = {"hdim": 128, "tile": (16, 128, 128, 16, 128, 16, 32, 128, 128)}
_SHORT: dict[str, Any] = {
    "tile": (32, 16, 64, 32, 64, 32, 16, 64, 64),
    "wave": (1,) * 9,
    "warp": (16, 16, 32, 16, 16, 16, 16, 16, 16),
    "use_trload": True,
    "max_seq_len_q": 32,
    "block_per_cu": 2,
}


CASES: dict[str, list[KernelKey]] = {
    "gfx942": [
        fmha_key("fwd", "gfx942", bias="bias", lse=True),
        fmha_key("fwd", "gfx942", **_BIG, pipeline="qr_async", padding=_PADS, logits=True),
        fmha_key(
            "fwd", "gfx942", **_BIG, pipeline="qr_async", padding=(1, 0, 1, 1), mask="generic",
            dtype="bf16", dropout=True, bias="alibi",
        ),
        fmha_key(
            "fwd", "gfx942", **_WIDE, padding=_PADS, mode="group", skip_min_seqlen_q=True,
            dropout=True,
        ),
        fmha_key("splitkv", "gfx942", padding=(1, 1, 0, 0), bias="alibi", mode="group"),
        fmha_key(
            "splitkv", "gfx942", hdim=128, tile=(64, 128, 32, 128, 32, 128), padding=_PADS,
            paged_kv=True, dtype="bf16",
        ),
        fmha_key("splitkv_combine", "gfx942"),
        fmha_key("splitkv_combine", "gfx942", padding=_ENDS, mode="group", lse=True, hdim=128),
        fmha_key("pagedkv", "gfx942", **_BIG, mode="group", mask="generic"),
        fmha_key("appendkv", "gfx942", padding=(0, 1, 0, 0)),
        fmha_key("appendkv", "gfx942", padding=_PADS, rope="half_rotated", paged_kv=True),
        fmha_key("batch_prefill", "gfx942", **_BIG, lse=True, dropout=True, logits=True),
        fmha_key("fwd", "gfx942", **_BYTES, dtype="fp8", qscale="pertensor"),
        fmha_key("fwd", "gfx942", **_BYTES, dtype="fp8bf16", padding=(1, 1, 0, 0), mask="generic"),
        fmha_key("fwd", "gfx942", **_BYTES, dtype="fp8fp32", bias="alibi"),
        fmha_key(
            "fwd", "gfx942", dtype="fp32", tile=(64, 64, 32, 64, 32, 64), warp=(16,) * 6,
            padding=(0, 1, 0, 0),
        ),
        fmha_key("splitkv", "gfx942", **_BYTES, dtype="fp8", qscale="pertensor", lse=True),
    ],
    "gfx950": [
        fmha_key(
            "fwd", "gfx950", hdim=128, tile=(128, 64, 32, 128, 16, 128), dtype="bf16",
            pipeline="qr_async_trload", use_trload=True, mask="generic",
        ),
        fmha_key("fwd", "gfx950", bias="bias", dtype="bf16"),
    ],
    "gfx1201": [
        fmha_key("fwd", "gfx1201", **_SMALL, tile=(64, 64, 32, 128, 32, 128), lse=True),
        fmha_key(
            "splitkv", "gfx1201", **_SMALL, tile=(64, 64, 32, 128, 32, 128), padding=(1, 1, 0, 0)
        ),
        fmha_key("splitkv_combine", "gfx1201", padding=_ENDS),
        fmha_key("appendkv", "gfx1201", padding=_PADS),
    ],
    "gfx942 backward": [
        fmha_key("bwd_dot_do_o", "gfx942"),
        fmha_key("bwd_dot_do_o", "gfx942", padding=(0, 0, 0, 0), dtype="bf16"),
        fmha_key("bwd_convert_dq", "gfx942"),
        fmha_key("bwd_convert_dq", "gfx942", tile=(64, 128), deterministic=True, mode="group"),
        fmha_key("bwd_dq_dk_dv", "gfx942"),
        fmha_key(
            "bwd_dq_dk_dv", "gfx942", **_BWD, dtype="bf16", mode="group", padding=(0, 0, 8, 8),
            bias="bias", dbias=True, mask="generic", deterministic=True,
        ),
        fmha_key(
            "bwd_dq_dk_dv", "gfx942", **_BWD, padding=(0, 0, 1, 1), bias="alibi", dropout=True,
            dropout_warp=16, store_randval=True,
        ),
    ],
    "gfx950 backward": [
        fmha_key("bwd_dq_dk_dv", "gfx950", **_SHORT),
        fmha_key(
            "bwd_dq_dk_dv", "gfx950", use_trload=True, padding=(0, 0, 8, 8),
            warp=(16, 16, 32, 16, 16, 32, 16, 16, 32),
        ),
    ],
    "gfx1201 backward": [
        fmha_key(
            "bwd_dq_dk_dv", "gfx1201", tile=(32, 64, 64, 32, 64, 32, 32, 64, 64), warp=(16,) * 9,
            block_per_cu=0,
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_types_are_those_of_ck(case: str, tmp_path: Path) -> None:
    assert all(key.check() == [] for key in CASES[case])
    check_types(CASES[case], tmp_path)


# CK's generator has no kernels of the pipeline v3; an example states them.
V3 = [
    fmha_key(
        "fwd", "gfx950", hdim=128, tile=(256, 32, 128, 128, 32, 128), wave=(8, 1, 1, 8, 1, 1),
        pipeline="v3", num_wave_groups=2, padding=(1, 1, 0, 0), simplified_mask=False, mask=mask,
        mode=mode, dtype=dtype,
    )
    for mask, mode, dtype in (("no", "batch", "fp16"), ("top_left", "group", "bf16"))
]  # fmt: skip


def test_the_types_of_v3_are_those_of_ck(tmp_path: Path) -> None:
    assert all(key.check() == [] for key in V3)
    check_types(V3, tmp_path)
