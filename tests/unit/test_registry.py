"""``ckdisp.Registry`` and ``ckdisp.Dispatcher`` around the call itself."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ckdisp
from ckdisp import GemmProblem, Registry
from ckdisp.cli.app import app

pytestmark = pytest.mark.xdist_group("naive")

PLAIN = "naive_fp32_fp32_rrr_passthrough_d0"


@pytest.fixture
def registry(naive_library: Path) -> Registry:
    return Registry.load(naive_library)


def test_lookup(registry: Registry) -> None:
    names = [k.name for k in registry]
    assert names == sorted(names) and len(registry) == len(names)
    assert PLAIN in registry and "other" not in registry and 3 not in registry
    assert registry[PLAIN] == registry.kernels()[names.index(PLAIN)]
    with pytest.raises(ckdisp.KernelNotFound, match=f"did you mean '{PLAIN}'"):
        registry[PLAIN + "0"]


def test_prebuilt_holds_what_a_wheel_was_asked_for(
    registry: Registry, naive_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    for folder in (empty, full):
        folder.mkdir()
    monkeypatch.setattr("ckdisp.registry._PREBUILT", [empty, full])
    with pytest.raises(ckdisp.LibraryError, match=r"no prebuilt kernels for .*empty, .*full; "):
        Registry.prebuilt()
    shutil.copy(naive_library, full / "libckdisp_wheel_kernels.so")
    assert [k.name for k in Registry.prebuilt()] == [k.name for k in registry]
    level = ckdisp.host_arches()[-1]
    shutil.copy(naive_library, empty / f"libckdisp_cpu_{level}.so")
    found = {Path(lib["path"]) for lib in json.loads(Registry.prebuilt().to_json())["libraries"]}
    assert empty / f"libckdisp_cpu_{level}.so" in found


def test_filters(registry: Registry) -> None:
    assert {k.field("dtype_a") for k in registry.kernels(dtype="int8")} == {"int8"}
    assert [k.name for k in registry.kernels(dtype="fp32", layout="rrr", elementwise="add")] == [
        "naive_fp32_fp32_rrr_add_d1c",
        "naive_fp32_fp32_rrr_add_d1r",
    ]
    assert len(registry.kernels(tile=(1, 1, 1), pad_m=True)) == len(registry)
    assert registry.kernels(op="conv") == [] and registry.kernels(arch="gfx942") == []
    with pytest.raises(ckdisp.InvalidKey, match=r"unknown key field 'layuot' .*'layout'"):
        registry.kernels(layuot="rrr")
    only = registry.filter(lambda k: k.family == "gemm.standard")
    assert {k.family for k in only} == {"gemm.standard"} and len(only) < len(registry)


def test_priorities_and_merge(naive_library: Path) -> None:
    registry = Registry("mine")
    registry.add(naive_library, priority="low")
    assert registry.priority(PLAIN) == "low"
    registry.merge(Registry.load(naive_library, priority="high"))
    assert registry.priority(PLAIN) == "high"
    registry.merge(registry)
    size = len(registry)
    registry.remove(PLAIN)
    assert len(registry) == size - 1
    with pytest.raises(ckdisp.KernelNotFound, match="no kernel named"):
        registry.remove(PLAIN)
    with pytest.raises(ckdisp.KernelNotFound, match="no kernel named"):
        registry.priority(PLAIN)
    with pytest.raises(ckdisp.InvalidKey, match=r"unknown priority 'hihg' \(did you mean 'high'"):
        registry.add(naive_library, priority="hihg")  # type: ignore[arg-type]
    registry.clear()
    assert len(registry) == 0 and repr(registry) == "<Registry 'mine': 0 kernels>"


def test_json(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    document = json.loads(registry.to_json(path))
    assert json.loads(path.read_text()) == document
    assert document["size"] == len(registry)
    assert document["libraries"][0]["build_info"] == {"made": "by hand"}
    assert document["statistics"]["layout"]["ccr"] == 1
    by_name = {k["name"]: k["key"] for k in document["kernels"]}
    assert by_name[PLAIN] == registry[PLAIN].key.to_dict()


def test_problem() -> None:
    problem = GemmProblem(2, 3, 4, dtype="int8", layout="crr")
    assert problem.to_dict() == {
        "m": 2, "n": 3, "k": 4, "dtype_a": "int8", "dtype_b": "int8", "dtype_c": "int32",
        "dtype_acc": "int32", "layout": "crr", "lda": 2, "ldb": 3, "ldc": 3,
        "elementwise": "passthrough", "num_d": 0, "dtype_d": "int32", "layout_d": "r", "ldd": [],
        "k_batch": 1, "shuffled_b": False,
    }  # fmt: skip
    assert (problem.flops, problem.bytes) == (48, 8 + 12 + 24)
    assert problem == GemmProblem(2, 3, 4, dtype_a="int8", layout="crr", lda=2)
    assert problem == GemmProblem(2, 3, 4, dtype=np.int8, layout="crr")
    assert problem != GemmProblem(2, 3, 4, dtype="int8") and problem != 3
    assert len({problem, GemmProblem(2, 3, 4, dtype="int8", layout="crr")}) == 1
    assert "m=2 n=3 k=4 int8 x int8 -> int32 crr" in repr(problem)


def test_bad_problems() -> None:
    for arguments, text in [
        ((-1, 2, 3), "negative"),
        ((2**63, 2, 3), "m=9223372036854775808 does not fit"),
        ((2**31, 2**31, 2**31), "too large"),
        ((2.5, 2, 3), "m must be an integer, not 2.5"),
        ((True, 2, 3), "m is True; pass a number"),
    ]:
        with pytest.raises(ckdisp.InvalidArgument, match=text):
            GemmProblem(*arguments)  # type: ignore[arg-type]
    for field in ("k_batch", "num_d"):
        for value in ("2", 2.0, True, None, 2**40):
            with pytest.raises(ckdisp.InvalidArgument, match=f"{field} is .*; pass the number of"):
                GemmProblem(1, 1, 1, **{field: value})  # type: ignore[arg-type]
    with pytest.raises(ckdisp.InvalidKey, match=r"unknown dtype <class 'numpy\.float64'>"):
        GemmProblem(1, 1, 1, dtype=np.float64)
    with pytest.raises(ckdisp.InvalidArgument, match="ldd holds 2 numbers for 1 D"):
        GemmProblem(1, 1, 1, elementwise="add", num_d=1, ldd=[1, 1])
    with pytest.raises(ckdisp.InvalidArgument, match="0 to 4 D tensors, not 300"):
        GemmProblem(1, 1, 1, elementwise="relu", num_d=300)
    with pytest.raises(ckdisp.InvalidArgument, match="leading dimension of A"):
        GemmProblem(2, 2, 2, lda=1)
    with pytest.raises(ckdisp.InvalidKey, match=r"unknown layout 'rxr'.*known: rcr"):
        GemmProblem(1, 1, 1, layout="rxr")


def test_select_explain_plan(registry: Registry) -> None:
    disp = ckdisp.Dispatcher(registry)
    problem = GemmProblem(2, 3, 4, layout="rrr")
    assert disp.select(problem).name == PLAIN
    explanation = disp.explain(problem)
    assert len(explanation) == len(registry)
    best, *others = explanation
    assert (best.kernel.name, best.supported, best.reason, best.rank) == (PLAIN, True, "none", 0)
    assert not any(c.supported for c in others)
    assert {c.reason for c in others} == {"dtype", "layout", "elementwise"}
    table = str(explanation).splitlines()
    assert table[0].split() == ["rank", "kernel", "reason", "why"] and PLAIN in table[1]
    plan = disp.plan(problem)
    assert [s.kernel.name for s in plan.stages] == [PLAIN] and plan.workspace_bytes == 0


def test_unsupported_and_missing(registry: Registry) -> None:
    disp = ckdisp.Dispatcher(registry)
    with pytest.raises(ckdisp.UnsupportedProblem, match=r"\[split_k\] cannot split K into 3 parts"):
        disp.select(GemmProblem(2, 3, 4, layout="rrr", k_batch=3))
    with pytest.raises(ckdisp.KernelNotFound) as caught:
        disp.select(GemmProblem(2, 3, 4, elementwise="relu", num_d=2, layout="rrr"))
    text = str(caught.value)
    assert "registry 'naive'" in text and "rrr passthrough d=0 -> fp32" in text
    assert f"ckdisp generate gemm.multi_d --arch {ckdisp.host_arches()[0]} --where " in text
    assert "--where elementwise=relu --where num_d=2" in text


@pytest.mark.parametrize(
    "problem",
    [
        {"dtype": "fp16"},
        {"dtype": "int8", "dtype_c": "int8", "layout": "rrr"},
        {"dtype_a": "fp8", "dtype_b": "bf8"},
        {"dtype": "bf16", "layout": "ccr", "elementwise": "relu", "num_d": 2},
        {"elementwise": "clamp", "num_d": 1, "layout_d": "c"},
    ],
)
def test_the_proposed_command_makes_a_kernel(problem: dict[str, Any]) -> None:
    with pytest.raises(ckdisp.KernelNotFound) as caught:
        ckdisp.Dispatcher(Registry()).select(GemmProblem(4, 4, 4, **problem))
    generate = str(caught.value).partition("Build one: ckdisp generate ")[2]
    arguments = shlex.split(generate.partition(" --out kernels && ckdisp build kernels")[0])
    result = CliRunner().invoke(app, ["count", *arguments])
    assert result.exit_code == 0 and int(result.stdout) > 0


def test_types_that_never_mix(registry: Registry) -> None:
    with pytest.raises(ckdisp.KernelNotFound, match="No kernel multiplies fp16 by bf16: convert"):
        ckdisp.Dispatcher(registry).select(GemmProblem(4, 4, 4, dtype_a="fp16", dtype_b="bf16"))


def test_strategies(registry: Registry) -> None:
    asked: list[GemmProblem] = []

    def last(problem: GemmProblem, candidates: list[ckdisp.Kernel]) -> list[str]:
        asked.append(problem)
        return [k.name for k in reversed(candidates)]

    problem = GemmProblem(2, 3, 4, layout="rrr")
    assert ckdisp.Dispatcher(registry, "first").select(problem).name == PLAIN
    disp = ckdisp.Dispatcher(registry, last)
    assert disp.select(problem).name == disp.select(problem).name == PLAIN
    assert asked == [problem]
    a, b = np.ones((2, 4), np.float32), np.ones((4, 3), np.float32)
    assert (disp.gemm(a, b) == 4).all()
    with pytest.raises(ckdisp.InvalidKey, match=r"unknown strategy 'fast'.*heuristic, first"):
        ckdisp.Dispatcher(registry, "fast")  # type: ignore[arg-type]


def test_callbacks_that_fail(registry: Registry) -> None:
    problem = GemmProblem(2, 3, 4, layout="rrr")
    a, b = np.ones((2, 4), np.float32), np.ones((4, 3), np.float32)

    def raises(*_: object) -> list[str]:
        raise RuntimeError("from the callback")

    with pytest.raises(RuntimeError, match="from the callback"):
        ckdisp.Dispatcher(registry, raises).gemm(a, b)
    with pytest.raises(ckdisp.InvalidArgument, match="returned the name 'x'"):
        ckdisp.Dispatcher(registry, lambda p, c: ["x"]).select(problem)
    with pytest.raises(ckdisp.UnsupportedProblem, match="chose none"):
        ckdisp.Dispatcher(registry, lambda p, c: []).select(problem)


@pytest.mark.parametrize("answer", [None, 5, "gemm", [5], [None]])
def test_callbacks_that_return_no_kernels(registry: Registry, answer: Any) -> None:
    disp = ckdisp.Dispatcher(registry, lambda p, c: answer)
    with pytest.raises(ckdisp.InvalidArgument, match=r"returned .*; return a list of kernels"):
        disp.select(GemmProblem(2, 3, 4, layout="rrr"))


def test_a_callback_that_refers_to_its_dispatcher_leaks_nothing(naive_library: Path) -> None:
    script = f"""
