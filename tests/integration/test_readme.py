"""Every snippet of the README is run, as a reader would run it."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import amd
import pytest
from cmake_project import ROOT, Project, cmake_dir, run

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def snippets(language: str) -> list[str]:
    """The fenced blocks of ``language``, in order."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    assert found, f"the README has no {language} block"
    return found


def test_every_language_is_known() -> None:
    """A block in a language that no test below reads would never be run."""
    languages = set(re.findall(r"^```(\w+)$", README, flags=re.MULTILINE))
    assert languages == {"sh", "python", "json", "cmake", "cpp", "console", "bash"}


def test_make_targets_exist() -> None:
    (block,) = snippets("sh")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", block, flags=re.MULTILINE)
    assert targets == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


@pytest.mark.parametrize("block", range(len(snippets("python"))))
def test_python(block: int, tmp_path: Path, kernel_cache: Path) -> None:
    program = tmp_path / "snippet.py"
    program.write_text(snippets("python")[block], encoding="utf-8")
    run(sys.executable, "-W", "error", program, CKDISP_CACHE_DIR=str(kernel_cache)).ok()


@pytest.mark.xdist_group("packages")
def test_cmake_and_cpp(tmp_path: Path) -> None:
    source = tmp_path / "app"
    source.mkdir()
    blocks = {"kernels.json": "json", "CMakeLists.txt": "cmake", "main.cpp": "cpp"}
    for name, language in blocks.items():
        (block,) = snippets(language)
        (source / name).write_text(block, encoding="utf-8")
    project = Project(source, tmp_path / "build", settings={"ckdisp_DIR": str(cmake_dir())})
    project.configure().ok()
    project.make().ok()
    text = run(project.build / "app").ok().text
    assert re.fullmatch(r"gemm_standard_cpu_\w+_rrr_\w+: 8\n", text)


def test_console(tmp_path: Path) -> None:
    """The commands build on each other, so they run in order in one folder."""
    (block,) = snippets("console")
    for line in block.splitlines():
        prompt, program, *arguments = shlex.split(line)
        assert (prompt, program) == ("$", "ckdisp")
        command = [sys.executable, "-m", "ckdisp", *arguments]
        run(*command, cwd=tmp_path, CKDISP_CACHE_DIR=str(tmp_path / "cache")).ok()


def test_amd_commands(tmp_path: Path) -> None:
    """The kernels of the README are compiled for real and hold matrix instructions."""
    amd.toolchain()
    (block,) = snippets("bash")
    for line in block.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "ckdisp"
        command = [sys.executable, "-m", "ckdisp", *arguments]
        text = run(*command, cwd=tmp_path, COLUMNS="200").ok().text
    library = "amd_kernels/libckdisp_kernels.so"
    report = run(sys.executable, "-m", "ckdisp", "inspect", library, "--json", cwd=tmp_path).ok()
    kernels = json.loads(report.text)
    assert kernels
    assert all(k["arch"] == "gfx942" and sum(k["matrix"].values()) > 0 for k in kernels)
    assert "gfx942" in text


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.name)
def test_named_paths_exist(page: Path) -> None:
    """Files and folders that the pages name in code spans are where they say."""
    tops = "|".join(("codegen", "csrc", "python", "cmake", "tests", "docs", "examples"))
    named = re.findall(rf"`((?:{tops})/[\w./*-]*)`", page.read_text(encoding="utf-8"))
    for path in named:
        if "<" not in path:
            assert list(ROOT.glob(path.rstrip("/"))), f"{page.name}: {path}"
