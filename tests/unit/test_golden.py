"""The text of one small generated folder, kept whole so that a change of it is seen.

Set ``CKDISP_UPDATE_GOLDEN=1`` to write the files again after a change that is wanted.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckdisp.codegen.emit.graph import ninja_text
from ckdisp.codegen.emit.tree import make_tree
from ckdisp.codegen.generate import library_text, unit_texts
from ckdisp.codegen.make import make_key
from ckdisp.codegen.providers import Setup
from ckdisp.codegen.toolchain import Toolchain
from ckdisp.codegen.version import VERSION

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr("ckdisp.codegen.emit.tree.memory_mb", lambda available: 8192)
    key = make_key(
        "gemm.multi_d",
        arch="x86-64-v3",
        dtype="bf16",
        layout="rrr",
        elementwise="add",
        num_d=1,
        pipeline="packed",
        warp=(6, 16, 1),
        tile=(96, 2048, 256),
    )
    setup = Setup(
        Toolchain("/usr/bin/c++", ("-g",)), ("/opt/ckdisp/include",), accepts=lambda flag: True
    )
    tree = make_tree("golden", [(key.name, key)], setup)
    gpu = make_key("gemm.standard", arch="gfx942", dtype="fp16", layout="rcr")
    targets = {"gfx942": "gfx942:xnack-"}
    conv = make_key("conv.fwd", arch="x86-64-v3", dtype="bf16", pipeline="direct")
    gradient = make_key("conv.bwd_weight", arch="gfx942", layout="ndhwgc", two_stage=True)
    return {
        "conv_unit.hip": unit_texts([(gradient.name, gradient)], targets)[
            f"units/{gradient.name}.hip"
        ],
        "conv_unit.cpp": unit_texts([(conv.name, conv)], {})[f"units/{conv.name}.cpp"],
        "unit.hip": unit_texts([(gpu.name, gpu)], targets)[f"units/{gpu.name}.hip"],
        "unit.cpp": unit_texts([(key.name, key)], {})[f"units/{key.name}.cpp"],
        "library.cpp": library_text(tree).replace(VERSION, "VERSION"),
        "build.ninja": ninja_text(tree),
    }


UNITS = ["unit.cpp", "unit.hip", "conv_unit.cpp", "conv_unit.hip"]


@pytest.mark.parametrize("name", [*UNITS, "library.cpp", "build.ninja"])
def test_golden(texts: dict[str, str], name: str) -> None:
    path = GOLDEN / name
    if os.environ.get("CKDISP_UPDATE_GOLDEN"):
        path.write_text(texts[name], encoding="utf-8")
    assert texts[name] == path.read_text(encoding="utf-8")
