"""The curated CPU tiles: every one is legal, and the wheel holds the same kernels at each level."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ckdisp
from ckdisp.codegen.ops import gemm

CURATED = json.loads((Path(gemm.__file__).parent / "curated_cpu.json").read_text())
ROWS = [
    (level, dtype, row)
    for level in CURATED
    for dtype in CURATED[level]
    for row in CURATED[level][dtype]
]


@pytest.mark.parametrize(("level", "dtype", "row"), ROWS)
def test_a_curated_tile_keeps_every_rule(level: str, dtype: str, row: dict[str, object]) -> None:
    options = {name: row[name] for name in ("pipeline", "tile", "warp")}
    key = ckdisp.make_key("gemm.standard", arch=level, dtype=dtype, layout="rcr", **options)
    assert key.check() == []


def test_every_level_of_the_wheel_holds_the_same_kernels() -> None:
    def contents(level: str) -> list[tuple[str, ...]]:
        keys = ckdisp.KernelSet.preset("gemm.cpu_prebuilt", level)
        fields = ("family", "dtype_a", "dtype_c", "layout", "elementwise", "pipeline")
        return sorted(tuple(getattr(key, field) for field in fields) for key in keys)

    assert all(contents(level) == contents("generic") for level in CURATED)
