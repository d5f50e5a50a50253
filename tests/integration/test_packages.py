"""Real consumer projects: a C++ program and a Python wheel with kernels of their own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cmake_project import PACKAGES, ROOT, Project, Result, cmake_dir, find_cmake, run

pytestmark = pytest.mark.xdist_group("packages")  # the fixtures are built once

LIBRARY = "libconsumer_kernels.so"


@pytest.fixture(scope="session")
def install_prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ckdisp installed by ``cmake --install``, in a folder with a blank in its name."""
    folder = tmp_path_factory.mktemp("cmake install")
    settings = {"CMAKE_INSTALL_PREFIX": str(folder / "to"), "CMAKE_CXX_FLAGS_RELEASE": "-DNDEBUG"}
    project = Project(ROOT, folder / "build", settings=settings)
    project.configure().ok()
    project.make().ok()
    run(find_cmake(), "--install", project.build).ok()
    return folder / "to"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The C++ consumer, found by ckdisp_DIR, built by the ninja driver below Ninja."""
    folder = tmp_path_factory.mktemp("built consumer")
    project = Project.copy("cpp_consumer", folder, ckdisp_DIR=str(cmake_dir()))
    project.configure().ok()
    project.make().ok()
    return project


@pytest.fixture(scope="session")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project to declare wrong things in; CMake looks at the compiler only the first time."""
    folder = tmp_path_factory.mktemp("refused consumer")
    return Project.copy("cpp_consumer", folder, ckdisp_DIR=str(cmake_dir()))


def configure(project: Project, commands: str) -> Result:
    """Configure ``project`` with ``commands`` in place of its own."""
    (project.source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(wrong LANGUAGES CXX)\n"
        f"find_package(ckdisp REQUIRED)\n{commands}\n"
    )
    return project.configure()


def objects(project: Project) -> dict[str, int]:
    """Object of the kernel library -> time of its last compilation."""
    folder = project.build / "consumer_kernels" / "obj"
    return {p.name: p.stat().st_mtime_ns for p in folder.glob("*.o")}


def check_program(project: Project) -> None:
    output = run(project.build / "consumer").ok().text
    assert output.startswith("2 kernels, ran gemm_standard_cpu_generic_fp32_")
    assert output.endswith(": right\n")


def test_found_in_the_python_package(built: Project) -> None:
    check_program(built)
    assert (built.build / "consumer_kernels" / LIBRARY).is_file()


@pytest.mark.parametrize(
    ("generator", "driver"),
    [("Unix Makefiles", "ninja"), ("Ninja", "cmake"), ("Unix Makefiles", "cmake")],
)
def test_generators_and_drivers(tmp_path: Path, generator: str, driver: str) -> None:
    prefix = str(cmake_dir().parent.parent)  # site-packages
    settings = {"CMAKE_PREFIX_PATH": prefix, "DRIVER": driver}
    project = Project.copy("cpp_consumer", tmp_path / "a folder", generator, **settings)
    project.configure().ok()
    project.make().ok()
    check_program(project)
    again = project.make().ok().text
    assert "Building" not in again and "Linking" not in again


def test_found_after_cmake_install(install_prefix: Path, tmp_path: Path) -> None:
    project = Project.copy("cpp_consumer", tmp_path, CMAKE_PREFIX_PATH=str(install_prefix))
    project.configure().ok()
    project.make().ok()
    check_program(project)
    target = tmp_path / "installed"
    run(find_cmake(), "--install", project.build, "--prefix", target).ok()
    assert (target / "lib" / LIBRARY).is_file()
    project.build.rename(tmp_path / "moved")  # what is installed must not need the build folder
    assert run(target / "bin" / "consumer").ok().text.endswith(": right\n")


def test_an_installed_prefix_holds_what_consumers_need(install_prefix: Path) -> None:
    files = {str(p.relative_to(install_prefix)) for p in install_prefix.rglob("*") if p.is_file()}
    assert {
        "include/ckdisp/ckdisp.hpp",
        "include/ckdisp/generated/enums.hpp",
        "share/ckdisp/csrc/providers/cpu/gemm.hpp",
        "share/ckdisp/csrc/providers/embed.S",
        "share/ckdisp/csrc/providers/ck_tile/pch/gemm.hip",
        "share/ckdisp/csrc/device/hip_api.hpp",
        "share/ckdisp/codegen/arch/arches.json",
        "share/ckdisp/codegen/templates/unit.cpp.j2",
    } <= files
    assert any(f.endswith("libckdisp_runtime.a") for f in files)
    assert not any("__pycache__" in f or f.endswith(".cpp") for f in files)


def test_added_as_a_subdirectory(tmp_path: Path) -> None:
    settings = {
        "CKDISP_SOURCE_DIR": str(ROOT),
        "CMAKE_BUILD_TYPE": "Debug",
        "CMAKE_CXX_FLAGS_DEBUG": "",  # debug information would only take time
    }
    project = Project.copy("cpp_consumer", tmp_path, "Unix Makefiles", **settings)
    project.configure().ok()
    project.make("--target", "consumer").ok()
    check_program(project)


def test_nothing_to_do_does_nothing(built: Project) -> None:
    before = objects(built)
    assert "no work to do" in built.make().ok().text
    assert objects(built) == before


