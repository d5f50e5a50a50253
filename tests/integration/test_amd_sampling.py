"""Keys drawn at random from everything that the rules pass compile to right code.

``make check-amd`` does the same with more keys.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import amd
import pytest
from amd_sample import ARCHS, OPS, SLOW, draw, traits
from cmake_project import ROOT, run

from ckdisp import Registry
from ckdisp.code_objects import check_object
from ckdisp.codegen.ops import op
from ckdisp.codegen.ops.fmha.families import PIPELINES
from ckdisp.codegen.rules import check_all
from ckdisp.jit.build import Options, build_library

SEED = 1


# One small key of each op, each for another arch: a compilation takes a minute.
_SEED = 2


@pytest.mark.xdist_group("amd_sampling")
@pytest.mark.parametrize(
    ("arch", "operation"),
    [(ARCHS[(_SEED + 2 * i) % len(ARCHS)], name) for i, name in enumerate(OPS)],
)
def test_a_random_key_compiles(arch: str, operation: str, kernel_cache: Path) -> None:
    hip = amd.toolchain()
    (key,) = draw(arch, operation, 1, _SEED, hip.features(), steps=16)
    library = build_library([key], Options(jobs=1, progress=False, hip=hip, cache_dir=kernel_cache))
    problems = [problem for problem in check_object(library, key) if problem.kind not in SLOW]
    assert [str(problem) for problem in problems] == []
    registry = Registry("sample")
    registry.add(library)
    assert [kernel.name for kernel in registry.kernels()] == [key.name]


@pytest.mark.parametrize("operation", OPS)
def test_draws_repeat_and_spread(operation: str) -> None:
    count = 120 if operation == "fmha" else 40  # nine families share them
    keys = draw("gfx950", operation, count, SEED)
    assert keys == draw("gfx950", operation, count, SEED)
    assert keys != draw("gfx950", operation, count, SEED + 1)
    assert len(set(keys)) == count
    assert check_all(keys) == [[] for _ in keys]
    families = Counter(key.family for key in keys)
    assert set(families) == set(op(operation).families)
    # A try may find a kernel that is drawn already.
    assert max(families.values()) <= min(families.values()) + 2
    seen = {trait for key in keys for trait in traits(key)}
    pipelines = {value[1] for name, value in seen if name == "pipeline"}
    layouts = {value for name, value in seen if name == "layout"}
    if operation == "gemm":
        assert pipelines >= {"mem", "compv3", "compv4", "compv5", "compv6", "compasync"}
        assert layouts == {"rcr", "rrr", "crr", "ccr"}
    elif operation == "fmha":
        assert pipelines == {p for some in PIPELINES.values() for p in some}
        assert {value for name, value in seen if name == "mode"} == {"batch", "group"}
        assert {value for name, value in seen if name == "bias"} == {"no", "bias", "alibi"}
    else:
        assert pipelines >= {"mem", "compv3", "compv4", "compv5"}
        assert layouts == {"nwgc", "nhwgc", "ndhwgc"}
        assert {value for name, value in seen if name == "two_stage"} == {False, True}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--archs", "gfx99"), "unknown arch 'gfx99'"),
        (("--archs", "x86-64-v4"), "x86-64-v4 is not a GPU"),
        (("-n", "0"), "0 is not a positive number"),
        (("--jobs", "-1"), "-1 is not a positive number"),
        (("--op", "attention"), "invalid choice: 'attention'"),
    ],
)
def test_the_longer_run_refuses_bad_arguments(arguments: tuple[str, ...], text: str) -> None:
    done = run(sys.executable, ROOT / "tools" / "check_amd.py", *arguments)
    assert done.status == 2
    assert text in done.text and "Traceback" not in done.text
