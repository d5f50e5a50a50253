"""``ckdisp select``, ``explain``, ``bench`` and ``demo`` on a small library, and ``list`` of it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tiny_demo import shrink

import ckdisp
from ckdisp.cli import demo_gemm as demo
from ckdisp.cli.app import app

pytestmark = pytest.mark.xdist_group("cli_library")  # the library is built once

NAMES = ckdisp.KernelSet.sweep(
    "gemm.standard", "native", where={"dtype": "fp32", "layout": "rcr"}
).names()


def run(*arguments: object, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], env=env)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of the fp32 kernels of layout rcr, built by the command line."""
    out = tmp_path_factory.mktemp("cli") / "out"
    where = ["--where", "dtype=fp32", "--where", "layout=rcr"]
    result = run("generate", "gemm.standard", *where, "--out", out, "--emit", "ninja")
    assert result.exit_code == 0, result.output
    result = run("build", out, "--jobs", 2)
    assert result.exit_code == 0, result.output
    path = Path(result.stdout.splitlines()[-1])
    assert path.is_file()
    return path


def test_build_again_compiles_nothing(library: Path) -> None:
    result = json.loads(run("build", library.parent, "--json").stdout)
    assert result["library"] == str(library)
    assert result["steps"] == 0


def test_build_verbose_names_what_it_does(library: Path) -> None:
    library.unlink()
    result = run("build", library.parent, "-v")
    assert "link" in result.stderr
    assert result.stdout.splitlines()[-1] == str(library)


@pytest.mark.parametrize("option", [[], ["--library"]])
def test_list_reads_a_library(library: Path, option: list[str]) -> None:
    result = run("list", *option, library)
    assert sorted(result.stdout.split()) == sorted(NAMES)


def test_list_of_a_library_is_narrowed(library: Path) -> None:
    base = ["list", "--library", library]
    assert run(*base, "--where", "pipeline=packed").stdout.split() == [
        n for n in sorted(NAMES) if "_packed_" in n
    ]
    assert run("list", "gemm.multi_d", "--library", library).stdout == ""
    assert run(*base, "--arch", "gfx942").stdout == ""
    wrong = run(*base, "--where", "pipelin=packed")
    assert wrong.exit_code == 2
    assert "did you mean 'pipeline'?" in wrong.stderr
    refused = run(*base, "--preset", "fp16_rcr_all")
    assert refused.exit_code == 2


def test_select_prints_the_name_that_the_dispatcher_takes(library: Path) -> None:
    dispatcher = ckdisp.Dispatcher(ckdisp.Registry.load(library))
    for shape in ((1, 512, 512), (300, 300, 300)):
        text = "x".join(map(str, shape))
        expected = dispatcher.select(ckdisp.GemmProblem(*shape)).name
        arguments = ("gemm.standard", "--shape", text, "--library", library)
        assert run("select", *arguments).stdout == f"{expected}\n"
        document = json.loads(run("select", *arguments, "--json").stdout)
        assert document["kernel"] == expected
        assert ckdisp.parse_name(expected).to_dict() == document["key"]
        assert document["problem"]["m"] == shape[0]


def test_shape_takes_commas(library: Path) -> None:
    arguments = ("gemm.standard", "--library", library, "--json")
    comma = run("explain", *arguments, "--shape", "3,5,7")
    assert comma.stdout == run("explain", *arguments, "--shape", "3x5x7").stdout


def test_explain_lists_every_candidate_with_reason_and_rank(library: Path) -> None:
    arguments = ("explain", "gemm.standard", "--shape", "500x64x64", "--library", library)
    document = json.loads(run(*arguments, "--json").stdout)
    candidates = {c["kernel"]: c for c in document["candidates"]}
    assert sorted(candidates) == sorted(NAMES)
    assert [c["rank"] for c in document["candidates"] if c["supported"]] == [0]
    skinny = next(c for n, c in candidates.items() if "_skinny_" in n)
    assert skinny["reason"] == "skinny" and "500" in skinny["text"]
    assert skinny["cost"] is None and skinny["rank"] is None
    table = run(*arguments).stdout
    assert all(name in table for name in NAMES)  # never cut
    assert "chosen" in table and skinny["text"] in table


def test_explain_of_an_unsupported_problem_is_1(library: Path) -> None:
    result = run(
        "explain", "gemm.standard", "--shape", "8x8x8", "--layout", "rrr", "--library", library
    )
    assert result.exit_code == 1
    assert result.stdout.count("reads layout rcr") == len(NAMES)


