"""The curated GPU tiles: valid where they are listed, with the roles that presets ask for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amd_sample import OPS, curated_keys

from ckdisp.codegen.arch import arch, arches
from ckdisp.codegen.ops import facts
from ckdisp.codegen.ops.facts import pairs
from ckdisp.codegen.ops.gemm import curated as module
from ckdisp.codegen.ops.gemm.curated import curated
from ckdisp.codegen.rules import check_all

GPUS = [name for name in arches() if arch(name).is_gpu]
DOCUMENT = Path(module.__file__).with_name("curated_gpu.json")
GROUPS = json.loads(DOCUMENT.read_text(encoding="utf-8"))["groups"]


@pytest.mark.parametrize("operation", OPS)
@pytest.mark.parametrize("name", GPUS)
def test_every_curated_tile_is_valid(name, operation):
    keys = list(curated_keys(name, operation))
    # None are curated for the oldest of AMD's, and NVIDIA's have no other op.
    assert keys or (name in ("gfx908", "sm_90a") and operation != "gemm")
    assert check_all(keys) == [[] for _ in keys]


@pytest.mark.parametrize("name", GPUS)
def test_every_pair_of_types_has_an_essential_tile(name):
    for a, b in pairs():
        rows = curated(name, "gemm.standard", a, b)
        emulated = (name, a, b) in {("gfx90a", "fp8", "fp8"), ("gfx90a", "bf8", "bf8")}
        refused = a == "int8" and arch(name).family in ("cdna1", "cdna2")
        if facts.warp_tiles(arch(name), "gemm.standard", a, b) and not emulated and not refused:
            assert any("essential" in row.roles for row in rows), (a, b)


@pytest.mark.parametrize(
    "group", GROUPS, ids=lambda g: f"{g['kind']}-{g['archs'][-1]}-{g['dtypes'][0]}"
)
def test_tiles_that_spill_say_why(group):
    for row in group["rows"]:
        excused = row.get("spills", {})
        assert set(excused) <= set(group["archs"])
        assert all(len(reason.split()) > 3 for reason in excused.values())
