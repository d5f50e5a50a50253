"""Spec files: what they declare, and the errors that say where and what is wrong."""

from __future__ import annotations

import json
import shutil

import pytest

from ckdisp.codegen.errors import BuildError, InvalidKey
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.make import make_key
from ckdisp.codegen.spec import load_spec

CONV = {"dtype": ["fp32", "bf16"], "layout": "nwgc", "pipeline": "direct"}
SWEEP = {"family": "gemm.standard", "arch": "gfx942", "where": {"dtype": "fp16", "layout": "rcr"}}


def spec(*sets, **members):
    return json.dumps({"ckdisp": 1, "sets": list(sets), **members})


def test_every_kind_of_declaration():
    key = make_key("gemm.standard", arch="gfx942", layout="ccr")
    other = make_key("gemm.standard", arch="gfx950")
    ks = KernelSet.from_json(
        spec(
            SWEEP,
            {"preset": "gemm.bf16_rcr_essential", "arch": ["gfx942"]},
            {"key": {"family": "gemm.standard", "arch": "gfx942", "layout": "ccr"}},
            {"keys": [other.name, key.to_dict()]},
            {"family": "conv.fwd", "arch": "generic", "where": CONV},
        )
    )
    parts = KernelSet.sweep("gemm.standard", "gfx942", where=SWEEP["where"])
    parts |= KernelSet.preset("gemm.bf16_rcr_essential", "gfx942")
    convolutions = KernelSet.sweep("conv.fwd", "generic", where=CONV)
    assert list(ks) == [*parts, key, other, *convolutions]


def test_sources_are_paths_texts_and_documents(tmp_path):
    path = tmp_path / "my kernels.json"
    path.write_text(spec(SWEEP))
    expected = KernelSet.sweep("gemm.standard", "gfx942", where=SWEEP["where"])
    for source in (path, str(path), spec(SWEEP), "\n " + spec(SWEEP), json.loads(spec(SWEEP))):
        assert KernelSet.from_spec(source) == expected
    assert load_spec(path) == expected


def test_archs_of_the_caller_serve_entries_without_one():
    entry = {"family": "gemm.standard", "where": SWEEP["where"]}
    assert KernelSet.from_spec(spec(entry), archs=["gfx942", "gfx950"]) == KernelSet.sweep(
        "gemm.standard", ["gfx942", "gfx950"], where=SWEEP["where"]
    )
    key = KernelSet.from_spec(spec({"key": {"family": "gemm.standard"}}), archs="gfx950")
    assert [k.arch for k in key] == ["gfx950"]
    assert {k.arch for k in KernelSet.from_spec(spec(SWEEP), archs="gfx950")} == {"gfx942"}
    with pytest.raises(InvalidKey, match=r"spec: sets\[0\]: no arch"):
        KernelSet.from_spec(spec(entry))


def test_archs_of_the_caller_go_to_the_providers_that_have_them():
    gpu = {"family": "gemm.standard", "provider": "ck_tile", "where": SWEEP["where"]}
    cpu = {"family": "gemm.standard", "provider": "cpu", "where": {"dtype": "fp32"}}
    both = KernelSet.from_spec(spec(gpu, cpu), archs=["gfx942", "generic"])
    assert {(k.provider, k.arch) for k in both} == {("ck_tile", "gfx942"), ("cpu", "generic")}
    with pytest.raises(InvalidKey, match=r"sets\[0\]: gemm.standard on generic: no kernel"):
        KernelSet.from_spec(spec(gpu), archs="generic")


def where(**values):
    return {**SWEEP, "where": values}


