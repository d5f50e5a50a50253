"""The host side of CK Tile convolutions on emulated devices: arguments, launches, checks, stages.

The code objects are stand-ins that have every kernel by name; that real ones have them too, and
take arguments of the size that is passed, the last tests show.
"""

from __future__ import annotations

from pathlib import Path

import ck_tile_lab as lab
import pytest
from ck_tile_lab import EVEN, FULL, ODD

from ckdisp.code_objects import inspect
from ckdisp.codegen.make import make_key

SMALL = {"tile": (64, 64, 64), "wave": (2, 2, 1), "warp": (32, 32, 16), "pipeline": "compv3"}
SMALL_32 = {"tile": (64, 64, 64), "wave": (4, 2, 1), "warp": (16, 16, 16), "pipeline": "compv3"}
FWD = {**SMALL, "arch": "gfx942", "vector": (2, 4, 4)}
DATA = {**SMALL, "arch": "gfx942", "vector": (2, 8, 4)}
WEIGHT = {**SMALL, "arch": "gfx942", "vector": (8, 8, 4)}

KEYS = {
    "fwd": make_key("conv.fwd", **FWD),
    "fwd1": make_key("conv.fwd", **FWD, layout="nwgc", dtype="bf16", epilogue="default"),
    "fwd3": make_key("conv.fwd", **FWD, layout="ndhwgc"),
    "pointwise": make_key("conv.fwd", **FWD, specialization="filter1x1_stride1_pad0"),
    "pad0": make_key("conv.fwd", **FWD, specialization="filter1x1_pad0", layout="nwgc"),
    "three": make_key(
        "conv.fwd", **(FWD | {"vector": (1, 1, 2)}), specialization="filter3x3"
    ),
    "merged": make_key("conv.fwd", **(FWD | {"vector": (2, 2, 1)}), groups_to_merge=2),
    "fwd32": make_key("conv.fwd", **SMALL_32, arch="gfx1201", vector=(2, 2, 4)),
    "data": make_key("conv.bwd_data", **DATA),
    "data1": make_key("conv.bwd_data", **DATA, layout="nwgc"),
    "data3": make_key("conv.bwd_data", **DATA, layout="ndhwgc", dtype="bf16"),
    "weight": make_key("conv.bwd_weight", **WEIGHT, split_k=True),
    "weight1": make_key("conv.bwd_weight", **WEIGHT, layout="nwgc"),
    "weight3": make_key("conv.bwd_weight", **WEIGHT, layout="ndhwgc", split_k=True),
    "stages": make_key("conv.bwd_weight", **WEIGHT, split_k=True, two_stage=True),
    "merged_weight": make_key("conv.bwd_weight", **WEIGHT, groups_to_merge=2),
}  # fmt: skip


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> lab.Driver:
    return lab.build_driver(tmp_path_factory.mktemp("ck_tile_conv"), "conv", list(KEYS.values()))
