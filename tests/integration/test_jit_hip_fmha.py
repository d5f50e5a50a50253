"""Attention kernels for GPUs: built into a library that the runtime loads, lists and explains."""

from __future__ import annotations

import json
from pathlib import Path

import amd
import pytest
from fake_hip import FakeHip, write_hip_headers

from ckdisp import Registry
from ckdisp.codegen.make import make_key
from ckdisp.jit import build as build_module
from ckdisp.jit.build import Options, build_library

KEYS = [
    make_key("fmha.fwd", arch="gfx942", hdim=64, bias="bias"),
    make_key("fmha.splitkv", arch="gfx942", hdim=64),
    make_key("fmha.splitkv_combine", arch="gfx942", hdim=64),
    make_key("fmha.bwd_dq_dk_dv", arch="gfx942", hdim=64, mask="generic"),
]
SCRIPT = """
import json
from ckdisp import Dispatcher, FmhaProblem, Registry

registry = Registry("attention")
registry.add({library!r})
dispatcher = Dispatcher(registry)
shape = {{"batch": 1, "heads": 4, "head_dim": 64, "lengths": (128, 128), "dtype": "fp16"}}
found = {{}}
for name, family, more in (
    ("fwd", "fwd", {{"bias": "bias"}}),
    ("plain", "fwd", {{}}),
    ("bwd", "bwd", {{"mask": "bottom_right"}}),
):
    explanation = dispatcher.explain(FmhaProblem(family, **shape, **more), device=0)
    found[name] = {{c.kernel.key.family: c.reason for c in explanation}}
print(json.dumps(found))
"""


def test_a_library_is_built_loaded_and_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hip = FakeHip(tmp_path / "hip")
    headers = write_hip_headers(tmp_path / "headers")
    monkeypatch.setattr(build_module, "own_include_dirs", lambda: headers)
    monkeypatch.setattr(build_module, "missing_headers", dict)
    monkeypatch.setenv("ROCM_PATH", hip.toolchain.root)
    monkeypatch.setenv("CKDISP_CACHE_DIR", str(tmp_path / "cache"))
    library = build_library(KEYS, Options(progress=False))
    # Forward and backward kernels have flags, and so precompiled headers, of their own.
    assert hip.done() == {"header": 4, "device": 4, "host": 2}
    registry = Registry("attention")
    registry.add(library)
    assert {kernel.name for kernel in registry.kernels()} == {key.name for key in KEYS}
    monkeypatch.undo()
    text = amd.run_with_stub(SCRIPT.format(library=str(library)), CKDISP_STUB_DEVICES="gfx942")
    others = dict.fromkeys([key.family for key in KEYS], "family")
    assert json.loads(text) == {
        "fwd": others | {"fmha.fwd": "none"},
        "plain": others | {"fmha.fwd": "bias"},
        "bwd": others | {"fmha.bwd_dq_dk_dv": "none"},
    }
