"""GPU kernels and the cache: what is reused, precompiled headers above all."""

from __future__ import annotations

import concurrent.futures
import os
import shutil
from pathlib import Path

import pytest
from fake_hip import FakeHip, gpu_keys, write_hip_headers
from stub_kernels import keys

from ckdisp.codegen.errors import BuildError
from ckdisp.codegen.key import KernelKey
from ckdisp.jit import build as build_module
from ckdisp.jit import cache
from ckdisp.jit.build import Options, build_library

NOTHING: dict[str, int] = {}


class Lab:
    """A cache, headers and a compiler that counts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.hip = FakeHip(folder / "hip")
        self.headers = write_hip_headers(folder / "headers")
        self.root = folder / "cache dir"
        self.use(self.headers)
        monkeypatch.setenv("ROCM_PATH", self.hip.toolchain.root)
        monkeypatch.setenv("CKDISP_CACHE_DIR", str(self.root))
        for name in ("CKDISP_CXXFLAGS", "CKDISP_ROCM_PATH", "CKDISP_CK_INCLUDE", "CPATH"):
            monkeypatch.delenv(name, raising=False)

    def use(self, headers: list[Path]) -> None:
        self.headers = headers
        self.monkeypatch.setattr(build_module, "own_include_dirs", lambda: headers)
        self.monkeypatch.setattr(build_module, "missing_headers", dict)

    def build(self, kernels: list[KernelKey], **options: object) -> dict[str, int]:
        """Build a library; returns what was compiled."""
        values = {"progress": False, **options}
        self.library = build_library(kernels, Options(**values))  # type: ignore[arg-type]
        return self.hip.done()

    @property
    def detail(self) -> Path:
        return self.headers[1] / "providers" / "ck_tile" / "detail.hpp"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


def test_kernels_and_precompiled_headers_are_reused(lab: Lab) -> None:
    assert lab.build(gpu_keys(2)) == {"header": 2, "device": 2, "host": 1}
    first = lab.library
    assert lab.build(gpu_keys(2)) == NOTHING and lab.library == first
    assert lab.build(gpu_keys(3)) == {"device": 1, "host": 1}
    assert lab.build([gpu_keys(3)[2]]) == {"host": 1}
    assert lab.build([*gpu_keys(3), *keys(1)]) == NOTHING
    assert lab.build(gpu_keys(1, arch="gfx1201")) == {"header": 2, "device": 1, "host": 1}
    labels = {entry.label for entry in cache.ls() if entry.kind == "headers"}
    assert {"ck_tile_gfx942_gemm_device", "ck_tile_gfx942_gemm_host"} < labels
    assert cache.stats().headers == len(labels) == 4


def test_groups_are_units_of_the_cache(lab: Lab) -> None:
    assert lab.build(gpu_keys(3), group="tile") == {"header": 2, "device": 1, "host": 1}
    assert lab.build(gpu_keys(3), group="tile") == NOTHING
    assert lab.build(gpu_keys(3)) == {"device": 3}


def test_a_header_that_changed_is_noticed(lab: Lab) -> None:
    lab.build(gpu_keys(1))
    text = lab.detail.read_text()
    lab.detail.write_text(text.replace("1.0", "2.0"))
    os.utime(lab.detail, (1, 1))
    assert lab.build(gpu_keys(1)) == {"header": 2, "device": 1, "host": 1}
    lab.detail.write_text(text)
    assert lab.build(gpu_keys(1)) == NOTHING


def test_the_file_that_embeds_code_counts_too(lab: Lab) -> None:
    lab.build(gpu_keys(1))
    embed = lab.headers[1] / "providers" / "embed.S"
    embed.write_text(embed.read_text() + "// changed\n")
    assert lab.build(gpu_keys(1)) == {"device": 1}


def test_a_header_of_ck_tile_that_changed_is_noticed(lab: Lab) -> None:
    header = Path(lab.hip.toolchain.ck_include) / "ck_tile" / "ops" / "gemm.hpp"
    lab.detail.write_text('#include "ck_tile/ops/gemm.hpp"\n' + lab.detail.read_text())
    lab.build(gpu_keys(1))
    header.write_text("// changed\n")
    assert lab.build(gpu_keys(1)) == {"header": 2, "device": 1, "host": 1}


def test_another_compiler_is_noticed(lab: Lab) -> None:
    lab.build(gpu_keys(1))
    lab.hip.change("AMD clang version 21.0.0")
    assert lab.build(gpu_keys(1)) == {"header": 2, "device": 1, "host": 1}


def test_target_features_make_other_kernels(lab: Lab) -> None:
    lab.build(gpu_keys(1))
    first = lab.library
    built = lab.build(gpu_keys(1), archs=["gfx942:xnack-"])
    assert built == {"header": 2, "device": 1, "host": 1} and lab.library != first


def test_a_moved_installation_reuses_kernels(lab: Lab, tmp_path: Path) -> None:
    lab.build(gpu_keys(2))
    moved = tmp_path / "elsewhere"
    shutil.move(lab.headers[1], moved)
    lab.use([moved / "include", moved])
    assert lab.build(gpu_keys(2)) == NOTHING
    # Precompiled headers hold the places of the headers: they are made again when needed.
    assert lab.build(gpu_keys(3)) == {"header": 2, "device": 1, "host": 1}


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_a_precompiled_header_that_is_lost_is_made_again(lab: Lab, how: str) -> None:
    lab.build(gpu_keys(1))
    for path in (lab.root / "headers").rglob("*.pch"):
        path.write_text("damaged") if how == "damaged" else path.unlink()
    assert lab.build(gpu_keys(1)) == NOTHING
    assert lab.build(gpu_keys(2)) == {"header": 2, "device": 1, "host": 1}
    assert cache.verify() == []


def test_what_was_made_before_a_failure_is_kept(lab: Lab) -> None:
    (lab.hip.folder / "fail").touch()
    with pytest.raises(BuildError) as caught:
        lab.build(gpu_keys(1), jobs=1)
    assert str(caught.value).startswith(f"compilation of {gpu_keys(1)[0].name} failed: units/")
    (lab.hip.folder / "fail").unlink()
    lab.hip.done()
    assert "header" not in lab.build(gpu_keys(1))


def test_an_executor_precompiles_first(lab: Lab) -> None:
    seen: list[tuple[int, int, str]] = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        built = lab.build(
            [*gpu_keys(2), *keys(1)], executor=pool, progress=lambda *a: seen.append(a)
        )
        assert built == {"header": 2, "device": 2, "host": 1}
        assert [s[:2] for s in seen] == [(i, 6) for i in range(1, 7)]
        (lab.hip.folder / "fail").touch()
        with pytest.raises(BuildError, match="told to fail"):
            lab.build(gpu_keys(3), executor=pool)
        (lab.hip.folder / "fail").unlink()
        lab.hip.done()
        assert lab.build(gpu_keys(3), executor=pool) == {"device": 1, "host": 1}


def test_a_machine_without_a_hip_compiler_uses_what_is_there(lab: Lab) -> None:
    lab.build(gpu_keys(1))
    first = lab.library
    lab.monkeypatch.setenv("ROCM_PATH", "/nowhere")
    assert lab.build(gpu_keys(1)) == NOTHING and lab.library == first
    with pytest.raises(BuildError, match="no HIP compiler at ROCM_PATH=/nowhere") as caught:
        lab.build(gpu_keys(2))
    assert "does not hold these kernels" in str(caught.value)


def test_generated_headers_that_are_missing_have_a_lasting_place(lab: Lab) -> None:
    view = {"include/ckdisp/generated/extra.hpp": "// generated\n"}
    lab.detail.write_text("#include <ckdisp/generated/extra.hpp>\n" + lab.detail.read_text())
    lab.monkeypatch.setattr(build_module, "missing_headers", lambda: view)
    lab.build(gpu_keys(1))
    assert lab.build(gpu_keys(2)) == {"device": 1, "host": 1}
    assert cache.clear().headers == 2
    assert lab.build(gpu_keys(2)) == {"header": 2, "device": 2, "host": 1}