INVALID = [
    (
        {"famly": "gemm.standard"},
        r"sets\[0\].famly: unknown member 'famly' \(did you mean 'family'",
    ),
    ({**SWEEP, "preset": "x"}, r"sets\[0\]: a declaration has exactly one of family, preset"),
    ({}, "this one has none"),
    (7, r"sets\[0\]: a declaration must be an object, not 7"),
    ({**SWEEP, "tile": 1}, r"sets\[0\].tile: unknown member 'tile' \(did you mean 'tiles'\?\)"),
    ({**SWEEP, "family": "gemm.std"}, r"sets\[0\].family: unknown family 'gemm.std'"),
    ({**SWEEP, "family": 3}, r"sets\[0\].family: must be a string, not 3"),
    ({**SWEEP, "arch": "gfx943"}, r"sets\[0\].arch: unknown arch 'gfx943' \(did you mean"),
    ({**SWEEP, "arch": []}, r"sets\[0\].arch: no arch given"),
    ({**SWEEP, "tiles": "some"}, r"sets\[0\]: unknown tiles 'some'"),
    ({**SWEEP, "tiles": None}, r"sets\[0\].tiles: must be a string"),
    ({**SWEEP, "where": []}, r"sets\[0\].where: must be an object"),
    (where(dtyp="fp16"), r"where.dtyp: unknown field 'dtyp' \(did you mean 'dtype'\?\)"),
    (where(dtype="fp17"), r"where.dtype: unknown dtype 'fp17' \(did you mean 'fp16'\?\)"),
    (where(dtype=[]), r"where.dtype: dtype lists no value"),
    (where(tile=[1, 2]), r"where.tile: tile must hold 3 integers"),
    (where(tile_m=1.5), r"where.tile_m: tile_m must be an integer"),
    (where(layout=None), r"where.layout: unknown layout None"),
    (where(tile_m=99), r"sets\[0\]: gemm.standard on gfx942: no kernel: .*tile_divisible"),
    (where(tile_m=192), r"gfx942: tile_m 192 is not in this space, .*; tiles='all' has kernels"),
    ({**SWEEP, "receipt": "flash"}, r"sets\[0\]: gemm has no receipts"),
    ({"preset": "gemm.x", "arch": "gfx942"}, r"sets\[0\].preset: unknown preset 'gemm.x'"),
    ({"key": {"arch": "gfx942"}}, r"sets\[0\].key: a key must be an object with at least"),
    ({"key": {"family": "gemm.standard", "arch": "gfx942", "tile_k": 7}}, "the key breaks"),
    ({"keys": "all"}, r"sets\[0\].keys: must be a list"),
    ({"keys": ["gemm_x"]}, r"sets\[0\].keys\[0\]: 'gemm_x' is not a kernel name of gemm"),
    ({"keys": [{"family": "gemm.standard"}]}, r"sets\[0\].keys\[0\]: missing fields: provider"),
    ({"keys": [1]}, r"sets\[0\].keys\[0\]: a key must be an object or a name"),
]


@pytest.mark.parametrize(("entry", "text"), INVALID)
def test_a_wrong_declaration_is_located(entry, text):
    with pytest.raises(InvalidKey, match=text) as caught:
        KernelSet.from_spec(spec(entry))
    assert str(caught.value).startswith("spec: sets[0]")


def test_the_second_declaration_is_the_second():
    with pytest.raises(InvalidKey, match=r"spec: sets\[1\].where.x: unknown field 'x'"):
        KernelSet.from_spec(spec(SWEEP, where(x=1)))


def test_an_explicit_key_must_be_valid():
    broken = {**make_key("gemm.standard", arch="gfx942").to_dict(), "num_wave_groups": 2}
    with pytest.raises(
        InvalidKey, match=r"sets\[0\].keys\[1\]: .*breaks 1 rule.*wave_groups: pipe"
    ):
        KernelSet.from_spec(spec({"keys": [make_key("gemm.standard", arch="gfx942").name, broken]}))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON: .* in line 1, column 2"),
        ('{"ckdisp": 1}', '"sets" must be a list'),
        ('{"ckdisp": 2, "sets": []}', '"ckdisp" must be 1, .* not 2'),
        ('{"sets": []}', '"ckdisp" must be 1'),
        ('{"ckdisp": true, "sets": []}', '"ckdisp" must be 1'),
        ('{"ckdisp": 1, "sets": [], "set": 1}', r"unknown member 'set' \(did you mean 'sets'"),
        ('{"ckdisp": 1, "sets": [], "sets": []}', "member 'sets' is given twice"),
        ('{"ckdisp": 1, "sets": "abc"}', "must be a list"),
        ("[]", "must be an object"),
        ("[" * 100000, "not JSON"),
        ('{"ckdisp": ' + "1" * 5000 + "}", "not JSON"),
    ],
)
def test_a_wrong_document_is_refused(text, words):
    with pytest.raises(InvalidKey, match=words):
        KernelSet.from_spec(text)


def test_an_empty_document_is_an_empty_set():
    assert len(KernelSet.from_spec(spec())) == 0


def test_unreadable_files(tmp_path):
    with pytest.raises(InvalidKey, match=r"cannot read the spec .*missing.json: No such file"):
        KernelSet.from_spec(tmp_path / "missing.json")
    with pytest.raises(InvalidKey, match="cannot read the spec"):
        KernelSet.from_spec(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidKey, match="not UTF-8 text"):
        KernelSet.from_spec(tmp_path / "binary.json")
    with open(tmp_path / "huge.json", "wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(InvalidKey, match="this is no spec file"):
        KernelSet.from_spec(tmp_path / "huge.json")


needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="no C++ compiler"
)

