"""What programs read of a generated folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

from stub_kernels import keys

from ckdisp.codegen.emit.cpp_view import schema_hash
from ckdisp.codegen.emit.manifest import read_manifest
from ckdisp.codegen.generate import generate
from ckdisp.codegen.headers import own_include_dirs
from ckdisp.codegen.ops import key_class
from ckdisp.codegen.version import ABI_VERSION, VERSION


def test_manifest_describes_the_folder(tmp_path: Path) -> None:
    kernels = [*keys(2), *keys(1, arch="x86-64-v3")]
    result = generate(kernels, tmp_path / "out", name="mine", include_dirs=["/headers"])
    manifest = read_manifest(tmp_path / "out")
    assert manifest is not None
    assert manifest["library"] == "mine"
    assert manifest["output"] == "libmine.so"
    assert manifest["header"] == "include/mine.hpp"
    assert manifest["ckdisp_version"] == VERSION
    assert manifest["schema_hash"] == schema_hash()
    assert manifest["abi_version"] == ABI_VERSION
    assert manifest["job_memory_mb"] > 0
    assert set(manifest["files"]) == set(result.written)
    for key, entry in zip(kernels, manifest["kernels"], strict=True):
        assert entry["name"] == key.name
        assert entry["arch"] == key.arch
        assert (tmp_path / "out" / entry["unit"]).is_file()
        assert entry["object"] == f"obj/{key.name}.o"
        assert key_class("gemm").from_dict(entry["key"]) == key


def test_no_manifest_where_there_is_none(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    for text in ("", "[]", '{"generator": "other"}', '{"generator": "ckdisp", "format": 999}'):
        (tmp_path / "manifest.json").write_text(text)
        assert read_manifest(tmp_path) is None


def test_compilation_database(tmp_path: Path) -> None:
    out = tmp_path / 'a "quoted" folder'
    generate(keys(1), out, include_dirs=["/some headers"])
    commands = json.loads((out / "compile_commands.json").read_text())
    assert [c["file"] for c in commands] == ["library.cpp", f"units/{keys(1)[0].name}.cpp"]
    for command in commands:
        assert command["directory"] == str(out)
        assert "-I/some headers" in command["arguments"]
        assert command["arguments"][-4:] == ["-c", command["file"], "-o", command["output"]]


def test_the_abi_version_is_that_of_the_header() -> None:
    text = (own_include_dirs()[0] / "ckdisp" / "abi.hpp").read_text()
    found = re.search(r"kAbiVersion = (\d+);", text)
    assert found is not None and int(found[1]) == ABI_VERSION
