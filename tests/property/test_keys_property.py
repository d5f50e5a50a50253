"""Laws that hold for every key, space and set, on random ones."""

from __future__ import annotations

import functools
import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ckdisp.codegen.arch import arch, arch_names
from ckdisp.codegen.enums import FAMILY
from ckdisp.codegen.errors import InvalidKey
from ckdisp.codegen.kernel_set import KernelSet
from ckdisp.codegen.make import parse_name
from ckdisp.codegen.ops import key_classes, op, op_of_family
from ckdisp.codegen.ops.definition import SpaceRequest
from ckdisp.codegen.rules import check_all
from ckdisp.codegen.schema import INT_MAX, fields_of

relaxed = settings(deadline=None)  # the first example builds a space
FAMILIES = FAMILY.values
numbers = st.integers(0, INT_MAX) | st.sampled_from([0, 1, 2, 16, 32, 64, 128, 256])


def values_of(spec, key_class):
    if spec.enum is FAMILY:
        return st.sampled_from(op(key_class.op).families)
    if spec.enum is not None:
        return st.sampled_from(spec.enum.values)
    if spec.kind == "flag":
        return st.booleans()
    return st.tuples(*[numbers] * len(spec.components)) if spec.components else numbers


def any_key_of(key_class):
    specs = fields_of(key_class)
    return st.builds(key_class, **{spec.name: values_of(spec, key_class) for spec in specs})


any_key = st.one_of(*map(any_key_of, key_classes()))


@functools.cache
def space(family, name, tiles="all"):
    return op_of_family(family).space(SpaceRequest(family, name, arch(name).provider, tiles))


@st.composite
def valid_key(draw):
    found = space(draw(st.sampled_from(FAMILIES)), draw(st.sampled_from(arch_names())))
    assume(len(found))
    return found[draw(st.integers(0, len(found) - 1))]


@st.composite
def near_key(draw):
    """A valid key with one field replaced: often invalid, but by little."""
    key = draw(valid_key())
    spec = draw(st.sampled_from(fields_of(type(key))))
    value = draw(values_of(spec, type(key)))
    return type(key).from_dict({**key.to_dict(), spec.name: value})


keys = st.one_of(any_key, near_key(), valid_key())


@relaxed
@given(keys)
def test_names_parse_back(key):
    assert key.name.isidentifier() and key.name.isascii()
    assert parse_name(key.name) == key
    assert type(key).from_name(key.name).name == key.name


@relaxed
@given(keys, near_key())
def test_names_are_injective(a, b):
    assert (a.name == b.name) == (a == b)


@relaxed
@given(valid_key(), st.data())
def test_changing_any_one_field_changes_the_name(key, data):
    for spec in fields_of(type(key)):
        value = data.draw(values_of(spec, type(key)))
        other = type(key).from_dict({**key.to_dict(), spec.name: value})
        assert (other.name == key.name) == (other == key)


@relaxed
@given(keys)
def test_json_round_trip(key):
    assert type(key).from_dict(json.loads(json.dumps(key.to_dict()))) == key
    assert hash(type(key).from_dict(key.to_dict())) == hash(key)


@relaxed
@given(st.one_of(*(st.tuples(*[any_key_of(c)] * 3) for c in key_classes())))
def test_order_is_total(some):
    a, b, c = some
    assert (a < b) + (b < a) + (a == b) == 1
    if a < b and b < c:
        assert a < c


@relaxed
@given(any_key)
def test_a_family_of_another_op_is_refused(key):
    other = next(f for f in FAMILY.values if not f.startswith(f"{key.op}."))
    with pytest.raises(InvalidKey, match=f"unknown family of {key.op} '{other}'"):
        type(key).from_dict({**key.to_dict(), "family": other})


@relaxed
@given(st.text() | st.text("abcdefgmnkprtwx0123456789_") | st.binary().map(repr))
def test_the_parser_survives_any_text(text):
    try:
        key = parse_name(text)
    except InvalidKey as error:
        assert str(error)
    else:
        assert key.name == text


@relaxed
@given(valid_key(), st.data())
def test_the_parser_survives_damaged_names(key, data):
    name = key.name
    at = data.draw(st.integers(0, len(name)))
    damaged = name[:at] + data.draw(st.text(max_size=3)) + name[at + data.draw(st.integers(0, 3)) :]
    try:
        assert parse_name(damaged).name == damaged
    except InvalidKey:
        assert damaged != name


