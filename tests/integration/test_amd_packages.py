"""Projects and wheels with kernels for AMD GPUs: with a HIP compiler, and without any."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

import amd
import pytest
from cmake_project import NINJA, ROOT, Project, cmake_dir, find_cmake, run
from fake_rocm import make_ck, make_rocm

import ckdisp
from ckdisp import registry

pytestmark = pytest.mark.xdist_group("amd_packages")

ARCHS = ("gfx942", "gfx1201")
NO_ROCM = {"ROCM_PATH": "", "HIP_PATH": "", "PYTORCH_ROCM_ARCH": ""}


def settings_of_toolchain() -> dict[str, str]:
    """CMake settings that name the toolchain of the tests."""
    found = amd.toolchain()
    return {"CKDISP_ROCM_PATH": found.root, "CKDISP_CK_INCLUDE": found.ck_include}


def copy_consumer(folder: Path, **settings: str) -> Project:
    return Project.copy("amd_consumer", folder, ckdisp_DIR=str(cmake_dir()), **settings)


@pytest.fixture
def no_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No HIP compiler can be found from here on; skips where one is installed for everybody."""
    for name, value in NO_ROCM.items():
        monkeypatch.setenv(name, value)
    path = os.environ["PATH"].split(os.pathsep)
    kept = [f for f in path if not (Path(f) / "hipcc").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(kept))
    if Path("/opt/rocm/bin/hipcc").exists():
        pytest.skip("there is a ROCm in /opt/rocm")


