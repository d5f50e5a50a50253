"""Inspecting files with AMD code: every container, every figure, every kind of damage."""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import amd_files
import pytest
from amd_files import bundle, code_object, compress, elf, host_object, kernel
from click.testing import CliRunner

import ckdisp
from ckdisp.cli.app import app
from ckdisp.code_objects import InspectError, KernelReport, compressed, msgpack, names
from ckdisp.code_objects.occupancy import occupancy
from ckdisp.code_objects.reading import Data

OURS = "gemm_standard_cktile_gfx942_fp16"


def ours(hot_loop: int, tail: int, atomic: int, key: str = OURS) -> str:
    type_name = f"ckdisp_key_{key}"
    return (
        f"_Z10ckdisp_runI{len(type_name)}{type_name}Lb{hot_loop}ELi{tail}ELb{atomic}EE"
        "vN6ckdisp4tile6KernelIT_E4ArgsE"
    )


def inspect(tmp_path: Path, content: bytes) -> list[KernelReport]:
    file = tmp_path / "file"
    file.write_bytes(content)
    return ckdisp.inspect(file, disassemble=False)


def test_every_figure(tmp_path: Path) -> None:
    (report,) = inspect(tmp_path, code_object(kernel(), target="gfx942:xnack-"))
    assert (report.name, report.symbol, report.arch) == ("copy", "copy", "gfx942:xnack-")
    assert (report.vgpr, report.agpr, report.sgpr) == (40, 8, 22)
    assert (report.vgpr_spills, report.sgpr_spills) == (3, 1)
    assert (report.lds_bytes, report.scratch_bytes) == (4096, 16)
    assert (report.argument_bytes, report.block_size, report.code_bytes) == (24, 256, 64)
    assert (report.waves_per_simd, report.blocks_per_cu) == (8, 8)
    assert report.instructions is None and report.unknown == "not asked"
    assert json.loads(json.dumps(report.to_dict()))["matrix_instructions"] is None


def test_names_of_our_variants(tmp_path: Path) -> None:
    symbols = [ours(1, 10, 0), ours(0, 0, 1)]
    reports = inspect(tmp_path, code_object(*(kernel(name=s) for s in symbols)))
    assert [(r.kernel, r.hot_loop, r.tail, r.memory) for r in reports] == [
        (OURS, True, "full", "set"),
        (OURS, False, "odd", "atomic_add"),
    ]


@pytest.mark.parametrize(
    ("symbol", "short"),
    [
        ("copy", "copy"),
        ("_Z4copyPiS_", "copy"),
        ("_ZN7ck_tile6kentryILi1EvEEvT0_", "ck_tile::kentry"),
        ("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f"),
        ("_ZN2ckL6helperEv", "ck::helper"),
        ("_Z", "_Z"),
        ("_Z999999999999x", "_Z999999999999x"),
    ],
)
def test_short_names(symbol: str, short: str) -> None:
    assert names.short(symbol) == short


def test_the_helper_kernel_of_ck_is_left_out(tmp_path: Path) -> None:
    helper = kernel(name="_ZN12ck_tile_cdnaL11flush_cacheEv")
    assert [r.name for r in inspect(tmp_path, code_object(helper, kernel()))] == ["copy"]


