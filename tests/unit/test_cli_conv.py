"""``ckdisp select``, ``explain``, ``bench`` and ``demo`` for convolutions, on a small library."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tiny_demo import shrink

import ckdisp
from ckdisp.cli import demo_conv as demo
from ckdisp.cli.app import app

pytestmark = pytest.mark.xdist_group("cli_conv")  # the library is built once

WHERE = {"dtype": "fp32", "layout": "nhwgc"}
KERNELS = ckdisp.KernelSet.sweep("conv.fwd", "native", where=WHERE)
SHAPE = ("--shape", "2x8x9x10", "--filter", "16x3x3")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("jit")
    KERNELS.build(cache_dir=cache, progress=False)
    (library,) = (cache / "libraries").rglob("*.so")
    return library


def test_select_prints_the_name_that_the_dispatcher_takes(library: Path) -> None:
    dispatcher = ckdisp.Dispatcher(ckdisp.Registry.load(library))
    problem = ckdisp.GroupedConvProblem("fwd", (2, 8, 9, 10), (16, 8, 3, 3), stride=2, padding=1)
    arguments = ("conv.fwd", *SHAPE, "--stride", 2, "--padding", 1, "--library", library)
    expected = dispatcher.select(problem).name
    assert run("select", *arguments).stdout == f"{expected}\n"
    document = json.loads(run("select", *arguments, "--json").stdout)
    assert document["kernel"] == expected
    assert document["problem"]["output_shape"] == list(problem.output_shape)
    assert document["problem"]["stride"] == [2, 2]


def test_explain_says_why_a_kernel_does_not_do(library: Path) -> None:
    arguments = ("explain", "conv.fwd", *SHAPE, "--library", library)
    document = json.loads(run(*arguments, "--json").stdout)
    reasons = {c["kernel"]: c["reason"] for c in document["candidates"]}
    assert sorted(reasons) == sorted(KERNELS.names())
    for key in KERNELS:
        if key.pipeline == "direct":
            assert reasons[key.name] == "channels"
        else:
            special = key.specialization != "default"
            assert reasons[key.name] == ("specialization" if special else "none")
    table = run(*arguments).stdout
    assert "8 input and 16 output channels" in table and "chosen" in table


def test_bench_times_and_checks(library: Path) -> None:
    result = run(
        *("bench", "conv.fwd", *SHAPE, "--library", library),
        *("--seconds", "0.01", "--check", "--threads", "1", "--json"),
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["check"]["ok"] is True
    timing = document["timings"]["ckdisp"]
    operations = 2 * 2 * 16 * 7 * 8 * 8 * 9
    assert timing["gflops"] == pytest.approx(operations / timing["median"] * 1e-9)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--shape", "2x8x9x9"), "--filter"),
        (("--shape", "2x8x9x9", "--filter", "8x3"), "is K and 2 sizes of the filter, e.g. 128x3x3"),
        (("--shape", "2x8x9", "--filter", "8x3x3"), "is K and 1 size of the filter, e.g. 128x3"),
        (("--shape", "2x8x9x9", "--filter", "8x3x3", "--groups", "3"), "groups"),
        (("--shape", "2x8x9x9", "--filter", "8x8x3x3"), "--filter holds 8x8x3x3; for this --shape"),
        (("--shape", "2x8x9x9", "--filter", "8x3x3", "--padding", "-1"), "--padding"),
        (("--shape", "2x8x9x9", "--filter", "8x3x3", "--stride", "1,2,3"), "stride"),
        (("--shape", "2x8x9x9", "--filter", "8x3x3", "--layout", "rcr"), "layout"),
    ],
)
@pytest.mark.parametrize("command", ["select", "explain", "bench"])
def test_invalid_problems_are_usage_errors(
    command: str, arguments: tuple[str, ...], text: str, library: Path
) -> None:
    result = run(command, "conv.fwd", *arguments, "--library", library)
    assert result.exit_code == 2, result.output
    assert text in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["select", "explain", "bench"])
@pytest.mark.parametrize(
    ("family", "arguments", "text"),
    [
        ("conv.fwd", ("--stride", "0"), "stride 0 in height"),
        ("conv.fwd", ("--groups", "4", "--filter", "9x3x3"), "do not divide into 4 groups"),
        ("conv.fwd", ("--out-dtype", "int8"), "the output cannot be int8"),
        ("conv.bwd_data", ("--dtype", "int8"), "gradients are fp32, fp16, bf16"),
        ("conv.fwd", ("--shape", f"{2**40}x8x{2**30}x9"), "overflow 63 bits"),
    ],
)
def test_problems_that_can_never_work_compile_nothing(
    command: str, family: str, arguments: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(
        app,
        [command, family, *SHAPE, *arguments, "--jit"],
        env={"CKDISP_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert result.exit_code == 2 and text in result.stderr
    assert not (tmp_path / "cache").exists()


def test_a_filter_beyond_the_input_is_a_usage_error(library: Path) -> None:
    sizes = ("--shape", "2x8x9x9", "--filter", "8x13x3")
    result = run("select", "conv.fwd", *sizes, "--library", library)
    assert result.exit_code == 2
    assert "spans 13 pixels in height" in result.stderr


@pytest.fixture
def tiny_demo(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(demo, {"one": (8, 16, 9, 3, 2), "two": (16, 8, 7, 1, 1)}, ("two",), library, monkeypatch)


@pytest.mark.usefixtures("tiny_demo")
def test_demo_has_a_row_for_every_layer() -> None:
    result = run("demo", "conv")
    assert result.exit_code == 0, result.output
    assert "all 2 results are right" in result.stdout
    document = json.loads(run("demo", "conv", "--json", "--threads", "1").stdout)
    assert document["ok"] is True and document["threads"] == 1
    assert [row["layer"] for row in document["rows"]] == ["one", "two"]
    for row in document["rows"]:
        assert row["kernel"] in KERNELS.names()
        assert 0 <= row["error"] <= row["tolerance"]
        assert row["seconds"] > 0 and row["gflops"] > 0
    quick = json.loads(run("demo", "conv", "--quick", "--json").stdout)
    assert [row["layer"] for row in quick["rows"]] == ["two"]


@pytest.mark.usefixtures("tiny_demo")
@pytest.mark.parametrize("error", [1e-2, float("nan")])
def test_demo_with_a_wrong_result_is_1(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "largest_error", lambda out, reference: error)
    result = run("demo", "conv", "--quick")
    assert result.exit_code == 1
    assert "WRONG" in result.stdout and "wrong: 1 result" in result.stdout
    document = json.loads(run("demo", "conv", "--quick", "--json").stdout)
    assert document["ok"] is False
    assert document["rows"][0]["error"] == (error if np.isfinite(error) else None)


def test_the_parts_of_sums_are_an_option() -> None:
    """CPU kernels do not split: open problems have one part, and others are refused."""
    sizes = ["--shape", "2x16x8x8", "--filter", "16x1x1", "--json"]
    explained = json.loads(run("explain", "conv.bwd_weight", *sizes).stdout)
    assert explained["problem"]["k_batch"] == 0
    assert {c["k_batch"] for c in explained["candidates"] if c["supported"]} == {1}
    refused = run("explain", "conv.bwd_weight", *sizes, "--k-batch", "3")
    assert refused.exit_code == 1
    assert "split_k" in {c["reason"] for c in json.loads(refused.stdout)["candidates"]}
    multiplied = run("bench", "gemm.standard", "--shape", "8x8x8", "--k-batch", "0", "--json")
    assert multiplied.exit_code == 0, multiplied.stderr