@relaxed
@given(st.lists(keys, max_size=20))
def test_one_check_is_all_checks(some):
    assert check_all(some) == [key.check() for key in some]


@relaxed
@given(keys)
def test_rules_and_reasons_never_fail(key):
    for rejection in key.check():
        assert rejection.rule and rejection.reason


@relaxed
@given(valid_key())
def test_every_emitted_key_passes_every_rule(key):
    assert key.check() == []


@relaxed
@given(near_key())
def test_membership_is_passing_the_rules(key):
    """A key whose values the axes list is in the space exactly if no rule refuses it."""
    found = space(key.family, key.arch)
    if key.provider != arch(key.arch).provider:
        assert key not in found and key.check()
        return
    listed = all(
        any(
            tuple(row) == tuple(values[c] for c in a.columns)
            for values in ({c: int(v[0]) for c, v in columns_of_key(key).items()},)
            for row in a.rows.tolist()
        )
        for a in found.axes
    )
    assert (key in found) == (listed and not key.check())


def columns_of_key(key):
    from ckdisp.codegen.columns import from_keys

    return from_keys(type(key), [key])


# Of some families what all sets share, and what each may have some values of.
ALGORITHM = {"tile": (128, 128, 64), "wave": (2, 2, 1), "block_per_cu": 1}
ALGORITHM |= {"warp": [(32, 32, 16), (16, 16, 32)]}
CONV = {"dtype_out": "fp16", "vector": (4, 8, 8), "groups_to_merge": 1, "split_image": False}
SETS = {
    "gemm.standard": (
        {"persistent": False, "split_k": False, "dtype_c": "fp16", "dtype_d": "fp16"},
        {
            "dtype": ["fp16", "bf16", "fp8"],
            "layout": ["rcr", "rrr", "ccr"],
            "pipeline": ["mem", "compv3", "compv4"],
            "pad_m": [False, True],
            "epilogue": ["default", "cshuffle"],
        },
    ),
    "conv.fwd": (
        CONV,
        {
            "dtype": ["fp16", "bf16", "fp8"],
            "layout": ["nwgc", "nhwgc", "ndhwgc"],
            "pipeline": ["mem", "compv3", "compv4"],
            "specialization": ["default", "filter1x1_pad0", "filter1x1_stride1_pad0"],
            "epilogue": ["default", "cshuffle"],
        },
    ),
}


@st.composite
def some_set(draw, family):
    fixed, varied = SETS[family]
    chosen = {
        name: draw(st.lists(st.sampled_from(values), min_size=1, unique=True))
        for name, values in varied.items()
    }
    where = {**ALGORITHM, **fixed, **chosen}
    ks = KernelSet.sweep(
        *(family, "gfx942"), tiles="all", where=where, allow_empty=True, companions=False
    )
    shape = draw(st.sampled_from(["space", "sample", "keys"]))
    if shape == "sample":
        return ks.sample(draw(st.integers(0, 20)), seed=draw(st.integers(0, 5)))
    return KernelSet(ks.sample(10)) if shape == "keys" else ks


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([*SETS]).flatmap(lambda f: st.tuples(some_set(f), some_set(f))))
def test_the_laws_of_sets(pair):
    a, b = pair
    left, right = list(a), list(b)
    assert len(a) == len(left) == len(set(left))
    both = a | b
    assert list(both) == left + [k for k in right if k not in set(left)]
    assert list(a - b) == [k for k in left if k not in set(right)]
    assert list(a & b) == [k for k in left if k in set(right)]
    assert both == b | a
    assert len(both) == len(a) + len(b) - len(a & b)
    assert all(k in both for k in (left + right)[::17])
    assert (a == b) == (set(left) == set(right))


@settings(deadline=None, max_examples=20)
@given(st.sampled_from([*SETS]).flatmap(some_set))
def test_sets_survive_json(ks):
    assert list(KernelSet.from_json(ks.to_json())) == list(ks)
    assert list(KernelSet.from_json(ks.to_json(expand=True))) == list(ks)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_two_curated_keys_share_a_name(family):
    names = [k.name for name in arch_names() for k in space(family, name, "curated")]
    assert len(set(names)) == len(names)