def test_bundles_give_every_entry(tmp_path: Path) -> None:
    content = bundle(gfx942=code_object(kernel()), gfx1100=code_object(kernel(), target="gfx1100"))
    assert [r.arch for r in inspect(tmp_path, content)] == ["gfx942", "gfx1100"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_compressed_bundles(tmp_path: Path, version: int) -> None:
    plain = bundle(gfx950=code_object(kernel(), target="gfx950"))
    assert [r.arch for r in inspect(tmp_path, compress(plain, version))] == ["gfx950"]


def test_libraries_with_many_bundles(tmp_path: Path) -> None:
    one, two = (bundle(gfx942=code_object(kernel(name=n))) for n in ("one", "two"))
    content = host_object(one, compress(two, 1), compress(one, 2), compress(two, 3))
    assert [r.name for r in inspect(tmp_path, content)] == ["one", "two", "one", "two"]


def test_archives_name_the_member(tmp_path: Path) -> None:
    first = host_object(bundle(gfx942=code_object(kernel())))
    members = {"a_member_with_a_long_name.o": first, "empty.o": host_object()}
    (report,) = inspect(tmp_path, amd_files.archive(**members))
    assert (report.name, report.where) == ("copy", "a_member_with_a_long_name.o")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"#!/bin/sh\n", "not an ELF file, an archive or a bundle"),
        (b"\x7fELF", "truncated or damaged"),
        (b"\x7fELF\1\1" + b"\0" * 99, "not a 64-bit little-endian"),
        (host_object(), "no code for AMD GPUs"),
        (amd_files.archive(a=host_object()), "no code for AMD GPUs"),
        (b"!<thin>\n", "thin archive"),
        (b"!<arch>\n" + b"x" * 60, "no archive member at byte 8"),
        (bundle(), "no code for AMD GPUs"),
        (bundle(gfx942=b"BC\xc0\xde" * 9), "-emit-llvm or -fgpu-rdc"),
        (bundle(gfx942=host_object()), "not for AMD GPUs"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 8, "entries"),
        (host_object(b"\0" * 4096 + b"rubbish"), "starts nothing that is known"),
        (elf(62, [("__CLANG_OFFLOAD_BUNDLE__hip-amdgcn", 1, b"BC" * 9)]), "-fgpu-rdc"),
        (elf(224, []), "without metadata"),
        (code_object(metadata=[1]), "damaged metadata"),
        (code_object(metadata={"amdhsa.kernels": []}), "amdhsa.target is None"),
        (code_object(kernel(vgpr_count=-1)), r"\.vgpr_count is -1"),
        (code_object(kernel(vgpr_count="1")), r"\.vgpr_count is '1'"),
        (b"CCOB\x04\0\0\0" + b"\0" * 32, "version 4"),
        (compress(b"x", 2, method=7, packed=b""), "unknown method 7"),
        (compress(b"x", 2, packed=b"rubbish"), "damaged compressed bundle"),
        (compress(b"x", 3, method=1, packed=b"rubbish"), "damaged compressed bundle"),
        (b"CCOB\x02\0\0\0" + struct.pack("<II", 24, 0xFFFFFFFF) + b"\0" * 8, "damaged sizes"),
        (compress(b"x" * 9, 2, packed=zlib.compress(b"y")), "1 and not 9 bytes"),
    ],
)
def test_what_cannot_be_inspected_says_why(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InspectError, match=message):
        inspect(tmp_path, content)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InspectError, match="No such file"):
        ckdisp.inspect(tmp_path / "absent")
    with pytest.raises(InspectError, match="directory"):
        ckdisp.inspect(tmp_path)


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InspectError, match="not a regular file"):
        ckdisp.inspect(tmp_path / "pipe")