@pytest.fixture(scope="module")
def consumer(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The consumer, with one kernel for each of two GPUs, built by the ninja driver."""
    settings = settings_of_toolchain()
    project = copy_consumer(tmp_path_factory.mktemp("amd consumer"), **settings)
    text = project.configure().ok().flat
    assert "amd_kernels: 2 kernels, 1 for gfx942, 1 for gfx1201" in text
    assert f"(CKDISP_ROCM_PATH={settings['CKDISP_ROCM_PATH']})" in text
    assert f"(CKDISP_CK_INCLUDE={settings['CKDISP_CK_INCLUDE']})" in text
    project.make().ok()
    return project


def test_a_program_lists_explains_and_says_that_there_is_no_device(consumer: Project) -> None:
    environment = {**NO_ROCM, "CKDISP_HIP_RUNTIME": "/no/libamdhip64.so"}
    lines = run(consumer.build / "consumer", **environment).ok().text.splitlines()
    assert lines[0] == "2 kernels"
    for arch, other in (ARCHS, reversed(ARCHS)):
        about = [line for line in lines if line.startswith(f"{arch}: ")]
        assert len(about) == 2
        assert f"_cktile_{arch}_" in about[0] and about[0].endswith(" supported")
        assert f"_cktile_{other}_" in about[1] and f"refused: was built for {other}" in about[1]
    assert lines[-1].startswith("DeviceError: there is no device 0: ")


def test_nothing_to_do_does_nothing_even_from_another_shell(consumer: Project) -> None:
    """The compiler was found in settings or in the environment; both are remembered."""
    assert "no work to do" in consumer.make().ok().text
    text = consumer.configure().ok().flat
    assert "left out" not in text
    assert "no work to do" in consumer.make().ok().text


def test_the_library_is_one_for_python_too(consumer: Project) -> None:
    library = consumer.build / "amd_kernels" / "libamd_kernels.so"
    kernels = ckdisp.Registry.load(library).kernels(provider="ck_tile")
    assert sorted(kernel.arch for kernel in kernels) == sorted(ARCHS)


def test_without_a_compiler_configuring_says_what_is_left_out(
    tmp_path: Path, no_rocm: None
) -> None:
    project = copy_consumer(tmp_path)
    spec = json.loads((project.source / "kernels.json").read_text())
    cpu = {"dtype": "fp32", "layout": "rrr", "pipeline": "packed"}
    spec["sets"][0]["provider"] = "ck_tile"
    spec["sets"].append({"family": "gemm.standard", "arch": "generic", "where": cpu})
    (project.source / "kernels.json").write_text(json.dumps(spec))
    lists = project.source / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace(" PROVIDER ck_tile", ""))
    text = project.configure().ok().flat
    assert "CMake Warning" in text
    assert "2 kernels left out: no usable HIP compiler: tried CKDISP_ROCM_PATH, ROCM_PATH," in text
    names = (
        r"Left out: gemm_standard_cktile_gfx1201_fp16_\w+, gemm_standard_cktile_gfx942_fp16_\w+ "
    )
    assert re.search(names, text)
    assert "amd_kernels: 1 kernels, 1 for generic" in text
    project.make().ok()
    assert run(project.build / "consumer").ok().text.startswith("1 kernels\n")


@pytest.mark.parametrize("driver", ["ninja", "cmake"])
def test_if_nothing_is_left_the_library_is_empty(
    tmp_path: Path, no_rocm: None, driver: str
) -> None:
    project = copy_consumer(tmp_path, DRIVER=driver, KERNELS="GROUP;tile")  # and no ARCHS
    assert "1 kernel left out" in project.configure().ok().flat
    target = "amd_kernels_build" if driver == "ninja" else "amd_kernels"
    project.make("--target", target).ok()
    library = project.build / "amd_kernels" / "libamd_kernels.so"
    assert len(ckdisp.Registry.load(library)) == 0


def test_a_setting_that_is_wrong_stops_configuring(tmp_path: Path, no_rocm: None) -> None:
    project = copy_consumer(tmp_path, CKDISP_ROCM_PATH="/no/rocm")
    text = project.configure().failed().flat
    assert "no HIP compiler at CKDISP_ROCM_PATH=/no/rocm: there is no such folder" in text


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        ("GROUP;tiles", "GROUP is tile, or left out, not 'tiles'"),
        ("ARCHS;gfx924", "unknown arch 'gfx924' (did you mean 'gfx942'?)"),
    ],
)
def test_wrong_arguments_are_explained(tmp_path: Path, kernels: str, message: str) -> None:
    assert message in copy_consumer(tmp_path, KERNELS=kernels).configure().failed().flat


def test_a_composable_kernel_that_cmake_finds(tmp_path: Path, no_rocm: None) -> None:
    found = amd_like_tree(tmp_path)
    project = copy_consumer(
        tmp_path / "project",
        CKDISP_ROCM_PATH=str(found / "rocm"),
        CMAKE_PREFIX_PATH=str(found / "ck"),
        CKDISP_ARCHS="gfx942;gfx1201",
        KERNELS="GROUP;tile",
    )
    text = project.configure().ok().flat
    assert f"CK Tile headers: {found}/ck/include (find_package(composable_kernel): " in text
    assert "2 kernels, 1 for gfx942, 1 for gfx1201" in text


def amd_like_tree(folder: Path) -> Path:
    """A ROCm without the headers of CK, and an installed CK with its CMake package."""
    make_rocm(folder / "rocm", ck=False)
    make_ck(folder / "ck" / "include")
    package = folder / "ck" / "lib" / "cmake" / "composable_kernel"
    package.mkdir(parents=True)
    (package / "composable_kernelConfig.cmake").touch()
    return folder


def wheel_options(spec: str, **settings: str) -> list[str]:
    """Options of pip for a wheel of ckdisp without all that takes long and is tested elsewhere."""
    values = {
        "CKDISP_PREBUILT": "OFF",
        "CKDISP_PYTHON": "OFF",
        "CKDISP_KERNELS": spec,
        **settings,
    }
    return [f"--config-settings=cmake.define.{name}={text}" for name, text in values.items()]


def build_wheel(folder: Path, options: list[str]) -> Path:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-v")
    offline = ("--no-build-isolation", "--no-deps", "--no-index")
    build = f"--config-settings=build-dir={folder}/build"
    run(*pip, *offline, "-w", folder, ROOT, build, *options).ok()
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_a_wheel_with_gpu_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of_toolchain()
    spec = tmp_path / "spec.json"
    shutil.copy(ROOT / "tests" / "packages" / "amd_consumer" / "kernels.json", spec)
    document = json.loads(spec.read_text())
    document["sets"][0]["provider"] = "ck_tile"
    spec.write_text(json.dumps(document))
    options = wheel_options(str(spec), CKDISP_ARCHS="gfx1201", **settings)
    wheel = build_wheel(tmp_path, options)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    folder = tmp_path / "site" / "ckdisp" / "prebuilt"
    assert [p.name for p in folder.iterdir()] == ["libckdisp_wheel_kernels.so"]
    providers = tmp_path / "site/ckdisp/csrc/providers"
    assert (providers / "embed.S").is_file() and (providers / "ck_tile/gemm.hpp").is_file()
    monkeypatch.setattr(registry, "_PREBUILT", [*registry._PREBUILT, folder])
    kernels = ckdisp.Registry.prebuilt()
    assert [k.arch for k in kernels if k.provider == "ck_tile"] == ["gfx1201"]
    monkeypatch.setattr(registry, "_PREBUILT", [folder])
    assert len(ckdisp.Registry.prebuilt()) == 1


@pytest.mark.parametrize("form", ["relative", "absolute", "missing"])
def test_spec_files_of_a_wheel(tmp_path: Path, no_rocm: None, form: str) -> None:
    """Configured as the build of a wheel does it; relative paths start at the source folder."""
    source = ROOT / "tests" / "packages"
    specs: list[Path] = [
        source / "cpp_consumer" / "kernels.json",
        source / "wheel_consumer" / "kernels.json",
    ]
    if form == "relative":
        specs = [path.relative_to(ROOT) for path in specs]
    elif form == "missing":
        specs[1] = Path("no/such.json")
    result = run(
        *(find_cmake(), "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja"),
        *(f"-DCMAKE_MAKE_PROGRAM={NINJA}", f"-DPython_EXECUTABLE={sys.executable}"),
        f"-DCKDISP_KERNELS={';'.join(map(str, specs))}",
        "-DCKDISP_ARCHS=generic",
    )
    if form == "missing":
        text = result.failed().flat
        assert f"there is no spec file '{ROOT}/no/such.json'" in text
        assert f"relative paths start at {ROOT}" in text
    else:
        result.ok()
        manifest = tmp_path / "build" / "ckdisp_wheel_kernels" / "manifest.json"
        assert len(json.loads(manifest.read_text())["kernels"]) == 2