def test_a_changed_spec_compiles_only_what_is_new(built: Project) -> None:
    spec = built.source / "kernels.json"
    old = spec.read_text()
    before = objects(built)
    document = json.loads(old)
    document["sets"] = document["sets"][:1]
    try:
        spec.write_text(json.dumps(document))
        built.make().ok()
        after = objects(built)
        assert run(built.build / "consumer").ok().text.startswith("1 kernels, ")
        kept = [name for name in after if name != "library.o"]
        assert len(kept) == 1 and len(after) == len(before) - 1
        assert all(after[name] == before[name] for name in kept)
    finally:
        spec.write_text(old)
    built.make().ok()
    check_program(built)


def test_a_spec_that_is_wrong_stops_configuring(tmp_path: Path) -> None:
    project = Project.copy("cpp_consumer", tmp_path, ckdisp_DIR=str(cmake_dir()))
    spec = project.source / "kernels.json"
    spec.write_text(spec.read_text().replace("packed", "pakced"))
    text = project.configure().failed().flat
    assert "generating kernels failed" in text
    assert "unknown pipeline 'pakced' (did you mean 'packed'?)" in text
    assert not (project.build / "consumer_kernels").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("ARCH generic SPEC kernels.json", "unknown argument 'ARCH;generic'"),
        ("SPEC kernels.json DRIVER make", "DRIVER is ninja or cmake, not 'make'"),
        ("ARCHS generic", "no kernels are declared"),
        ("SPEC", "no value after 'SPEC'"),
        ("SPEC kernels.json ARCHS generic7", "unknown arch 'generic7'"),
        ('SPEC kernels.json ARCHS "generic;generic7"', "unknown arch 'generic7'"),
        ('PRESET "gemm.cpu_prebuilt;gemm.none" ARCHS generic', "unknown preset 'gemm.none'"),
        ("SPEC kernels.json ARCH generic", "there is no SPEC file"),
        ("PRESET gemm.none ARCHS generic", "gemm.none"),
        ("SPEC kernels.json OUTPUT_DIRECTORY .", "OUTPUT_DIRECTORY"),
        ("SPEC kernels.json OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR}/", "is in use"),
    ],
)
def test_wrong_arguments_are_explained(refused: Project, arguments: str, message: str) -> None:
    result = configure(refused, f"ckdisp_add_kernels(kernels {arguments})")
    assert message in result.failed().flat


def test_names_and_folders_in_use_are_explained(refused: Project) -> None:
    result = configure(refused, "ckdisp_add_kernels(clean SPEC kernels.json)")
    assert "CMake reserves the name" in result.failed().flat
    result = configure(
        refused,
        "ckdisp_add_kernels(one SPEC kernels.json ARCHS generic)\n"
        "ckdisp_add_kernels(two SPEC kernels.json ARCHS generic OUTPUT_DIRECTORY one/)",
    )
    assert "is in use" in result.failed().flat


def test_python_without_the_generators_packages_is_explained(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -I "$@"\n')
    python.chmod(0o755)
    settings = {"ckdisp_DIR": str(cmake_dir()), "CKDISP_PYTHON_EXECUTABLE": str(python)}
    project = Project.copy("cpp_consumer", tmp_path, **settings)
    text = project.configure().failed().flat
    assert f"{python} -m pip install jinja2 ninja numpy" in text


@pytest.mark.parametrize("driver", ["ninja", "cmake"])
def test_the_compiler_launcher_is_respected(tmp_path: Path, driver: str) -> None:
    log = tmp_path / "launched.txt"
    launcher = tmp_path / "launcher"
    launcher.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\nexec "$@"\n')
    launcher.chmod(0o755)
    settings = {
        "ckdisp_DIR": str(cmake_dir()),
        "CMAKE_CXX_COMPILER_LAUNCHER": str(launcher),
        "DRIVER": driver,
    }
    project = Project.copy("cpp_consumer", tmp_path, **settings)
    project.configure().ok()
    target = "consumer_kernels_build" if driver == "ninja" else "consumer_kernels"
    project.make("--target", target).ok()
    compiled = [
        line for line in log.read_text().splitlines() if "/units/" in line or " units/" in line
    ]
    assert len(compiled) == 2


def test_a_wheel_ships_its_own_kernels(tmp_path: Path) -> None:
    source = PACKAGES / "wheel_consumer"
    site = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(
        *pip, "install", "--no-build-isolation", "--no-deps", "--no-index", "--target", site, source
    ).ok()
    assert (site / "kernelpack" / "libkernelpack_kernels.so").is_file()
    program = (
        "import numpy as np, kernelpack\n"
        "a = np.arange(15, dtype=np.float32).reshape(3, 5)\n"
        "b = np.arange(20, dtype=np.float32).reshape(5, 4)\n"
        "np.testing.assert_array_equal(kernelpack.matmul(a, b), a @ b)\n"
        "print(len(kernelpack.dispatcher().registry))\n"
    )
    before = {p: p.stat().st_mtime_ns for p in site.rglob("*")}
    output = run(sys.executable, "-B", "-c", program, cwd=tmp_path, PYTHONPATH=str(site)).ok().text
    assert output == "1\n"
    assert {p: p.stat().st_mtime_ns for p in site.rglob("*")} == before