def test_without_zstd_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def no_library(name: str) -> None:
        raise OSError(name)

    for module in ("compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(compressed.ctypes, "CDLL", no_library)
    with pytest.raises(InspectError, match="pip install zstandard"):
        inspect(tmp_path, compress(b"x", 3, method=1, packed=b"stream"))


@pytest.mark.parametrize("name", ["compression.zstd", "zstandard"])
def test_zstd_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A module with the interface of each of them, which really is zlib."""

    class Decompressor:
        def __new__(cls) -> Any:
            worker = zlib.decompressobj()
            return (
                worker
                if name == "compression.zstd"
                else SimpleNamespace(decompressobj=lambda: worker)
            )

    module = SimpleNamespace(ZstdDecompressor=Decompressor, ZstdError=zlib.error)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, name, module)
    plain = bundle(gfx942=code_object(kernel()))
    for version in (1, 2, 3):
        content = compress(plain, version, method=1, packed=zlib.compress(plain))
        assert len(inspect(tmp_path, host_object(content, content))) == 2
        cut = compress(plain, version, method=1, packed=zlib.compress(plain)[:-20])
        with pytest.raises(InspectError):
            inspect(tmp_path, cut)


def test_zstd_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError:
        pytest.skip("there is no libzstd.so.1 here")
    for module in ("compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, module, None)
    plain = bundle(gfx942=code_object(kernel()))
    out = ctypes.create_string_buffer(len(plain) + 1000)
    library.ZSTD_compress.restype = ctypes.c_size_t
    size = library.ZSTD_compress(
        out, ctypes.c_size_t(len(out)), plain, ctypes.c_size_t(len(plain)), 3
    )
    for version in (1, 2, 3):
        content = compress(plain, version, method=1, packed=out.raw[:size])
        assert len(inspect(tmp_path, host_object(content, content))) == 2


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 127, 128, 2**40, -1, -200], "b": None, "c": True, "d": "x" * 40},
        {str(i): [i] * 20 for i in range(20)},
    ],
)
def test_messagepack(value: object) -> None:
    assert msgpack.unpack(Data(memoryview(amd_files.pack(value)), "x")) == value


@pytest.mark.parametrize(
    "content", [b"\x91" * 99, b"\xc1", b"\x81\x01\x01", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff"]
)
def test_damaged_messagepack(content: bytes) -> None:
    with pytest.raises(InspectError):
        msgpack.unpack(Data(memoryview(content), "x"))


@pytest.mark.parametrize(
    ("arch", "figures", "expected"),
    [
        # One register more than a granule allows costs a wave.
        ("gfx942", {"vgpr": 128}, (4, 4, "vgpr")),
        ("gfx942", {"vgpr": 129}, (3, 3, "vgpr")),
        ("gfx942", {"vgpr": 512, "agpr": 256}, (1, 1, "vgpr")),
        ("gfx942", {"vgpr": 8, "sgpr": 101}, (7, 7, "sgpr")),
        ("gfx908", {"vgpr": 8, "agpr": 128}, (2, 2, "vgpr")),
        # LDS of the compute unit: 64 KiB, and 160 KiB on gfx950.
        ("gfx942", {"lds_bytes": 32769}, (1, 1, "lds")),
        ("gfx950", {"lds_bytes": 32769}, (4, 4, "lds")),
        # Small blocks: 16 barriers, none for a single wave.
        ("gfx942", {"block_size": 128}, (8, 16, "waves")),
        ("gfx942", {"block_size": 64}, (8, 32, "waves")),
        # RDNA: twice the LDS, and all four SIMDs, in WGP mode.
        ("gfx1100", {"vgpr": 192, "wave_size": 32, "wgp_mode": True}, (8, 4, "vgpr")),
        ("gfx1100", {"vgpr": 192, "wave_size": 32}, (8, 2, "vgpr")),
        ("gfx1201", {"lds_bytes": 40000, "wave_size": 32, "wgp_mode": True}, (6, 3, "lds")),
        ("gfx1201", {"lds_bytes": 40000, "wave_size": 32}, (4, 1, "lds")),
        ("gfx1030", {"vgpr": 250, "wave_size": 32}, (4, 1, "vgpr")),
    ],
)
def test_occupancy(arch: str, figures: dict[str, int], expected: tuple[int, int, str]) -> None:
    given = {"vgpr": 8, "agpr": 0, "sgpr": 30, "lds_bytes": 0, "block_size": 256, "wave_size": 64}
    found = occupancy(arch, **({"wgp_mode": False} | given | figures))
    assert found is not None
    assert (found.waves_per_simd, found.blocks, found.limited_by) == expected


def test_unknown_arches_have_no_occupancy(tmp_path: Path) -> None:
    (report,) = inspect(tmp_path, code_object(kernel(), target="gfx9999"))
    assert report.waves_per_simd is None and report.limited_by is None


@pytest.fixture
def library(tmp_path: Path) -> Path:
    file = tmp_path / "library.so"
    entries = {"gfx942": [kernel(name=ours(1, 10, 0))], "gfx1100": [kernel(), kernel(name="two")]}
    made = {arch: code_object(*kernels, target=arch) for arch, kernels in entries.items()}
    file.write_bytes(host_object(bundle(**made)))
    return file


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["inspect", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_command_prints_a_table(library: Path) -> None:
    code, text, _ = run(library)
    assert code == 0
    header, *rows = text.splitlines()
    assert header.split()[:5] == ["arch", "variant", "VGPR", "AGPR", "SGPR"]
    assert len(rows) == 3 and rows[0].split()[:3] == ["gfx942", "loop+full", "40"]


def test_command_prints_json(library: Path) -> None:
    code, text, _ = run(library, "--json", "--arch", "gfx1100", "--kernel", "t*")
    (found,) = json.loads(text)
    assert code == 0
    assert (found["name"], found["arch"], found["vgpr"]) == ("two", "gfx1100", 40)


def test_command_says_what_there_is_when_nothing_matches(library: Path) -> None:
    code, _, error = run(library, "--arch", "gfx90a")
    assert code == 1
    assert "none of 3 kernels" in error and "gfx1100, gfx942" in error


def test_command_names_each_of_many_files(library: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.co"
    other.write_bytes(code_object(kernel()))
    _, text, _ = run(library, other)
    assert f"{library}\n" in text and f"{other}\n" in text
    code, _, error = run(library, tmp_path / "absent")
    assert code == 1 and "absent" in error
