"""The scripts that CMake and make run: job limits, depfiles, set-up of ``.venv``."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ninja_step() -> ModuleType:
    return load("cmake/ckdisp_ninja.py")


@pytest.fixture
def venv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    module = load("tools/venv.py")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path)
    monkeypatch.setattr(module, "PYTHON", tmp_path / "bin" / "python")
    return module


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, []),
        ({"CMAKE_BUILD_PARALLEL_LEVEL": "3"}, ["-j3"]),
        ({"CMAKE_BUILD_PARALLEL_LEVEL": ""}, []),
        ({"MAKEFLAGS": " -j5 --jobserver-auth=3,4", "MAKELEVEL": "2"}, ["-j5"]),
        ({"MAKEFLAGS": "s", "MAKELEVEL": "1"}, ["-j1"]),
        ({"MAKEFLAGS": " -j", "MAKELEVEL": "1"}, []),
        ({"MAKEFLAGS": " -j5 --jobserver-auth=fifo:/tmp/x", "CMAKE_BUILD_PARALLEL_LEVEL": "5"}, []),
    ],
)
def test_the_inner_build_takes_the_outer_parallelism(
    ninja_step: ModuleType, environment: dict[str, str], options: list[str]
) -> None:
    assert ninja_step.job_options(environment) == options


def test_depfiles_escape_what_make_would_read(ninja_step: ModuleType) -> None:
    assert ninja_step.escape(Path("/a b/#c/$d")) == "/a\\ b/\\#c/$$d"


def test_a_folder_without_a_generator_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert load("cmake/ckdisp_codegen.py").main([str(tmp_path), "cpp-view"]) == 2
    assert f"{tmp_path} holds no ckdisp generator" in capsys.readouterr().err


def test_missing_ensurepip_says_what_to_install(
    venv: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venv.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="apt-get install python3-venv"):
        venv.check_machine(compiles=False)


def test_a_missing_compiler_says_what_to_install(
    venv: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match=r"no C\+\+ compiler.*apt-get install g\+\+"):
        venv.check_machine(compiles=True)


def test_an_old_python_is_refused(venv: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    with pytest.raises(SystemExit, match=r"needs 3\.11 or newer"):
        venv.check_machine(compiles=False)


def test_a_step_is_repeated_only_when_its_content_changes(venv: ModuleType) -> None:
    def needed(content: str) -> bool:
        with venv.step("x", content) as answer:
            return bool(answer)

    assert [needed(c) for c in ("a", "a", "b", "b", "a")] == [True, False, True, False, True]


def test_a_step_that_fails_is_not_done(venv: ModuleType) -> None:
    with pytest.raises(RuntimeError), venv.step("x", "a"):
        raise RuntimeError
    with venv.step("x", "a") as needed:
        assert needed


def test_the_package_is_rebuilt_when_a_source_changes(venv: ModuleType, tmp_path: Path) -> None:
    for name in venv.PACKAGE_SOURCES:
        (tmp_path / name).touch()
    (tmp_path / "pyproject.toml").touch()
    first = venv.source_digest()
    assert venv.source_digest() == first
    (tmp_path / "README.md").write_text("changed")
    assert venv.source_digest() != first


@pytest.mark.parametrize(("ci", "levels"), [("", "native"), ("true", "all")])
def test_only_ci_builds_kernels_for_other_machines(
    venv: ModuleType, monkeypatch: pytest.MonkeyPatch, ci: str, levels: str
) -> None:
    commands: list[tuple[object, ...]] = []
    monkeypatch.setattr(venv, "run", lambda *command: commands.append(command))
    monkeypatch.setattr(venv, "source_digest", lambda: "")
    monkeypatch.setenv("CI", ci)
    venv.install_package()
    (command,) = commands
    assert f"--config-settings=cmake.define.CKDISP_CPU_LEVELS={levels}" in command
    venv.install_package()
    assert len(commands) == 1
