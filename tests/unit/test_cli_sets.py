"""``ckdisp count``, ``list``, ``rules``, ``generate``: declarations on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ckdisp import KernelSet, parse_name
from ckdisp.cli.app import app

FP32 = ["--arch", "x86-64-v3", "--where", "dtype=fp32", "--where", "layout=rcr,rrr"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_list_prints_canonical_names() -> None:
    result = run("list", "gemm.standard", *FP32)
    assert result.exit_code == 0
    expected = KernelSet.sweep(
        "gemm.standard", "x86-64-v3", where={"dtype": ["fp32"], "layout": ["rcr", "rrr"]}
    )
    assert result.stdout.split() == expected.names()


def test_count_is_the_length_of_list() -> None:
    count = run("count", "gemm.standard", *FP32)
    assert int(count.stdout) == len(run("list", "gemm.standard", *FP32).stdout.split())
    assert json.loads(run("count", "gemm.standard", *FP32, "--json").stdout) == {
        "count": int(count.stdout)
    }


def test_json_keys_parse_back() -> None:
    keys = json.loads(run("list", "gemm.standard", *FP32, "--json").stdout)
    assert keys
    for key in keys:
        name = key.pop("name")
        assert parse_name(name).to_dict() == key


def test_limit_bounds_both_forms() -> None:
    full = run("list", "gemm.standard", "--arch", "gfx942", "--tiles", "all", "--limit", "3")
    assert len(full.stdout.split()) == 3
    result = run("list", "gemm.standard", *FP32, "--limit", "1", "--json")
    assert len(json.loads(result.stdout)) == 1
    assert json.loads(run("list", "gemm.standard", *FP32, "--limit", "0", "--json").stdout) == []


def test_several_arches_add_up() -> None:
    counts = [
        int(run("count", "gemm.standard", *arches).stdout)
        for arches in (
            ["--arch", "gfx942"],
            ["--arch", "gfx950"],
            ["--arch", "gfx942", "--arch", "gfx950"],
        )
    ]
    assert counts[0] + counts[1] == counts[2] > counts[0] > 0


def test_gpu_kernels_need_no_arch_where_a_setting_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    where = ["--where", "dtype=fp16", "--where", "layout=rcr"]
    gpu = ["gemm.standard", "--provider", "ck_tile", *where]
    monkeypatch.setenv("CKDISP_ARCHS", "gfx942;gfx1201")
    expected = run("count", *gpu, "--arch", "gfx942", "--arch", "gfx1201").stdout
    assert run("count", *gpu).stdout == run("count", *gpu, "--arch", "native").stdout == expected
    monkeypatch.setenv("CKDISP_ARCHS", "gfx924")
    result = run("count", *gpu)
    assert result.exit_code == 2 and "did you mean 'gfx942'" in result.stderr
    assert run("count", "gemm.standard", *where).exit_code == 0  # kernels for the CPU


@pytest.mark.parametrize("name", ["fp16_rcr_essential", "gemm.fp16_rcr_essential"])
def test_preset_with_and_without_op(name: str) -> None:
    result = run("list", "gemm.standard", "--arch", "gfx942", "--preset", name)
    names = result.stdout.split()
    assert names
    assert all(n.startswith("gemm_standard_cktile_gfx942_fp16_fp16") for n in names)


def test_where_narrows_a_preset() -> None:
    base = ["list", "gemm.standard", "--arch", "gfx942", "--preset", "fp16_rcr_all"]
    pipelines = {parse_name(n).to_dict()["pipeline"] for n in run(*base).stdout.split()}
    assert len(pipelines) > 1
    chosen = min(pipelines)
    narrowed = run(*base, "--where", f"pipeline={chosen}").stdout.split()
    assert {parse_name(n).to_dict()["pipeline"] for n in narrowed} == {chosen}


def test_where_reads_numbers_tiles_and_flags() -> None:
    base = ["list", "gemm.standard", "--arch", "gfx942", "--tiles", "all", "--limit", "5"]
    conditions = ["tile=128x128x32", "pad_m=true", "block_per_cu=1,2"]
    result = run(*base, *(x for c in conditions for x in ("--where", c)))
    names = result.stdout.split()
    assert len(names) == 5
    for name in names:
        key = parse_name(name).to_dict()
        assert key["tile"] == [128, 128, 32]
        assert key["pad_m"] is True


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["gemm.standrd"], "did you mean 'gemm.standard'?"),
        (["gemm.standard", "--where", "dtpe=fp32"], "did you mean 'dtype'?"),
        (["gemm.standard", "--where", "dtype=fp33"], "did you mean 'fp32'?"),
        (["gemm.standard", "--where", "dtype"], "e.g. --where dtype=fp32,bf16"),
        (["gemm.standard", "--where", "=fp32"], "e.g. --where dtype=fp32,bf16"),
        (["gemm.standard", "--arch", "gfx94"], "did you mean 'gfx942'?"),
        (["gemm.standard", "--tiles", "best"], "curated"),
        (["gemm.standard", "--provider", "cutlas"], "known: cpu, ck_tile"),
        (["gemm.standard", "--arch", "gfx942", "--preset", "fp16_rcr_essental"], "did you mean"),
        (["gemm.standrd", "--arch", "gfx942", "--preset", "fp16_rcr_all"], "did you mean"),
        (["gemm.standard", "--spec", "x.json"], "leave out FAMILY"),
        (["--spec", "does/not/exist.json"], "does/not/exist.json"),
        ([], "give a FAMILY"),
    ],
)
def test_invalid_declarations_are_usage_errors(arguments: list[str], text: str) -> None:
    for command in ("count", "list"):
        result = run(command, *arguments)
        assert result.exit_code == 2, result.output
        assert text in result.stderr
        assert result.stdout == ""


def test_a_preset_without_the_family_says_what_it_holds() -> None:
    arguments = ["--arch", "gfx942", "--preset", "fp16_rcr_multi_d"]
    result = run("count", "gemm.preshuffle", *arguments)
    assert result.exit_code == 2
    assert "gemm.multi_d" in result.stderr


def test_rules_lists_rules_and_reasons() -> None:
    text = run("rules").stdout
    assert "tile_divisible" in text and "leading_dimension" in text
    document = json.loads(run("rules", "gemm.standard", "--json").stdout)
    assert {"name", "doc", "columns"} <= set(document["rules"]["gemm"][0])
    assert document["reasons"]["none"]
    bad = run("rules", "gem")
    assert bad.exit_code == 2
    assert "did you mean 'gemm'?" in bad.stderr


def test_generate_writes_once_and_touches_nothing_again(tmp_path: Path) -> None:
    out = tmp_path / "a folder"
    arguments = ["generate", "gemm.standard", *FP32, "--out", str(out), "--name", "mine", "--json"]
    first = json.loads(run(*arguments).stdout)
    assert first["written"] and not first["unchanged"] and not first["removed"]
    assert first["library"] == "mine"
    assert first["kernels"] == len(list((out / "units").iterdir()))
    times = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    second = json.loads(run(*arguments).stdout)
    assert not second["written"] and not second["removed"]
    assert times == {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    plain = run(*arguments[:-1]).stdout
    assert f"{out}: " in plain and "0 files written" in plain


def test_generate_emits_what_is_asked(tmp_path: Path) -> None:
    result = run("generate", "gemm.standard", *FP32, "--out", str(tmp_path), "--emit", "make")
    assert result.exit_code == 0
    assert (tmp_path / "Makefile").is_file()
    assert not (tmp_path / "build.ninja").exists()
    assert not (tmp_path / "CMakeLists.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--emit", "ninjo"], 2, "did you mean 'ninja'?"),
        (["--emit", ","], 2, "name at least one"),
        (["--name", "my-lib"], 1, "not a C identifier"),
        (["--arch", "gfx942"], 1, "no HIP compiler at ROCM_PATH=/nowhere"),
        (["--arch", "gfx942:xnack-", "--arch", "gfx942:xnack+"], 2, "build two libraries"),
    ],
)
def test_generate_refuses_before_writing(
    arguments: list[str], code: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    monkeypatch.delenv("CKDISP_ROCM_PATH", raising=False)
    out = tmp_path / "out"
    base = ["--arch", "x86-64-v3"] if "--arch" not in arguments else []
    where = ["--where", "dtype=fp16"]
    result = run("generate", "gemm.standard", *base, *where, "--out", str(out), *arguments)
    assert result.exit_code == code
    assert text in result.stderr
    assert not out.exists()


def test_generate_leaves_a_foreign_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n")
    result = run("generate", "gemm.standard", *FP32, "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "Makefile" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["Makefile"]


def test_generate_into_a_file_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    result = run("generate", "gemm.standard", *FP32, "--out", str(path))
    assert result.exit_code == 2
    assert "is a file" in result.stderr


@pytest.mark.parametrize("arguments", [["generate", "gemm.standard", *FP32, "--out"], ["build"]])
def test_an_empty_folder_name_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments, "")
    assert result.exit_code == 2
    assert "it is empty; name a folder" in result.stderr
    assert not any(tmp_path.iterdir())


def test_build_of_a_folder_with_a_damaged_manifest(tmp_path: Path) -> None:
    result = run("generate", "gemm.standard", *FP32, "--out", str(tmp_path))
    assert result.exit_code == 0
    (tmp_path / "manifest.json").write_text("{")
    result = run("build", str(tmp_path))
    assert result.exit_code == 1
    assert "manifest.json" in result.stderr and "ckdisp generate" in result.stderr


def test_build_of_a_foreign_folder_says_what_to_do(tmp_path: Path) -> None:
    result = run("build", str(tmp_path))
    assert result.exit_code == 1
    assert "ckdisp generate" in result.stderr


def test_list_of_a_file_that_is_no_library(tmp_path: Path) -> None:
    path = tmp_path / "broken.so"
    path.write_bytes(b"not a library")
    for arguments in (["list", str(path)], ["list", "--library", str(path)]):
        result = run(*arguments)
        assert result.exit_code == 1
        assert "broken.so" in result.stderr
    missing = run("list", "./nothing.so")
    assert missing.exit_code == 1
    assert "nothing.so" in missing.stderr
