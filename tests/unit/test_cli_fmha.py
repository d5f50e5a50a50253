"""``ckdisp select``, ``explain`` and ``bench`` for attention, on the prebuilt kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from installed import needs_prebuilt
from naive_kernels import compile_fmha

import ckdisp
from ckdisp.cli.app import app
from ckdisp.cli.fmha_options import fmha_options
from ckdisp.cli.selection import Selection

SHAPE = ("--shape", "2x4x9x33x16")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@needs_prebuilt
def test_select_prints_the_name_that_the_dispatcher_takes() -> None:
    dispatcher = ckdisp.Dispatcher(ckdisp.Registry.prebuilt())
    problem = ckdisp.FmhaProblem(
        *("fmha.fwd",), batch=2, heads=(4, 2), lengths=(9, 33), head_dim=(16, 8), dtype="bf16",
        mask="top_left", window=(5, 0), lse=True,
    )  # fmt: skip
    arguments = (
        *("fmha.fwd", "--shape", "2x4x9x33x16x8", "--nhead-k", 2, "--dtype", "bf16", "--lse"),
        *("--mask", "top_left", "--window", "5,0"),
    )
    expected = dispatcher.select(problem).name
    assert run("select", *arguments).stdout == f"{expected}\n"
    document = json.loads(run("select", *arguments, "--json").stdout)
    assert document["kernel"] == expected
    assert ckdisp.parse_name(expected).to_dict() == document["key"]
    assert document["problem"] == json.loads(json.dumps(problem.to_dict()))


@needs_prebuilt
@pytest.mark.parametrize(
    ("family", "stages"),
    [
        ("fmha.splitkv", {"fmha.splitkv", "fmha.splitkv_combine"}),
        ("fmha.bwd", {"fmha.bwd_dot_do_o", "fmha.bwd_dq_dk_dv", "fmha.bwd_convert_dq"}),
    ],
)
def test_explain_shows_every_stage(family: str, stages: set[str]) -> None:
    arguments = ("explain", family, *SHAPE, "--dtype", "bf16" if len(stages) == 3 else "fp32")
    document = json.loads(run(*arguments, "--json").stdout)
    chosen = {c["kernel"] for c in document["candidates"] if c["chosen"]}
    assert chosen == {c["kernel"] for c in document["candidates"] if c["rank"] == 0}
    assert {ckdisp.parse_name(name).family for name in chosen} == stages
    every = {ckdisp.parse_name(c["kernel"]).family for c in document["candidates"]}
    assert every == stages
    assert run(*arguments).stdout.count("chosen") == len(stages)


def test_explain_chooses_nothing_where_select_fails(tmp_path: Path) -> None:
    # Both kernels of the family can serve, and nothing can sum up what they make.
    library = compile_fmha(tmp_path, "-DNAIVE_FMHA_WITHOUT_COMBINE")
    arguments = ("fmha.splitkv", *SHAPE, "--library", library)
    selected, explained = run("select", *arguments), run("explain", *arguments)
    assert (selected.exit_code, explained.exit_code) == (1, 1)
    assert "chosen" not in explained.stdout
    assert "no kernel for fmha.splitkv_combine" in selected.stderr
    assert explained.stderr == selected.stderr
    document = json.loads(run("explain", *arguments, "--json").stdout)
    supported = [c for c in document["candidates"] if c["supported"]]
    assert supported and not any(c["chosen"] for c in document["candidates"])
    registry = ckdisp.Registry.load(library)
    problem = ckdisp.FmhaProblem("fmha.splitkv", batch=2, heads=4, lengths=(9, 33), head_dim=16)
    assert ckdisp.Dispatcher(registry).explain(problem).chosen == []


@needs_prebuilt
def test_explain_of_a_type_that_no_kernel_has_is_1() -> None:
    result = run("explain", "fmha.fwd", *SHAPE, "--dtype", "bf8")
    assert result.exit_code == 1
    assert "computes in fp32, not bf8" in result.stdout


@needs_prebuilt
@pytest.mark.parametrize(
    "arguments",
    [
        ("fmha.fwd", "--bias", "bias", "--lse", "--layout", "bshd", "--mask", "bottom_right"),
        ("fmha.fwd", "--mask", "top_left", "--dropout", "0.2", "--logits-soft-cap", "3"),
        ("fmha.splitkv", "--num-splits", "2", "--page-size", "8", "--nhead-k", "1"),
        ("fmha.pagedkv", "--mask", "bottom_right", "--window=-1,2", "--sink", "2"),
        ("fmha.batch_prefill", "--bias", "alibi", "--lse"),
        ("fmha.appendkv", "--rope", "half_rotated", "--mask", "top_left"),
        ("fmha.bwd", "--bias", "bias", "--dbias", "--deterministic"),
    ],
)
def test_bench_times_and_checks(arguments: tuple[str, ...]) -> None:
    result = run(
        "bench", *arguments, *SHAPE, "--seconds", "0.01", "--check", "--threads", "1", "--json"
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["check"]["ok"] is True and document["threads"] == 1
    timing = document["timings"]["ckdisp"]
    append = arguments[0] == "fmha.appendkv"
    assert (timing["gflops"] == 0) == append
    assert set(document["timings"]) <= ({"ckdisp"} if append else {"ckdisp", "torch"})


@needs_prebuilt
def test_bench_check_of_a_wrong_result_is_1(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = np.zeros((2, 4, 9, 16))
    found = (zeros, np.zeros((2, 4, 9)))
    monkeypatch.setattr(ckdisp.reference, "attention_fwd", lambda *_, **how: found)
    result = run("bench", "fmha.fwd", *SHAPE, "--seconds", "0.01", "--check")
    assert result.exit_code == 1
    assert f"of {zeros.size} elements differ" in result.stdout


@needs_prebuilt
def test_bench_agrees_with_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides of the table compute the same, masks and biases included."""
    pytest.importorskip("torch")
    dispatcher = ckdisp.Dispatcher(ckdisp.Registry.prebuilt())
    ways: list[dict[str, Any]] = [
        {},
        {"mask": "top_left", "nhead_k": 2},
        {"mask": "bottom_right"},
        {"mask": "bottom_right", "window": (4, 1), "sink": 1},
        {"mask": "top_left", "bias": "bias"},
    ]
    for family in ("fmha.fwd", "fmha.bwd_dq_dk_dv"):
        for how in ways:
            if family != "fmha.fwd":
                how = {name: value for name, value in how.items() if name != "sink"}
            operands = fmha_options(family, (2, 4, 33, 33, 16), "fp32", None, **how).operands()
            theirs: Any = operands.torch()
            assert theirs is not None
            found, ours = theirs(), operands.run(dispatcher)
            pairs = zip(ours, found, strict=True) if isinstance(ours, tuple) else [(ours, found)]
            for x, y in pairs:
                assert ckdisp.Validator().check(x, y.detach().numpy()), (family, how)