import ckdisp

def order(problem, candidates):
    return candidates if disp is not None else []

disp = ckdisp.Dispatcher(ckdisp.Registry.load({str(naive_library)!r}), order)
explanation = disp.explain(ckdisp.GemmProblem(2, 3, 4))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_change_of_the_registry_is_seen(registry: Registry) -> None:
    disp = ckdisp.Dispatcher(registry)
    problem = GemmProblem(2, 3, 4, layout="rrr")
    assert disp.select(problem).name == PLAIN
    registry.remove(PLAIN)
    with pytest.raises(ckdisp.KernelNotFound):
        disp.select(problem)


def test_problem_from_tensors(registry: Registry) -> None:
    disp = ckdisp.Dispatcher(registry)
    a, b = np.ones((2, 4), np.float32), np.ones((3, 8), np.float32)[:, ::2].T
    problem = disp.problem(a, np.ones((3, 4), np.float32).T, out_dtype="fp16")
    assert problem == GemmProblem(2, 3, 4, layout="rcr", dtype_c="fp16")
    assert disp.problem(a, b).to_dict()["ldb"] in (3, 4)  # copied: dense in either order
    column = np.asfortranarray(np.ones((2, 4), np.float32))
    problem = GemmProblem.from_tensors(column, column.T, d=np.ones((2, 1), np.int8), epilogue="add")
    assert problem == GemmProblem(
        2, 2, 4, layout="crr", elementwise="add", num_d=1, dtype_d="int8", layout_d="c", ldd=[0]
    )
    with pytest.raises(ckdisp.InvalidArgument, match="columns of a must equal"):
        GemmProblem.from_tensors(a, a)
