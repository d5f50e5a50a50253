"""``ckdisp cache`` and ``ckdisp doctor``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ckdisp
from ckdisp.cli.app import app

pytestmark = pytest.mark.xdist_group("cli_cache")  # the cache is filled once


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the kernels of one problem."""
    root = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CKDISP_CACHE_DIR", str(root))
        result = run("select", "gemm.standard", "--shape", "8x8x8", "--jit")
        assert result.exit_code == 0, result.output
    return root


@pytest.fixture
def root(filled: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CKDISP_CACHE_DIR", str(filled))
    return filled


def test_dir_prints_the_folder(root: Path) -> None:
    assert run("cache", "dir").stdout == f"{root}\n"


def test_dir_refuses_a_list_of_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKDISP_CACHE_DIR", "/a:")
    result = run("cache", "dir")
    assert result.exit_code == 1
    assert "one folder" in result.stderr


def test_ls_shows_kernels_and_library(root: Path) -> None:
    document = json.loads(run("cache", "ls", "--json").stdout)
    assert document["root"] == str(root)
    kinds = [e["kind"] for e in document["entries"]]
    assert kinds.count("libraries") == 1
    names = [e["label"] for e in document["entries"] if e["kind"] == "objects"]
    expected = ckdisp.KernelSet.sweep(
        "gemm.standard", "native", where={"dtype": "fp32", "layout": "rcr"}
    )
    assert sorted(names) == sorted(expected.names())
    text = run("cache", "ls").stdout
    assert all(name in text for name in names)
    assert f"{len(names)} objects, 1 library" in text


def test_ls_of_an_empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKDISP_CACHE_DIR", str(tmp_path / "none"))
    result = run("cache", "ls")
    assert result.exit_code == 0
    assert "0 objects" in result.stdout
    assert not (tmp_path / "none").exists()


def test_verify_prune_and_clear(root: Path) -> None:
    assert run("cache", "verify").exit_code == 0
    damaged = next((root / "objects").rglob("*.o"))
    damaged.write_bytes(b"damaged")
    result = run("cache", "verify", "--json")
    assert result.exit_code == 1
    assert len(json.loads(result.stdout)["damaged"]) == 1
    assert "can be deleted with --remove" in run("cache", "verify").stdout
    assert run("cache", "verify", "--remove").exit_code == 1
    assert not damaged.exists()
    assert run("cache", "verify").exit_code == 0

    assert "0 entries deleted" in run("cache", "prune", "--max-age", "30d").stdout
    assert json.loads(run("cache", "prune", "--max-size", "0", "--json").stdout)["removed"]
    assert json.loads(run("cache", "ls", "--json").stdout)["entries"] == []
    (root / "objects" / "left").write_text("x")
    (root / "not ours").write_text("x")
    assert run("cache", "clear", "--yes").exit_code == 0
    assert [p.name for p in root.iterdir()] == ["not ours"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["clear"], "--yes"),
        (["prune", "--max-size", "5 apples"], "e.g. 500MB"),
        (["prune", "--max-age", "5"], "e.g. 30d"),
        (["prun"], "prune"),
    ],
)
def test_bad_usage_is_2(arguments: list[str], text: str, root: Path) -> None:
    result = run("cache", *arguments)
    assert result.exit_code == 2
    assert text in result.stderr


@pytest.mark.parametrize("name", ["dir", "ls", "verify", "prune", "clear"])
def test_every_subcommand_has_help(name: str) -> None:
    result = run("cache", name, "--help")
    assert result.exit_code == 0
    assert "Exit codes:" in result.stdout


def test_doctor_reports_what_it_finds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    result = run("doctor", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0, result.stdout
    assert document["ok"] is True
    checks = {c["name"]: c for c in document["checks"]}
    assert checks["cpu level"]["found"].startswith(ckdisp.host_arches()[0])
    assert checks["numpy"]["status"] == "ok"
    assert str(root) in checks["cache"]["found"]
    assert {c["status"] for c in document["checks"]} <= {"ok", "warn", "fail"}
    assert all(c["todo"] for c in document["checks"] if c["status"] != "ok")
    text = run("doctor").stdout
    assert "ckdisp works here" in text
    assert all(name in text for name in checks)


def test_doctor_says_why_a_level_was_chosen(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKDISP_CPU_LEVEL", "generic")
    checks = {c["name"]: c for c in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert checks["cpu level"]["found"] == "generic: set by CKDISP_CPU_LEVEL"


def test_doctor_fails_on_an_unknown_level(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKDISP_CPU_LEVEL", "x86-64-v9")
    result = run("doctor")
    assert result.exit_code == 1
    assert "x86-64-v9" in result.stdout
    assert "cannot work here: cpu level" in result.stdout


def test_doctor_warns_without_a_compiler_and_fails_without_any_kernels(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    checks = {c["name"]: c for c in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert checks["compiler"]["status"] == "warn"
    assert "/nonexistent/c++" in checks["compiler"]["todo"]

    def missing() -> None:
        raise ckdisp.LibraryError("no prebuilt kernels")

    monkeypatch.setattr(ckdisp.Registry, "prebuilt", missing)
    result = run("doctor")
    assert result.exit_code == 1
    assert "neither" in result.stdout or "no compiler to build any" in result.stdout


def test_doctor_warns_about_a_cache_that_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("")
    monkeypatch.setenv("CKDISP_CACHE_DIR", str(path))
    checks = {c["name"]: c for c in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert checks["cache"]["status"] == "warn"
    assert "not a folder" in checks["cache"]["todo"]


def test_doctor_fails_on_a_package_that_cannot_be_imported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "filelock", None)
    result = run("doctor")
    assert result.exit_code == 1
    assert "cannot work here: filelock" in result.stdout
    assert "pip install -U filelock" in result.stdout