def test_select_without_a_kernel_is_1(library: Path) -> None:
    for options in (["--dtype", "fp16"], ["--layout", "rrr"]):
        result = run("select", "gemm.standard", "--shape", "8x8x8", *options, "--library", library)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["gemm.standard"], "--shape"),
        (["gemm.standard", "--shape", "8x8"], "e.g. 16x4096x4096"),
        (["gemm.standard", "--shape", "-8x8x8"], "e.g. 16x4096x4096"),
        (["gemm.standard", "--shape", f"{2**70}x8x8"], "64-bit"),
        (["gemm.standard", "--shape", f"{2**62}x{2**62}x8"], "large"),
        (["gemm.standar", "--shape", "8x8x8"], "did you mean 'gemm.standard'?"),
        (["gemm.standard", "--shape", "8x8x8", "--dtype", "fp33"], "did you mean"),
        (["gemm.standard", "--shape", "8x8x8", "--layout", "rcc"], "did you mean"),
        (["gemm.multi_d", "--shape", "8x8x8", "--epilogue", "geluu"], "did you mean 'gelu'?"),
        (["gemm.multi_d", "--shape", "8x8x8", "--num-d", "5"], "0<=x<=4"),
        (["gemm.multi_d", "--shape", "8x8x8", "--epilogue", "add", "--num-d", "3"], "add"),
        (["gemm.standard", "--shape", "8x8x8", "--epilogue", "relu"], "use the family"),
        (["gemm.standard", "--shape", "8x8x8", "--jit", "--library", "x.so"], "exclude"),
        (["gemm.standard", "--shape", "8x8x8", "--preset", "x"], "add --jit"),
        (["gemm.standard", "--shape", "8x8x8", "--threads", "0"], "1<=x"),
    ],
)
@pytest.mark.parametrize("command", ["select", "explain", "bench"])
def test_invalid_problems_are_usage_errors(
    command: str, arguments: list[str], text: str, library: Path
) -> None:
    source = [] if "--jit" in arguments else ["--library", library]
    result = run(command, *arguments, *source)
    assert result.exit_code == 2, result.output
    assert text in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_library_is_1(tmp_path: Path) -> None:
    path = tmp_path / "nothing.so"
    result = run("select", "gemm.standard", "--shape", "8x8x8", "--library", path)
    assert result.exit_code == 1
    assert "nothing.so" in result.stderr


