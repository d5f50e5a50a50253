"""Kernels of later stages come along with those that need them; sets for models."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from ckdisp import KernelSet, Registry, make_key
from ckdisp.cli.app import app
from ckdisp.codegen.arch import arches
from ckdisp.codegen.columns import distinct_rows
from ckdisp.codegen.errors import InvalidKey
from ckdisp.codegen.ops.fmha.companions import COLUMNS

CPU = "x86-64-v3"
BF16 = {"dtype": "bf16"}
PLAIN = {
    "dtype": "bf16",
    "hdim": 128,
    "mode": "batch",
    "mask": "generic",
    "bias": "no",
    "dbias": False,
    "dropout": False,
    "deterministic": False,
}
LEADING = ("fmha.splitkv", "fmha.bwd_dq_dk_dv")
GPUS = [name for name, facts in arches().items() if facts.fmha and name != "gfx1100"]


def spec(*sets):
    return json.dumps({"ckdisp": 1, "sets": list(sets)})


def families(kernels):
    return {key.family for key in kernels}


def serves(later, key):
    """By what the kernels compute: same types and form of sequences, and room for its heads."""
    if (later.arch, later.dtype, later.mode) != (key.arch, key.dtype, key.mode):
        return False
    side, size = {
        "fmha.splitkv_combine": (3, "hdim_v"),
        "fmha.bwd_dot_do_o": (3, "hdim_v"),
        "fmha.bwd_convert_dq": (2, "hdim_q"),
    }[later.family]
    made, wanted = getattr(later, size), getattr(key, size)
    if made < wanted or ((made > wanted or key.padding[side]) and not later.padding[side]):
        return False
    if later.family == "fmha.splitkv_combine":
        return later.qscale == key.qscale
    if later.family == "fmha.bwd_convert_dq":
        same = later.deterministic == key.deterministic
        return same and (not key.deterministic or later.tile[1] == key.tile[1])
    return True


def needed(key):
    if key.family == "fmha.splitkv":
        return {"fmha.splitkv_combine"}
    whole = key.use_trload and key.max_seq_len_q > 0  # the dQ of a block is final
    return {"fmha.bwd_dot_do_o"} | (set() if whole else {"fmha.bwd_convert_dq"})


@pytest.mark.parametrize("arch", GPUS)
@pytest.mark.parametrize("family", LEADING)
@pytest.mark.parametrize("tiles", ["curated", "all"])
def test_every_kernel_has_the_stages_behind_it(arch, family, tiles):
    leading = KernelSet.sweep(family, arch, tiles=tiles, companions=False)
    keys = list(leading.sample(60, seed=3))
    found = list(KernelSet(keys).with_companions())[len(keys) :]
    assert all(not key.check() for key in found)
    used = set()
    for key in keys:
        serving = [later for later in found if later.family in needed(key) and serves(later, key)]
        assert {later.family for later in serving} == needed(key), key.name
        used.update(serving)
    assert used == set(found)


def test_a_sweep_brings_them_unless_asked_not_to():
    alone = KernelSet.sweep("fmha.bwd_dq_dk_dv", "gfx942", where=PLAIN, companions=False)
    assert families(alone) == {"fmha.bwd_dq_dk_dv"}
    whole = KernelSet.sweep("fmha.bwd_dq_dk_dv", "gfx942", where=PLAIN)
    assert whole == alone.with_companions() == KernelSet.sweep("fmha.bwd", "gfx942", where=PLAIN)
    assert whole[0] == alone[0] and families(whole) > families(alone)
    assert {key.hdim_v for key in whole} == {128} and {key.mode for key in whole} == {"batch"}
    assert KernelSet.sweep("fmha.fwd", CPU) == KernelSet.sweep("fmha.fwd", CPU, companions=False)
    parts = KernelSet.sweep("fmha.splitkv", CPU, where={"dtype": "fp16"})
    assert [(key.family, key.dtype) for key in parts] == [
        ("fmha.splitkv", "fp16"),
        ("fmha.splitkv_combine", "fp16"),
    ]
    # Sums of fp32 gradients need no conversion.
    assert "fmha.bwd_convert_dq" not in families(
        KernelSet.sweep("fmha.bwd", CPU, where={"dtype": "fp32"})
    )
    with pytest.raises(InvalidKey, match=r"fmha.bwd is all of .*fmha.bwd_dot_do_o"):
        KernelSet.sweep("fmha.bwd", CPU, companions=False)


def test_filtered_sets_can_be_completed():
    both = KernelSet.sweep("fmha.bwd", "gfx942", where={**PLAIN, "hdim": [64, 128]})
    kept = both.filter("family == 'fmha.bwd_dq_dk_dv' and hdim_q == 64")
    assert kept.with_companions() == KernelSet.sweep(
        "fmha.bwd", "gfx942", where={**PLAIN, "hdim": 64}
    )


def test_json_keeps_declarations():
    whole = KernelSet.sweep("fmha.bwd", "gfx942", where=PLAIN)
    alone = KernelSet.sweep("fmha.bwd_dq_dk_dv", "gfx942", where=PLAIN, companions=False)
    before = KernelSet.sweep("fmha.bwd_dot_do_o", CPU) | KernelSet.sweep("fmha.bwd", CPU)
    for kernels, entries in ((whole, 1), (alone, 1), (before, 3)):
        text = kernels.to_json()
        assert list(KernelSet.from_json(text)) == list(kernels)
        assert len(json.loads(text)["sets"]) == entries
        assert KernelSet.from_json(kernels.to_json(expand=True)) == kernels


def test_specs_bring_them_unless_they_say_not_to():
    entry = {"family": "fmha.bwd_dq_dk_dv", "arch": CPU, "where": BF16}
    key = {"key": {"family": "fmha.splitkv", "arch": CPU, "dtype": "fp32"}}
    whole = KernelSet.from_spec(spec(entry, key))
    assert families(whole) == {*families(KernelSet.sweep("fmha.bwd", CPU, where=BF16))} | {
        "fmha.splitkv",
        "fmha.splitkv_combine",
    }
    assert families(KernelSet.from_spec(spec({**entry, "companions": False}, key))) == {
        *("fmha.bwd_dq_dk_dv", "fmha.splitkv", "fmha.splitkv_combine")
    }
    assert len(KernelSet.from_spec(spec(entry, key), companions=False)) == 2
    said = spec({**key, "companions": True})
    assert len(KernelSet.from_spec(said, companions=False)) == 2
    with pytest.raises(InvalidKey, match=r"sets\[0\].companions: must be true or false, not 'no'"):
        KernelSet.from_spec(spec({**key, "companions": "no"}))
    group = spec({"family": "fmha.bwd", "arch": CPU, "where": BF16})
    assert KernelSet.from_spec(group) == KernelSet.sweep("fmha.bwd", CPU, where=BF16)
    # A list of keys is what it says.
    listed = make_key("fmha.splitkv", arch=CPU)
    assert list(KernelSet.from_spec(spec({"keys": [listed.name]}))) == [listed]


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_cpp_declarations(tmp_path):
    path = tmp_path / "kernels.cpp"
    path.write_text(
        "#include <ckdisp/kernel_set.hpp>\n"
        "CKDISP_KERNEL_SET(set) {\n"
        '  set.sweep("fmha.bwd_dq_dk_dv").arch("x86-64-v3").where("dtype", "bf16");\n'
        '  set.key("fmha.splitkv").arch("x86-64-v3").field("dtype", "fp16").companions(false);\n'
        '  set.model().arch("gfx942").field("heads", 32).field("kv_heads", 8)\n'
        '      .field("head_dim", 128).field("training", true);\n'
        "}\n"
    )
    expected = KernelSet.sweep("fmha.bwd", CPU, where=BF16)
    expected |= KernelSet([make_key("fmha.splitkv", arch=CPU, dtype="fp16")])
    expected |= KernelSet.for_model("gfx942", heads=32, kv_heads=8, head_dim=128, training=True)
    assert KernelSet.from_spec(path) == expected


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_the_command_line():
    narrow = ["--arch", CPU, "--where", "dtype=bf16"]
    whole = run("list", "fmha.bwd", *narrow).stdout.split()
    assert whole == KernelSet.sweep("fmha.bwd", CPU, where=BF16).names()
    assert run("list", "fmha.bwd_dq_dk_dv", *narrow).stdout.split() == whole
    assert run("count", "fmha.bwd_dq_dk_dv", *narrow, "--no-companions").stdout == "1\n"
    # An expression about kernels of one stage leaves their companions.
    where = [f"--where={name}={str(value).lower()}" for name, value in PLAIN.items()]
    kept = run("list", "fmha.bwd", "--arch=gfx942", *where, "--filter", "mask == 'generic'").stdout
    assert kept.split() == KernelSet.sweep("fmha.bwd", "gfx942", where=PLAIN).names()
    refused = run("count", "fmha.bwd", *narrow, "--no-companions")
    assert refused.exit_code == 2 and "fmha.bwd is all of" in refused.stderr


def test_a_registry_knows_the_group():
    registry = Registry.prebuilt()
    found = registry.kernels(family="fmha.bwd", dtype="bf16")
    assert {kernel.family for kernel in found} == {
        *("fmha.bwd_dot_do_o", "fmha.bwd_dq_dk_dv", "fmha.bwd_convert_dq")
    }
    listed = run("list", "fmha.bwd", "--prebuilt", "--where", "dtype=bf16").stdout.split()
    assert listed == [kernel.name for kernel in found]


def test_what_training_needs():
    kernels = KernelSet.for_model("gfx942", heads=32, kv_heads=8, head_dim=100, training=True)
    by_family = {f: kernels.filter(lambda k, f=f: k.family == f) for f in families(kernels)}
    assert set(by_family) == {
        "gemm.standard",
        "fmha.fwd",
        *families(KernelSet.sweep("fmha.bwd", "gfx942", where=PLAIN)),
    }
    assert {k.layout for k in by_family["gemm.standard"]} == {"rcr", "rrr", "crr"}
    forward = by_family["fmha.fwd"]
    assert {(k.hdim_q, k.mask, k.lse, k.mode) for k in forward} == {(128, "generic", True, "batch")}
    assert {k.mask for k in by_family["fmha.bwd_dq_dk_dv"]} == {"generic"}
    assert KernelSet.from_json(kernels.to_json()) == kernels
    document = {"model": {"heads": 32, "kv_heads": 8, "head_dim": 100, "training": True}}
    assert KernelSet.from_spec(spec({**document, "arch": "gfx942"})) == kernels
    fields = "heads=32,kv_heads=8,head_dim=100,training=true"
    listed = run("list", "--arch=gfx942", "--model", fields)
    assert listed.stdout.split() == kernels.names()


def test_models_of_other_kinds():
    decoding = KernelSet.for_model(["gfx950", CPU], heads=8, head_dim=64, mask="no", dtype="fp16")
    assert families(decoding) == {
        *("fmha.fwd", "fmha.splitkv", "fmha.splitkv_combine", "gemm.standard")
    }
    assert {k.arch for k in decoding} == {"gfx950", CPU}
    gpu = decoding.filter("arch == 'gfx950' and family == 'fmha.fwd'")
    assert {(k.mask, k.lse) for k in gpu} == {("no", False)}
    packed = KernelSet.for_model(
        "gfx942",
        heads=8,
        head_dim=64,
        training=True,
        packed=True,
        dropout=True,
        deterministic=True,
        layouts=(),
    )
    assert {k.mode for k in packed} == {"group"}
    gradients = packed.filter("family == 'fmha.bwd_dq_dk_dv'")
    assert {(k.dropout, k.deterministic) for k in gradients} == {(True, True)}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"heads": 32, "head_dim": 128, "kv_heads": 5}, r"heads \(32\) must be a multiple of"),
        ({"heads": 0, "head_dim": 128}, "heads must be a positive integer, not 0"),
        ({"heads": 8, "head_dim": 64, "dtype": "fp8"}, "unknown dtype 'fp8'.*known: fp32, fp16"),
        ({"heads": 8, "head_dim": 64, "mask": "causal"}, "unknown mask 'causal'.*top_left"),
        ({"heads": 8, "head_dim": 64, "dropout": True}, "give training=True"),
        ({"heads": 8, "head_dim": 1024}, "hdim_q 1024 is not in this space"),
        ({"heads": 8, "head_dim": 64, "training": 1}, "training must be true or false, not 1"),
    ],
)
def test_what_no_model_has_is_refused(given, text):
    with pytest.raises(InvalidKey, match=text):
        KernelSet.for_model("gfx942", **given)


def test_errors_of_models_name_the_place():
    with pytest.raises(InvalidKey, match=r"sets\[0\].model: unknown field of a model 'head'"):
        KernelSet.from_spec(spec({"model": {"head": 3}, "arch": CPU}))
    with pytest.raises(InvalidKey, match=r"sets\[0\].model: head_dim must be given"):
        KernelSet.from_spec(spec({"model": {"heads": 3}, "arch": CPU}))
    refused = run("list", "fmha.fwd", "--model", "heads=8,head_dim=64")
    assert refused.exit_code == 2 and "leave out FAMILY" in refused.stderr
    refused = run("list", "--model", "heads=8,heads=8")
    assert refused.exit_code == 2 and "write each field once" in refused.stderr


@pytest.mark.parametrize("arch", GPUS)
def test_the_columns_of_a_space_are_found_without_its_keys(arch):
    (part,) = KernelSet.sweep("fmha.bwd_dq_dk_dv", arch, companions=False)._parts
    space = part.space
    listed = space.columns(np.arange(len(space)))
    key_class = space.key_class
    for names in (COLUMNS, ("mask",), ("dtype", "hdim_q", "bias"), ("arch",)):
        found = space.distinct(names)
        rows = distinct_rows(key_class, found)
        assert rows == distinct_rows(key_class, {name: listed[name] for name in found})
        assert len(rows) == len(found[names[0]])
