"""Sweep files of attention kernels, and the options of the command line that go with them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from ckdisp import InvalidKey, KernelSet
from ckdisp.cli.app import app

FORWARD = {
    "variant": "fwd",
    "trait_config": {
        "data_type": {"values": ["fp16", "fp32"]},
        "pipeline": {"values": ["qr", "qr_async_trload_v3"]},
        "mask": {"values": ["no", "causal"]},
        "bias": {"values": ["no"]},
        "mode": {"values": ["batch"]},
        "lse": {"values": [True]},
        "dropout": {"values": [False]},
        "logits": {"values": [False]},
        "sink": {"values": [False]},
        "block_per_cu": {"values": -1},
    },
}


def test_a_sweep_restricts_every_field_that_it_names():
    where = {"hdim": [128], "tile_0": [128, 256]}
    keys = KernelSet.from_sweep(FORWARD, "gfx950", where=where)
    assert {k.pipeline for k in keys} == {"qr", "v3"}
    assert {k.dtype for k in keys} == {"fp16", "fp32"}
    assert {k.mask for k in keys} == {"no", "top_left"}
    assert {(k.mode, k.bias, k.lse, k.dropout, k.logits, k.sink) for k in keys} == {
        ("batch", "no", True, False, False, False)
    }
    assert {(k.hdim_q, k.hdim_v, k.block_per_cu) for k in keys} == {(128, 128, 0)}
    assert not any(k.check() for k in keys.sample(200))


def test_variants_have_all_families_of_a_plan():
    keys = KernelSet.from_sweep({"variant": "bwd"}, "gfx942", receipt=3, tiles="curated")
    assert {k.family for k in keys} == {
        "fmha.bwd_dot_do_o",
        "fmha.bwd_dq_dk_dv",
        "fmha.bwd_convert_dq",
    }
    traits = {"data_type": {"values": ["fp16"]}, "paged_kv": {"values": [True]}}
    sweep = {"variant": "splitkv", "trait_config": traits}
    keys = KernelSet.from_sweep(sweep, "gfx942", tiles="curated")
    assert {(k.family, k.paged_kv) for k in keys} == {
        ("fmha.splitkv", True),
        ("fmha.splitkv_combine", False),
    }


def test_types_that_an_arch_lacks_are_left_out():
    sweep = {"trait_config": {"data_type": {"values": ["fp16", "fp8"]}}}
    keys = KernelSet.from_sweep(sweep, ["gfx90a", "gfx942"], tiles="curated")
    assert {(k.arch, k.dtype) for k in keys} == {
        ("gfx90a", "fp16"),
        ("gfx942", "fp16"),
        ("gfx942", "fp8"),
    }


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"variants": "fwd"}, r"sweep: unknown member 'variants' \(did you mean 'variant'"),
        ({"variant": "forward"}, r"sweep\.variant: unknown variant 'forward'"),
        ({"trait_config": []}, r"sweep\.trait_config: trait_config is an object"),
        ({"trait_config": {"masks": {}}}, r"sweep\.trait_config: unknown member 'masks'"),
        ({"trait_config": {"mask": ["no"]}}, r"trait_config\.mask: a trait is an object"),
        ({"trait_config": {"mask": {}}}, r'trait_config\.mask: a trait has "values"'),
        ({"trait_config": {"mask": {"values": []}}}, r"mask\.values: a list of at least one"),
        (
            {"trait_config": {"mask": {"values": ["no", "x"]}}},
            r"trait_config\.mask\.values\[1\]: unknown mask 'x'",
        ),
        (
            {"trait_config": {"lse": {"values": ["yes"]}}},
            r"lse\.values\[0\]: lse must be true or false, not 'yes'",
        ),
        (
            {"trait_config": {"block_per_cu": {"values": [-2]}}},
            r"block_per_cu\.values\[0\]: block_per_cu must be between 0",
        ),
        (
            {"variant": "bwd", "trait_config": {"lse": {"values": [True]}}},
            r"trait_config\.lse: variant bwd has no lse",
        ),
        (
            {"trait_config": {"data_type": {"values": ["mxfp8"]}}},
            r"data_type: gfx942 has no kernels of fwd of mxfp8",
        ),
        (
            {"trait_config": {"bias": {"values": ["bias"]}, "logits": {"values": [True]}}},
            "no kernel: its values exclude each other",
        ),
        ('{"variant": ', "sweep: not JSON: Expecting value in line 1"),
        ("/no/such/file.json", "cannot read the sweep /no/such/file.json: No such file"),
    ],
)
def test_errors_say_where_a_sweep_is_wrong(document, words):
    with pytest.raises(InvalidKey, match=words):
        KernelSet.from_sweep(document, "gfx942")


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_the_command_line_takes_sweeps_receipts_head_dims_and_filters(tmp_path):
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps(FORWARD))
    options = ["--sweep", str(file), "--arch", "gfx942", "--hdim", "48,128"]
    keys = KernelSet.from_sweep(FORWARD, "gfx942", where={"hdim": [48, 128]})
    assert run("count", *options).output == f"{len(keys)}\n"
    options = ["fmha.fwd", "--arch", "gfx942", "--hdim", "128"]
    by_name = run("list", *options, "--receipt", "flash_fwd", "--filter", "lse and dropout")
    by_number = run("list", *options, "--receipt", "2", "--filter", "lse and dropout")
    assert by_name.output == by_number.output
    assert len(by_name.output.split()) == 36
    assert run("list", *options, "--filter", "hdim_q == 64").exit_code != 0


def test_receipts_of_no_kernels_are_refused():
    for receipt, words in (
        (
            "flash",
            r"unknown receipt 'flash'.*known: ck_default \(0\), ck_extended \(1\)",
        ),
        (700, "unknown receipt 700; known"),
        (True, "unknown receipt True"),
        ("flash_bwd", "receipt flash_bwd .* has no kernels of fmha.fwd; it has fmha.bwd_dot_do_o"),
    ):
        with pytest.raises(InvalidKey, match=words):
            KernelSet.sweep("fmha.fwd", "gfx942", receipt=receipt)