def test_bench_times_all_contestants(library: Path) -> None:
    arguments = ("bench", "gemm.standard", "--shape", "20x30x40", "--library", library)
    result = run(*arguments, "--seconds", "0.01", "--check", "--threads", "1", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert {"ckdisp", "numpy"} <= set(document["timings"])
    assert document["threads"] == 1
    assert document["check"]["ok"] is True
    for timing in document["timings"].values():
        assert 0 < timing["minimum"] <= timing["median"]
        assert timing["runs"] >= 3
        assert timing["gflops"] == pytest.approx(2 * 20 * 30 * 40 / timing["median"] * 1e-9)
    table = run(*arguments, "--seconds", "0.01", "--no-torch").stdout
    assert "GFLOP/s" in table and "x as fast" in table and "torch" not in table


def test_bench_check_of_a_wrong_result_is_1(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ckdisp.reference, "gemm", lambda a, b, **_: np.ones((20, 30)))
    result = run(
        *("bench", "gemm.standard", "--shape", "20x30x40", "--library", library),
        *("--seconds", "0.01", "--check"),
    )
    assert result.exit_code == 1
    assert "600 of 600 elements differ" in result.stdout


def test_bench_of_empty_matrices(library: Path) -> None:
    arguments = ("--library", library, "--seconds", "0.01", "--check", "--json")
    for shape in ("0x8x8", "8x0x8", "8x8x0"):
        result = run("bench", "gemm.standard", "--shape", shape, *arguments)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["check"]["ok"] is True


def test_bench_refuses_what_memory_cannot_hold(library: Path) -> None:
    shape = "1000000x1000000x1000000"
    result = run("bench", "gemm.standard", "--shape", shape, "--library", library)
    assert result.exit_code == 2
    assert "GB of memory are free" in result.stderr


@pytest.fixture
def tiny_demo(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(demo, {"one": (96, 64), "two": (33, 128)}, ("one",), library, monkeypatch)


@pytest.mark.usefixtures("tiny_demo")
def test_demo_without_a_compiler_uses_prebuilt_kernels() -> None:
    result = run("demo", "gemm")
    assert result.exit_code == 0, result.output
    assert "no usable C++ compiler" in result.stdout
    assert "all 6 results are right" in result.stdout
    for text in ("one", "96x64", "GFLOP/s", "NumPy", "error"):
        assert text in result.stdout
    assert [n for n in NAMES if n in result.stdout]


@pytest.mark.usefixtures("tiny_demo")
def test_demo_json_has_a_row_for_every_layer_and_count() -> None:
    result = run("demo", "gemm", "--json", "--threads", "1")
    document = json.loads(result.stdout)
    assert document["ok"] is True and document["threads"] == 1
    assert [(r["layer"], r["m"]) for r in document["rows"]] == [
        (layer, m) for layer in ("one", "two") for m in (1, 16, 128)
    ]
    for row in document["rows"]:
        assert row["kernel"] in NAMES
        assert 0 <= row["error"] <= row["tolerance"]
        assert row["seconds"] > 0 and row["numpy_seconds"] > 0
    quick = json.loads(run("demo", "gemm", "--quick", "--json").stdout)
    assert {r["layer"] for r in quick["rows"]} == {"one"}


@pytest.mark.usefixtures("tiny_demo")
@pytest.mark.parametrize("error", [1e-3, float("nan"), float("inf")])
def test_demo_with_a_wrong_result_is_1(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "largest_error", lambda out, reference: error)
    result = run("demo", "gemm", "--quick")
    assert result.exit_code == 1
    assert "WRONG" in result.stdout and "wrong: 3 results" in result.stdout
    document = json.loads(run("demo", "gemm", "--quick", "--json").stdout)
    assert document["ok"] is False
    assert document["rows"][0]["error"] == (error if np.isfinite(error) else None)


@pytest.mark.usefixtures("tiny_demo")
def test_demo_refuses_what_memory_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LAYERS", {"huge": (10**7, 10**7)})
    result = run("demo", "gemm")
    assert result.exit_code == 2
    assert "GB of memory are free" in result.stderr


def test_demo_builds_kernels_and_finds_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ml_dtypes")
    monkeypatch.setenv("CKDISP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(demo, "LAYERS", {"one": (96, 64)})
    monkeypatch.setattr(demo, "SECONDS", 0.01)
    result = run("demo", "gemm", "--dtype", "bf16")
    assert result.exit_code == 0, result.output
    assert "Building" in result.stdout
    count = len(list((tmp_path / "objects").rglob("*.o")))
    assert count > 0
    again = run("demo", "gemm", "--dtype", "bf16", "--json")
    assert json.loads(again.stdout)["ok"] is True
    assert len(list((tmp_path / "objects").rglob("*.o"))) == count


def test_output_is_not_cut_by_the_width_of_the_terminal(library: Path) -> None:
    command = [sys.executable, "-m", "ckdisp", "explain", "gemm.standard", "--shape", "1x64x64"]
    result = subprocess.run(
        [*command, "--library", str(library)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "40"},
    )
    assert all(name in result.stdout for name in NAMES)
    assert "\x1b" not in result.stdout


def on_terminal(columns: int, *arguments: object, **environment: str) -> str:
    """What the command writes on a terminal of this width."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "ckdisp", *map(str, arguments)],
        stdin=there,
        stdout=there,
        stderr=there,
        env={**kept, "TERM": "xterm-256color", **environment},
    )
    os.close(there)
    text = b""
    try:
        while part := os.read(here, 65536):
            text += part
    except OSError:
        pass  # how Linux says that the other end is closed
    finally:
        os.close(here)
    assert process.wait(60) == 0
    return text.decode()


@pytest.mark.parametrize("columns", [50, 300])
def test_a_terminal_gets_colour_and_whole_names(library: Path, columns: int) -> None:
    arguments = ("explain", "gemm.standard", "--shape", "1x64x64", "--library", library)
    text = on_terminal(columns, *arguments)
    assert all(name in text for name in NAMES)
    assert "\x1b[32m" in text
    plain = on_terminal(columns, *arguments, NO_COLOR="1")
    assert all(name in plain for name in NAMES)
    assert "\x1b" not in plain


def test_build_shows_a_bar_on_a_terminal(library: Path) -> None:
    library.unlink()
    text = on_terminal(80, "build", library.parent)
    assert f"building {len(NAMES)} kernels" in text
    assert text.rstrip().endswith(str(library))
