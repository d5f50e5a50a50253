"""``ckdisp demo fmha``: an attention block in three ways, made small, on the prebuilt kernels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from installed import needs_prebuilt

import ckdisp
from ckdisp.cli import attention_block, demo_gemm
from ckdisp.cli import demo_fmha as demo
from ckdisp.cli.app import app
from ckdisp.cli.attention_block import ATTEND, OUT, QKV, Block, Sizes

PASSES = ["forward", "decode pagedkv", "decode splitkv", "backward"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["demo", *arguments, "--quick", "--threads", "1"])


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SIZES", Sizes(dim=24, heads=4, kv_heads=2, head_dim=8))
    monkeypatch.setattr(demo, "QUICK_TOKENS", 21)


@needs_prebuilt
@pytest.mark.usefixtures("tiny")
def test_every_pass_is_right_and_names_its_kernels() -> None:
    result = run("fmha")
    assert result.exit_code == 0, result.output
    assert "a text of 21 tokens in fp32" in result.stdout and "prebuilt kernels" in result.stdout
    assert "all 20 results are right" in result.stdout
    document = json.loads(run("fmha", "--json").stdout)
    assert document["ok"] is True and document["threads"] == 1 and document["tokens"] == 21
    rows = document["rows"]
    assert list(dict.fromkeys(row["pass"] for row in rows)) == PASSES
    for row in rows:
        assert 0 <= row["error"] <= row["tolerance"]
        if row["step"] != demo.AGREE:
            assert row["kernels"] and row["seconds"] > 0
            assert all(name in result.stdout for name in row["kernels"])
    families = {ckdisp.parse_name(name).family for row in rows for name in row["kernels"]}
    assert families == {
        *("gemm.standard", "fmha.fwd", "fmha.appendkv", "fmha.pagedkv", "fmha.splitkv"),
        *("fmha.splitkv_combine", "fmha.bwd_dot_do_o", "fmha.bwd_dq_dk_dv"),
    }


@needs_prebuilt
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("error", [1e-3, float("nan")])
def test_a_wrong_result_is_1(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "largest_error", lambda out, reference: error)
    result = run("fmha")
    assert result.exit_code == 1
    assert "WRONG" in result.stdout and "wrong: 20 results: forward qkv_proj" in result.stdout
    document = json.loads(run("fmha", "--json").stdout)
    assert document["ok"] is False
    assert document["rows"][0]["error"] == (error if np.isfinite(error) else None)


@needs_prebuilt
@pytest.mark.usefixtures("tiny")
def test_decoding_otherwise_than_forward_is_1(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = attention_block.decode

    def forgetful(*arguments: Any) -> Any:
        found = decode(*arguments)
        return {**found, OUT: (found[OUT][0] * 1.01,)}

    monkeypatch.setattr(attention_block, "decode", forgetful)
    document = json.loads(run("fmha", "--json").stdout)
    wrong = [(row["pass"], row["step"]) for row in document["rows"] if not row["ok"]]
    assert wrong == [(way, step) for way in PASSES[1:3] for step in (OUT, demo.AGREE)]


@needs_prebuilt
@pytest.mark.usefixtures("tiny")
def test_nan_in_one_gradient_of_three_is_1(monkeypatch: pytest.MonkeyPatch) -> None:
    backward = attention_block.backward

    def broken(*arguments: Any) -> Any:
        found = backward(*arguments)
        found[ATTEND][1][0, 3] = np.nan
        return found

    monkeypatch.setattr(attention_block, "backward", broken)
    document = json.loads(run("fmha", "--json").stdout)
    wrong = [(row["pass"], row["step"], row["error"]) for row in document["rows"] if not row["ok"]]
    assert wrong == [("backward", ATTEND, None)]


@needs_prebuilt
@pytest.mark.usefixtures("tiny")
def test_without_an_op_the_demo_ends_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_gemm, "LAYERS", {"one": (96, 64)})
    monkeypatch.setattr(demo_gemm, "QUICK_LAYERS", ("one",))
    monkeypatch.setattr(
        demo_gemm, "kernels_of", lambda kernels, say: (ckdisp.Registry.prebuilt(), "")
    )
    text = run().stdout
    assert 0 <= text.index(demo_gemm.MODEL) < text.index("An attention block")
    document = json.loads(run("--json").stdout)
    assert document["ok"] is True
    assert document["gemm"]["ok"] is True and document["fmha"]["ok"] is True
    monkeypatch.setattr(demo_gemm, "largest_error", lambda out, reference: 1.0)
    result = run("--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["fmha"]["ok"] is True


def test_gradients_of_the_reference_are_those_of_finite_differences() -> None:
    sizes = Sizes(dim=6, heads=2, kv_heads=1, head_dim=4)
    block = Block.make(sizes, b"abcab", np.float64)
    _, gradients = attention_block.expected(block)

    def loss(**changed: Any) -> float:
        other = Block(**{**vars(block), **changed})
        (y,) = attention_block.expected(other)[0][OUT]
        return float(np.sum(y * block.dy))

    for name, step in (("x", QKV), ("w_qkv", "dW qkv"), ("w_out", "dW o")):
        array = getattr(block, name)
        for index in ((0, 0), (2, 3), (4, 1)):
            change = np.zeros_like(array)
            change[index] = 1e-5
            slope = (loss(**{name: array + change}) - loss(**{name: array - change})) / 2e-5
            assert gradients[step][0][index] == pytest.approx(slope, rel=1e-5, abs=1e-7)
