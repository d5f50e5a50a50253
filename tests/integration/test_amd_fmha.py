"""Attention kernels compile, and their code has what it should: variants, matrix instructions."""

from __future__ import annotations

from pathlib import Path

import pytest
from ck_tile_lab import DEVICE_PASS, compile_hip, write_headers, write_units
from fmha_keys import fmha_key

from ckdisp.code_objects import check_object, inspect
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.providers.ck_tile import branch_of

_WMMA = {"tile": (64, 64, 32, 64, 32, 64), "warp": (16,) * 6}
_ONE_WAVE = {"tile": (16, 32, 64, 64, 32, 64), "wave": (1,) * 6, "warp": (16, 16, 32) * 2}
KEYS = [
    fmha_key("splitkv", "gfx90a", mode="group", padding=(1, 1, 0, 0)),
    fmha_key("bwd_dq_dk_dv", "gfx942"),
    fmha_key("fwd", "gfx950", **_ONE_WAVE, pipeline="qr_async_trload", use_trload=True),
    fmha_key("fwd", "gfx1201", **_WMMA, lse=True),
    fmha_key("splitkv_combine", "gfx1201", padding=(1, 0, 0, 1), mode="group"),
    fmha_key("bwd_convert_dq", "gfx1201"),
]
# Spilled registers and scratch memory are the compiler's affair: kernels are as CK makes them.
_SLOW = ("scratch", "spill")


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.family}-{key.arch}")
def test_the_code_of_a_kernel_is_right(key: KernelKey, tmp_path: Path) -> None:
    assert key.check() == []
    write_headers(tmp_path)
    (unit,) = write_units(tmp_path, [key])
    code = compile_hip(tmp_path, unit, key.arch, DEVICE_PASS, branch=branch_of(key))
    assert [p.text for p in check_object(code, key) if p.kind not in _SLOW] == []
    lanes = 32 if key.arch == "gfx1201" else 64
    for report in inspect(code):
        if report.kernel == key.name:
            assert report.block_size in (lanes, 4 * lanes, 256)
