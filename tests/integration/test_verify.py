"""``ckdisp verify`` on the CPU and on an emulated GPU, with right and with wrong kernels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from on_gpu import OnGpu

import ckdisp
from ckdisp import verification
from ckdisp.cli.app import app


def prebuilt(*families: str) -> ckdisp.Registry:
    level = ckdisp.host_arches()[0]
    registry = ckdisp.Registry.prebuilt()
    return registry.filter(lambda kernel: kernel.arch == level and kernel.family in families)


def test_cpu_kernels_are_right() -> None:
    registry = prebuilt("gemm.standard", "gemm.multi_d", "conv.fwd", "conv.bwd_data")
    rows = ckdisp.verify(registry, cases=5, sample=8, seed=3)
    assert len(rows) == 8
    for row in rows:
        assert not row.wrong, row.differences
        assert row.right and row.cases == 5
    again = ckdisp.verify(registry, cases=5, sample=8, seed=3)
    assert [row.kernel for row in again] == [row.kernel for row in rows]
    assert [r.kernel for r in ckdisp.verify(registry, cases=1, sample=8, seed=4)] != [
        row.kernel for row in rows
    ]


class Spoiled(ckdisp.Dispatcher):
    """Results that are wrong in one element, or of which one byte behind is written."""

    behind = False

    def gemm(self, a: Any, b: Any, *, out: Any = None, **options: Any) -> Any:
        super().gemm(a, b, out=out, **options)
        if out.size and self.behind:
            np.lib.stride_tricks.as_strided(out, (out.shape[0], out.shape[1] + 1), out.strides)[
                -1, -1
            ] = 1
        elif out.size:
            out[-1, -1] += 1
        return out


@pytest.mark.parametrize("behind", [False, True])
def test_wrong_results_are_found(monkeypatch: pytest.MonkeyPatch, behind: bool) -> None:
    monkeypatch.setattr(Spoiled, "behind", behind)
    monkeypatch.setattr("ckdisp.dispatcher.Dispatcher", Spoiled)
    (row,) = ckdisp.verify(prebuilt("gemm.standard"), cases=4, sample=1)
    assert row.wrong and len(row.differences) == row.wrong
    text = "bytes around or between the results" if behind else "1 of .* elements differ"
    assert any(re.search(text, line) for line in row.differences)
    result = CliRunner().invoke(app, ["verify", "--sample", "1", "--cases", "4"])
    assert "here: the CPU" in result.output


def test_bad_counts_and_no_device() -> None:
    with pytest.raises(ckdisp.InvalidArgument, match="cases is 0 and sample None"):
        ckdisp.verify(prebuilt("gemm.standard"), cases=0)


def test_command_line(tmp_path: Path) -> None:
    run = CliRunner().invoke
    arguments = ["verify", "--sample", "3", "--cases", "2", "--seed", "5"]
    found = run(app, [*arguments, "--json"])
    report = json.loads(found.output)
    assert report["seed"] == 5 and len(report["kernels"]) == 3
    assert report["places"][0] == "the CPU"
    failed = run(app, ["verify", str(tmp_path)])
    assert failed.exit_code == 1 and "ckdisp build" in failed.output


def small_kernels_of(arch: str) -> list[verification.Row]:
    where = {"dtype": ["fp16"], "layout": ["rcr"]}
    keys = ckdisp.KernelSet.sweep("gemm.standard", arch, where=where)
    smallest = min(keys, key=lambda key: np.prod(key.tile))
    return ckdisp.verify(ckdisp.KernelSet([smallest]).build(), cases=6)


@pytest.mark.xdist_group("amd_emulator")
def test_gpu_kernels_are_right(on_gpu: OnGpu) -> None:
    (row,) = on_gpu.run(small_kernels_of, "gfx942")
    assert not row.wrong, row.differences
    assert row.right >= 4 and row.arch == "gfx942"