CPP = """\
#include <ckdisp/kernel_set.hpp>
// CKDISP_KERNEL_SET(commented) { commented.preset("nothing"); }
constexpr int kTile = 128;
CKDISP_KERNEL_SET(kernels) {
  kernels.sweep("gemm.standard").arch("gfx942").where("dtype", {"fp16", "bf16"})
      .where("layout", "rcr").where("tile", {kTile, kTile, 64});
#if 0
  kernels.preset("gemm.unknown").arch("gfx942");
#endif
  for (const char* layout : {"rrr", "ccr"}) {
    kernels.key("gemm.standard").arch({"gfx942", "gfx950"}).field("layout", layout)
        .field("persistent", true).field("block_per_cu", 2);
  }
  kernels.preset("gemm.fp16_rcr_latency").arch("gfx942");
  kernels.sweep("conv.bwd_weight").arch("gfx942").where("dtype", "bf16")
      .where("layout", {"nhwgc", "ndhwgc"}).where("two_stage", true);
  kernels.key("conv.fwd").arch("gfx942").field("vector", {1, 8, 8});
}
"""


def test_a_file_without_an_end(monkeypatch):
    monkeypatch.setattr("ckdisp.codegen.spec._MAX_BYTES", 1000)
    with pytest.raises(InvalidKey, match="more than 1000 bytes"):
        load_spec("/dev/zero")


@needs_compiler
def test_a_spec_in_cpp(tmp_path):
    path = tmp_path / 'kernel "set".cpp'
    path.write_text(CPP)
    ks = KernelSet.from_spec(path)
    tile = {"dtype": ["fp16", "bf16"], "layout": "rcr", "tile": (128, 128, 64)}
    expected = KernelSet.sweep("gemm.standard", "gfx942", where=tile)
    extra = {"persistent": True, "block_per_cu": 2}
    expected |= KernelSet(
        make_key("gemm.standard", arch=arch, layout=layout, **extra)
        for layout in ("rrr", "ccr")
        for arch in ("gfx942", "gfx950")
    )
    expected |= KernelSet.preset("gemm.fp16_rcr_latency", "gfx942")
    two_stage = {"dtype": "bf16", "layout": ["nhwgc", "ndhwgc"], "two_stage": True}
    expected |= KernelSet.sweep("conv.bwd_weight", "gfx942", where=two_stage)
    expected |= KernelSet([make_key("conv.fwd", arch="gfx942", vector=(1, 8, 8))])
    assert list(ks) == list(expected)


@needs_compiler
def test_a_cpp_spec_without_arch_takes_those_of_the_caller(tmp_path):
    path = tmp_path / "set.hpp"
    path.write_text(
        '#pragma once\n#include "ckdisp/kernel_set.hpp"\n'
        'CKDISP_KERNEL_SET(s) { s.preset("gemm.cpu_prebuilt"); }\n'
    )
    assert load_spec(path, archs=["generic"]) == KernelSet.preset("gemm.cpu_prebuilt", "generic")


@needs_compiler
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('CKDISP_KERNEL_SET(s) { s.sweeep("x"); }', "does not compile: .*:2:26: error: .*sweeep"),
        ("int x;", "it has no CKDISP_KERNEL_SET block"),
        ("CKDISP_KERNEL_SET(s) { __builtin_trap(); }", "stopped with code"),
        (
            'CKDISP_KERNEL_SET(s) { s.preset("gemm.x\\n").arch("gfx942"); }',
            r"sets\[0\].preset: unk",
        ),
    ],
)
def test_errors_of_cpp_specs(tmp_path, body, words):
    path = tmp_path / "set.cpp"
    path.write_text(f"#include <ckdisp/kernel_set.hpp>\n{body}\n")
    with pytest.raises(InvalidKey, match=words) as caught:
        KernelSet.from_spec(path)
    assert str(path) in str(caught.value)


def test_a_cpp_spec_without_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "nothing"))
    path = tmp_path / "set.cpp"
    path.write_text(CPP)
    with pytest.raises(BuildError, match="no usable C"):
        KernelSet.from_spec(path)


def test_a_missing_cpp_spec(tmp_path):
    with pytest.raises(InvalidKey, match=r"cannot read the spec .*set.cpp"):
        KernelSet.from_spec(tmp_path / "set.cpp")
