"""Folders of GPU kernels: what is written, how it is compiled, and what is compiled again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fake_hip import FakeHip, gpu_keys, many_gpu_keys, write_hip_headers
from fake_rocm import hide_rocm
from stub_kernels import kernel_count, keys

from ckdisp.codegen.build import build
from ckdisp.codegen.compilers import targets_of
from ckdisp.codegen.emit.tree import Tree, make_tree
from ckdisp.codegen.errors import BuildError, InvalidKey
from ckdisp.codegen.generate import GenerateResult, generate
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.make import make_key
from ckdisp.codegen.providers import Setup
from ckdisp.codegen.toolchain import Toolchain


class Lab:
    """A folder to generate into, headers, and a compiler that counts."""

    def __init__(self, folder: Path) -> None:
        self.hip = FakeHip(folder / "hip")
        self.headers = write_hip_headers(folder / "the headers")
        self.out = folder / "a folder"

    def generate(self, kernels: list[KernelKey], **options: object) -> GenerateResult:
        values = {"emit": "ninja", "hip": self.hip.toolchain, "include_dirs": self.headers}
        return generate(kernels, self.out, **{**values, **options})  # type: ignore[arg-type]

    def build(self) -> dict[str, int]:
        """Build the folder; returns what was compiled."""
        self.library = build(self.out, jobs=2)
        return self.hip.done()

    def kernels(self) -> int:
        """How many kernels the library holds, which is loaded under a name of its own."""
        copy = self.out / f"copy{len(list(self.out.glob('copy*')))}.so"
        shutil.copy(self.library, copy)
        return kernel_count(copy)

    def change(self, name: str) -> None:
        path = self.headers[1] / "providers" / "ck_tile" / name
        path.write_text(path.read_text() + "// changed\n")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def files(folder: Path, *folders: str) -> set[str]:
    return {f"{f}/{p.name}" for f in folders for p in (folder / f).glob("*")}


def test_a_unit_for_each_kernel_and_tables_for_all(lab: Lab) -> None:
    lab.generate(gpu_keys(3))
    found = files(lab.out, "units", "host", "groups")
    assert {p for p in found if p.startswith("units/")} == {
        f"units/{k.name}.hip" for k in gpu_keys(3)
    }
    (table,) = (lab.out / p for p in found if p.startswith("host/"))
    assert re.findall(r'#include "../units/(\w+)\.hip"', table.read_text()) == sorted(
        k.name for k in gpu_keys(3)
    )
    assert len(found) == 4


def test_builds_what_is_new_and_nothing_else(lab: Lab) -> None:
    lab.generate(gpu_keys(3))
    assert lab.build() == {"header": 2, "device": 3, "host": 1}
    assert lab.kernels() == 3
    assert lab.build() == {}
    lab.generate(gpu_keys(4))
    assert lab.build() == {"device": 1, "host": 1}
    assert lab.kernels() == 4
    result = lab.generate(gpu_keys(2))
    assert {Path(p).suffix for p in result.removed if p.startswith("obj/")} == {".o", ".co"}
    assert lab.build() == {"host": 1}
    assert lab.kernels() == 2


@pytest.mark.parametrize("name", ["detail.hpp", "gemm.hpp", "pch/gemm.hip"])
def test_a_changed_header_is_compiled_into_everything(lab: Lab, name: str) -> None:
    lab.generate(gpu_keys(2))
    lab.build()
    lab.change(name)
    assert lab.build() == {"header": 2, "device": 2, "host": 1}
    assert lab.build() == {}


def test_a_header_outside_the_precompiled_one_counts_too(lab: Lab) -> None:
    lab.generate(gpu_keys(2))
    unit = lab.out / "units" / f"{gpu_keys(1)[0].name}.hip"
    extra = lab.headers[1] / "extra.hpp"
    extra.touch()
    unit.write_text('#include "extra.hpp"\n' + unit.read_text())
    lab.build()
    extra.write_text("// changed\n")
    assert lab.build() == {"device": 1, "host": 1}


def test_another_compiler_precompiles_again(lab: Lab) -> None:
    lab.generate(gpu_keys(2))
    lab.build()
    lab.hip.change("AMD clang version 21.0.0")
    # Without generating again: the graph does not know, and the compiler refuses the old header.
    os.utime(lab.out / "units" / f"{gpu_keys(1)[0].name}.hip")
    assert lab.build() == {"header": 2, "device": 2, "host": 1}
    lab.hip.change("AMD clang version 22.0.0")
    lab.generate(gpu_keys(2))
    assert lab.build() == {"header": 2, "device": 2, "host": 1}


def test_other_flags_precompile_again(lab: Lab) -> None:
    lab.generate(gpu_keys(1))
    lab.build()
    lab.generate(gpu_keys(1), archs=["gfx942:xnack-"])
    assert lab.build() == {"header": 2, "device": 1, "host": 1}


def test_kernels_of_one_tile_in_one_unit(lab: Lab) -> None:
    lab.generate(gpu_keys(3), group="tile")
    (group,) = files(lab.out, "groups")
    assert lab.build() == {"header": 2, "device": 1, "host": 1}
    assert lab.kernels() == 3
    assert "gfx942_fp16_fp16_" in group and "compv3" in group
    first = (lab.out / group).read_text()
    lab.generate(list(reversed(gpu_keys(3))), group="tile")
    assert (lab.out / group).read_text() == first
    result = lab.generate(gpu_keys(3))
    assert {group, f"obj/{Path(group).stem}.o"} <= set(result.removed)


def test_a_large_group_is_divided(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckdisp.codegen.providers.ck_tile._GROUP_SIZE", 4)
    lab.generate(gpu_keys(6), group="tile")
    sizes = [(lab.out / g).read_text().count("#include") for g in files(lab.out, "groups")]
    assert sorted(sizes) == [2, 4]


def test_many_tables_change_little_when_a_kernel_comes(lab: Lab) -> None:
    everything = many_gpu_keys(151)
    lab.generate(everything[:150])
    before = {p: (lab.out / p).read_text() for p in files(lab.out, "host")}
    assert len(before) > 4
    lab.generate(everything[:151])
    after = {p: (lab.out / p).read_text() for p in files(lab.out, "host")}
    assert sum(before.get(p) != text for p, text in after.items()) <= 2


def test_archs_and_cpu_levels_in_one_library(lab: Lab) -> None:
    kernels = [*gpu_keys(1), *gpu_keys(1, arch="gfx1201"), *keys(1), *gpu_keys(1, arch="gfx950")]
    lab.generate(kernels)
    assert lab.build() == {"header": 6, "device": 3, "host": 3}
    assert lab.kernels() == 4


def test_make_builds_the_same_library(lab: Lab) -> None:
    kernels = [*gpu_keys(2), *keys(1)]
    lab.generate(kernels, emit="make", group="tile", toolchain=Toolchain.find())

    def make() -> dict[str, int]:
        done = subprocess.run(["make", "-j2"], cwd=lab.out, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return lab.hip.done()

    assert make() == {"header": 2, "device": 1, "host": 1}
    assert kernel_count(lab.out / "libckdisp_kernels.so") == 3
    assert b'"hip": "HIP 7.1' in (lab.out / "libckdisp_kernels.so").read_bytes()
    assert make() == {}
    lab.change("detail.hpp")
    assert make() == {"header": 2, "device": 1, "host": 1}


def test_cmake_builds_the_same_library(lab: Lab, tmp_path: Path) -> None:
    kernels = [*gpu_keys(2), *keys(1)]
    lab.generate(kernels, emit="cmake", name="mine")
    tree = tmp_path / "build"

    def cmake() -> dict[str, int]:
        done = subprocess.run(
            ["cmake", "--build", tree, "--parallel", "2"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return lab.hip.done()

    configure = ["cmake", "-G", "Ninja", "-S", lab.out, "-B", tree]
    subprocess.run(configure, check=True, capture_output=True)
    assert cmake() == {"header": 2, "device": 2, "host": 1}
    assert kernel_count(tree / "libmine.so") == 3
    assert cmake() == {}
    lab.change("detail.hpp")
    assert cmake() == {"header": 2, "device": 2, "host": 1}


def test_a_failure_names_the_kernel(lab: Lab) -> None:
    lab.generate(gpu_keys(2), group="tile")
    (lab.hip.folder / "fail").touch()
    with pytest.raises(BuildError, match=r"groups/.*error: told to fail"):
        lab.build()
    lab.generate(gpu_keys(1))
    with pytest.raises(BuildError) as caught:
        lab.build()
    text = str(caught.value)
    name = gpu_keys(1)[0].name
    assert text.startswith(f"compilation of {name} failed: units/{name}.hip:3:1: error: told")
    assert f"&& {lab.hip.path} " in text
    (lab.hip.folder / "fail").unlink()
    lab.build()


def test_no_hip_compiler(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paths = [p for p in os.environ["PATH"].split(":") if not (Path(p) / "hipcc").exists()]
    hide_rocm(monkeypatch, tmp_path, ":".join(paths))
    with pytest.raises(BuildError, match="no usable HIP compiler: tried"):
        lab.generate(gpu_keys(1), hip=None)
    assert not lab.out.exists()
    result = lab.generate([*gpu_keys(2), *keys(1)], hip=None, missing="skip")
    assert [k.name for k in result.left_out] == [k.name for k in gpu_keys(2)]
    assert "no usable HIP compiler" in result.left_out[0].reason
    lab.build()
    assert lab.kernels() == 1
    # Nothing at all is left: the library is there, and empty.
    lab.generate(gpu_keys(2), hip=None, missing="skip")
    lab.build()
    assert lab.kernels() == 0


def test_words_that_mean_nothing(lab: Lab) -> None:
    with pytest.raises(BuildError, match=r"unknown group 'tiles' .*did you mean 'tile'"):
        lab.generate(gpu_keys(1), group="tiles")
    with pytest.raises(BuildError, match="unknown missing 'ignore'"):
        lab.generate(gpu_keys(1), missing="ignore")


# Flags.


def tree_of(lab: Lab, arch: str, **options: object) -> Tree:
    key = make_key("gemm.standard", arch=arch, dtype="fp16", layout="rcr")
    values = {"accepts": lambda flag: True, "hip_accepts": lambda flags: True, **options}
    setup = Setup(Toolchain("c++"), ("/h",), hip=lab.hip.toolchain, **values)  # type: ignore[arg-type]
    return make_tree("k", [(key.name, key)], setup)


DEFINES = {
    "gfx90a": {"-DCK_USE_FNUZ_FP8", "-DCK_TILE_USE_WMMA=0"},
    "gfx942": {"-DCK_USE_FNUZ_FP8", "-DCK_TILE_USE_WMMA=0"},
    "gfx950": {
        *("-DCK_USE_OCP_FP8", "-DCK_TILE_USE_OCP_FP8=1", "-DCK_GFX950_SUPPORT"),
        *("-DCK_USE_NATIVE_MX_SUPPORT", "-DCK_TILE_USE_WMMA=0"),
    },
    "gfx1100": {"-DCK_TILE_USE_WMMA=1"},
    "gfx1201": {"-DCK_USE_OCP_FP8", "-DCK_TILE_USE_OCP_FP8=1", "-DCK_TILE_USE_WMMA=1"},
}


@pytest.mark.parametrize("arch", list(DEFINES))
def test_both_passes_get_the_defines_of_the_arch(lab: Lab, arch: str) -> None:
    rules = [rule for rule in tree_of(lab, arch).rules if rule.compiler == "hip"]
    assert len(rules) == 4
    for rule in rules:
        flags = rule.commands[0].words
        defines = {f for f in flags if f.startswith(("-DCK_", "-UCK_"))}
        assert defines == DEFINES[arch]
        assert f"--offload-arch={arch}" in flags
        assert ("--offload-host-only" in flags) != ("--offload-device-only" in flags)


def test_the_flags_that_never_end_are_not_passed_together(lab: Lab) -> None:
    for rule in tree_of(lab, "gfx942").rules:
        text = " ".join(word for command in rule.commands for word in command.words)
        assert "amdgpu-early-inline-all" not in text


def test_flags_that_the_compiler_refuses_are_left_out(lab: Lab) -> None:
    asked: list[tuple[str, ...]] = []

    def refuse(flags: tuple[str, ...]) -> bool:
        asked.append(flags)
        return "-amdgpu-coerce-illegal-types=1" not in flags and flags != ("--offload-compress",)

    tree = tree_of(lab, "gfx942", hip_accepts=refuse)
    words = [w for rule in tree.rules for command in rule.commands for w in command.words]
    assert ("--offload-compress",) in asked and "--offload-compress" not in words
    assert "-amdgpu-coerce-illegal-types=1" not in words
    assert "-enable-post-misched=0" in words


def test_target_features(lab: Lab) -> None:
    assert targets_of(["gfx942:xnack-:sramecc+", "gfx950"]) == {"gfx942": "gfx942:sramecc+:xnack-"}
    assert targets_of(["gfx942:xnack-", "gfx942:xnack-"]) == {"gfx942": "gfx942:xnack-"}
    with pytest.raises(InvalidKey, match="one library holds an arch once"):
        targets_of(["gfx942:xnack-", "gfx942:xnack+"])
    lab.generate(gpu_keys(1), archs=["gfx942:xnack-"])
    unit = lab.out / "units" / f"{gpu_keys(1)[0].name}.hip"
    assert 'target = "gfx942:xnack-"' in unit.read_text()
    assert "--offload-arch=gfx942:xnack- " in (lab.out / "build.ninja").read_text()


def test_an_object_is_never_seen_half_written(lab: Lab) -> None:
    tree = tree_of(lab, "gfx942")
    (step,) = (s for s in tree.steps if s.source.startswith("units/"))
    commands = [command.arguments(step) for command in step.rule.commands]
    assert commands[0][-2:] == ["-o", f"{step.output}.co"]
    assert commands[1][-2:] == ["-o", f"{step.output}.new"]
    assert commands[2] == ["mv", "-f", f"{step.output}.new", step.output]
