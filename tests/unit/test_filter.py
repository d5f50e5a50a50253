"""Filter expressions: what they keep, and what they refuse."""

from __future__ import annotations

import pytest

from ckdisp import InvalidKey, KernelSet, make_key
from ckdisp.codegen.filter import compile_filter, filter_rules
from ckdisp.codegen.ops import op
from ckdisp.codegen.ops.definition import SpaceRequest
from ckdisp.codegen.ops.fmha.key import FmhaKey

KEYS = KernelSet.sweep("fmha.fwd", "gfx942", receipt="flash_fwd", where={"hdim": [64, 128]})


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("hdim_q == 128 and not lse", lambda k: k.hdim_q == 128 and not k.lse),
        ("mode in ('group',) or dropout", lambda k: k.mode == "group" or k.dropout),
        ("bias not in ['no', 'bias']", lambda k: k.bias == "alibi"),
        ("64 < hdim_q <= 128", lambda k: k.hdim_q == 128),
        ("tile_0 * tile_1 // 2 - 1 > 4096 + 1", lambda k: k.tile[0] * k.tile[1] > 8196),
        ("tile[5] % 128 == 0", lambda k: k.tile[5] == 128),
        ("tile == (128, 64, 32, 64, 32, 64)", lambda k: k.tile[:3] == (128, 64, 32)),
        ("tile in [(128, 64, 32, 64, 32, 64), 7]", lambda k: k.tile[:3] == (128, 64, 32)),
        ("tile_6 in (1, 0) and lse", lambda k: k.lse),
        ("padding == (1, 1, 1, 1)", lambda k: k.padding == (1, 1, 1, 1)),
        ("lse == true", lambda k: k.lse),
        ("'_v64_' in name", lambda k: k.hdim_v == 64),
        ("-hdim_q < -64", lambda k: k.hdim_q > 64),
    ],
)
def test_expressions_keep_what_a_function_would(text, keep):
    assert list(KEYS.filter(text)) == [key for key in KEYS if keep(key)]
    assert 0 < len(KEYS.filter(text)) < len(KEYS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("__import__('os').system('true')", "cannot have"),
        ("tile.__class__", "cannot have 'tile.__class__'"),
        ("(lambda: 1)()", "cannot have"),
        ("[x for x in tile]", "cannot have"),
        ("f'{tile}'", "cannot have"),
        ("2 ** 100000", "cannot compute"),
        ("~hdim_q", "has not and -"),
        ("hdim == 3", "unknown field in a filter 'hdim' \\(did you mean 'hdim_"),
        ("mask == 'casual'", "unknown mask in a filter 'casual'"),
        ("mask in ('no', 'x')", "unknown mask in a filter 'x'"),
        ("hdim_q ==", "cannot read the filter 'hdim_q ==': invalid syntax"),
        ("", "cannot read the filter ''"),
        ("None", "cannot have the literal None"),
        ("tile[hdim_q] == 1", "has numbers as tile"),
        ("tile is name", "has == != < in"),
        ("(" * 3000 + "1" + ")" * 3000, "cannot read the filter"),
        ("1+" * 20000 + "1", "at most 10000 characters"),
    ],
)
def test_what_an_expression_may_not_hold_is_refused_by_name(text, words):
    with pytest.raises(InvalidKey, match=words):
        compile_filter(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hdim_q < mode", "not supported between instances of 'int' and 'str'"),
        ("hdim_q % 0 == 1", "integer modulo by zero"),
        ("tile[20] == 1", "index out of range"),
        ("mode * 3 == mode", "computes with numbers, not 'batch', 3"),
        ("layout == 'rcr'", "keys of fmha have no such field"),
    ],
)
def test_what_cannot_be_computed_is_an_error(text, words):
    with pytest.raises(InvalidKey, match=words):
        KEYS.filter(text)


@pytest.mark.parametrize(
    "text",
    [
        "hdim_q == 128 and lse and tile_0 >= 64",
        "tile_0 * tile_1 > 8192 or mask == 'no'",
        "block_per_cu > 0 and 4 % block_per_cu == 0",
        "1 == 1",
        "1 == 2",
    ],
)
def test_a_narrowed_space_has_the_keys_that_a_function_keeps(text):
    space = op("fmha").space(SpaceRequest("fmha.fwd", "gfx942", "ck_tile", "all"))
    fixed = {"hdim_q": 128, "hdim_v": 128, "dtype": "fp16", "pipeline": "qr", "vlayout": "r"}
    for name, value in (fixed | {"mode": "batch", "padding": (1, 1, 1, 1)}).items():
        space = space.restrict(name, [value])
    keep = compile_filter(text)
    narrowed = list(space.narrow(filter_rules(text, FmhaKey)))
    assert len(narrowed) == len(set(narrowed))
    assert set(narrowed) == {key for key in space if keep(key)}


def test_a_filter_counts_a_space_that_nobody_could_enumerate():
    whole = KernelSet.sweep("fmha.fwd", "gfx942", tiles="all")
    kept = whole.filter("hdim_q == hdim_v and dropout and mask != 'no' and tile_0 <= 64")
    assert 1_000_000 < len(kept) < len(whole)
    assert all(k.dropout and k.mask != "no" and k.tile[0] <= 64 for k in kept.sample(20))
    assert kept[0] in whole
    assert len(whole.filter("hdim_q == 1")) == 0
    with pytest.raises(InvalidKey, match=r"reads name, which enumerates .* keys; narrow them"):
        whole.filter("'_v64_' in name")


def test_filters_serve_every_op():
    keys = KernelSet([make_key("gemm.standard", arch="gfx942", tile_m=m) for m in (64, 128)])
    assert [key.tile[0] for key in keys.filter("tile_m > 64 and layout == 'rcr'")] == [128]