def test_what_pytorch_lacks_is_left_out() -> None:
    for family, how in [
        ("fmha.fwd", {"dropout": 0.5}),
        ("fmha.fwd", {"logits_soft_cap": 3.0}),
        ("fmha.fwd", {"bias": "alibi"}),
        ("fmha.appendkv", {}),
    ]:
        assert fmha_options(family, (1, 2, 3, 4, 8), "fp32", None, **how).operands().torch() is None


@pytest.mark.parametrize(
    ("family", "arguments", "text"),
    [
        ("fmha.fwd", (), "Missing option '--shape'"),
        ("fmha.fwd", ("--shape", "2x8x64"), "rows of K, head dimension, and that of V where it"),
        ("fmha.fwd", ("--shape", "2x4x9x33x16x8x1"), "2x8x1024x1024x64, not 7 sizes"),
        ("fmha.fwd", (*SHAPE, "--nhead-k", "3"), "4 heads of q are no multiple of the 3"),
        ("fmha.fwd", (*SHAPE, "--layout", "rcr"), "unknown layout 'rcr'; known: bhsd, bshd"),
        ("fmha.fwd", (*SHAPE, "--dtype", "int8"), "attention has no int8"),
        ("fmha.fwd", (*SHAPE, "--out-dtype", "bf16"), "no attention turns fp32 into bf16"),
        ("fmha.fwd", (*SHAPE, "--mask", "causal"), "'causal' is not one of"),
        ("fmha.fwd", (*SHAPE, "--window", "5"), "on each side of the diagonal, -1 for all"),
        ("fmha.fwd", (*SHAPE, "--window", "5,-2"), "window (5, -2) is inverted"),
        ("fmha.fwd", (*SHAPE, "--sink", "2"), "there is no mask"),
        ("fmha.fwd", (*SHAPE, "--dropout", "1"), "0<=x<1"),
        ("fmha.fwd", (*SHAPE, "--dropout", "nan"), "--dropout is nan"),
        ("fmha.fwd", (*SHAPE, "--logits-soft-cap", "inf"), "--logits-soft-cap is inf"),
        ("fmha.fwd", (*SHAPE, "--logits-soft-cap", "2", "--bias", "alibi"), "exclude each other"),
        ("fmha.fwd", (*SHAPE, "--page-size", "8"), "has no pages"),
        ("fmha.fwd", (*SHAPE, "--num-splits", "2"), "--num-splits is an option of fmha.splitkv"),
        ("fmha.fwd", (*SHAPE, "--rope", "interleaved"), "--rope is an option of fmha.appendkv"),
        ("fmha.fwd", (*SHAPE, "--epilogue", "relu"), "--epilogue is an option of gemm"),
        ("fmha.bwd", (*SHAPE, "--dbias"), "there is no bias tensor"),
        ("fmha.bwd", (*SHAPE, "--dtype", "fp8"), "no backward pass in fp8"),
        ("fmha.splitkv", (*SHAPE, "--dropout", "0.5"), "has no dropout"),
        ("fmha.splitkv_combine", SHAPE, "is a stage of fmha.splitkv"),
        ("fmha.bwd_dot_do_o", SHAPE, "is a stage of fmha.bwd"),
        ("fmha.appendkv", ("--shape", "2x4x34x33x16"), "34 rows are appended to a cache"),
        ("gemm.standard", ("--shape", "8x8x8", "--mask", "no"), "--mask is an option of fmha"),
        ("gemm.standard", ("--shape", "8x8x8", "--layout", "bhsd"), "unknown layout 'bhsd'"),
        ("conv.fwd", ("--shape", "2x8x9x9", "--layout", "bhsd"), "--layout is an option of gemm"),
    ],
)
@pytest.mark.parametrize("command", ["select", "explain", "bench"])
def test_invalid_problems_are_usage_errors(
    command: str, family: str, arguments: tuple[str, ...], text: str
) -> None:
    result = run(command, family, *arguments, "--jit")
    assert result.exit_code == 2, result.output
    assert text in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("family", "how", "counts"),
    [
        ("fmha.fwd", {"mask": "top_left", "lse": True}, [4]),
        ("fmha.splitkv", {"page_size": 16}, [4, 8]),
        ("fmha.pagedkv", {}, [2]),
        ("fmha.batch_prefill", {"page_size": 16}, [2]),
        ("fmha.appendkv", {"rope": "interleaved"}, [2]),
        ("fmha.bwd", {"deterministic": True}, [7, 4, 4]),
    ],
)
def test_only_kernels_of_the_case_are_compiled_for_a_gpu(
    family: str, how: dict[str, Any], counts: list[int]
) -> None:
    problem = fmha_options(
        "fmha.bwd_dq_dk_dv" if family == "fmha.bwd" else family, (2, 8, 9, 33, 100), "fp16", None,
        **how,
    )  # fmt: skip
    found = [
        Selection(
            *(stage, ("gfx942",), None, None, None, where, None), companions=False
        ).kernel_set()
        for stage, where in problem.stages("gfx942").items()
    ]
    assert [len(kernels) for kernels in found] == counts
    assert {key.hdim_q for kernels in found for key in kernels} == {128}
