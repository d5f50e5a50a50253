"""The space engine: counting, order, positions, restriction, and why a space is empty."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from ckdisp.codegen.arch import arch, arch_names
from ckdisp.codegen.columns import from_keys
from ckdisp.codegen.errors import InvalidKey
from ckdisp.codegen.factor import Axis, factor
from ckdisp.codegen.make import make_key
from ckdisp.codegen.ops import op
from ckdisp.codegen.ops.definition import SpaceRequest
from ckdisp.codegen.ops.gemm.key import GemmKey
from ckdisp.codegen.rules import Rule, check_all
from ckdisp.codegen.space import Space, axis


def space(name="gfx942", family="gemm.standard", tiles="all"):
    return op("gemm").space(SpaceRequest(family, name, arch(name).provider, tiles))


def small(name="gfx942"):
    found = space(name).restrict("layout", ["rcr"]).restrict("pipeline", ["compv4", "mem"])
    found = found.restrict("dtype", ["fp16"], ("dtype_a", "dtype_b")).restrict("dtype_c", ["fp16"])
    found = found.restrict("wave", [(2, 2, 1), (1, 4, 1)]).restrict("epilogue", ["cshuffle"])
    return found.restrict("tile_k", [64, 128]).restrict("dtype_d", ["fp16"])


def test_a_small_space_is_the_valid_part_of_its_product():
    s = small().restrict("tile_m", [64, 192]).restrict("tile_n", [64, 256])
    s = s.restrict("block_per_cu", [1])
    rows = [
        dict(zip((c for a in s.axes for c in a.columns), itertools.chain(*combo), strict=True))
        for combo in itertools.product(*(a.rows.tolist() for a in s.axes))
    ]
    from ckdisp.codegen.columns import to_keys

    columns = {c: np.array([row[c] for row in rows]) for c in rows[0]}
    everything = to_keys(GemmKey, columns)
    valid = {
        k for k, rejected in zip(everything, check_all(everything), strict=True) if not rejected
    }
    assert len(s) == len(valid) > 0
    assert set(s) == valid


@pytest.mark.parametrize("name", arch_names())
def test_samples_of_every_space_are_valid_and_know_their_position(name):
    for family in op("gemm").families:
        for tiles in ("curated", "all"):
            s = space(name, family, tiles)
            if not len(s):
                assert family == "gemm.preshuffle" or not arch(name).serves(family)
                continue
            positions = np.unique(np.linspace(0, len(s) - 1, 200).astype(np.int64))
            keys = s.keys(positions)
            assert check_all(keys) == [[] for _ in keys]
            assert s.positions(from_keys(GemmKey, keys)).tolist() == positions.tolist()
            assert {(k.arch, k.family) for k in keys} == {(name, family)}


def test_order_is_deterministic_and_indexable():
    one, two = small(), small()
    assert [k.name for k in one] == [k.name for k in two]
    assert list(one)[7] == one[7] and one[-1] == list(one)[-1]
    with pytest.raises(IndexError):
        one[len(one)]


def test_membership_needs_no_enumeration():
    s = space("gfx950", "gemm.multi_d")
    assert len(s) > 10**9
    inside = s[len(s) // 2]
    assert inside in s
    assert make_key("gemm.standard", arch="gfx950") not in s  # another family
    broken = GemmKey.from_dict({**inside.to_dict(), "tile": (17, 17, 17)})
    assert broken not in s
    assert "text" not in s


def test_counting_takes_little_memory():
    tracemalloc.start()
    try:
        assert len(space("gfx950", "gemm.multi_d")) > 10**9
        assert len(space("gfx942")) > 10**7
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100e6


def test_free_columns_extend_and_rules_decide():
    s = space().restrict("tile", [(96, 96, 64), (100, 96, 64)])
    assert {k.tile for k in s.keys(np.arange(0, len(s), 97))} == {(96, 96, 64)}
    assert len(space().restrict("tile_m", [99])) == 0


def test_listed_columns_only_narrow():
    with pytest.raises(InvalidKey, match="tile_m 99 is not in this space, which has 16, 64, 128"):
        space(tiles="curated").restrict("tile_m", [99])
    with pytest.raises(InvalidKey, match="pipeline packed is not in this space, which has mem"):
        space().restrict("pipeline", ["packed"])
    with pytest.raises(InvalidKey, match="unknown field 'tile_x'"):
        space().restrict("tile_x", [1])


def test_an_empty_space_says_why():
    s = space("gfx908").restrict("dtype", ["fp8"], ("dtype_a", "dtype_b"))
    assert len(s) == 0 and list(s) == []
    assert "dtypes: gfx908 has no matrix instruction for fp8 x fp8" in s.why_empty()
    assert make_key("gemm.standard", arch="gfx908") not in s


def test_an_axis_without_values_gives_an_empty_space():
    s = space("gfx908", "gemm.preshuffle", "curated")
    assert len(s) == 0 and s.why_empty() == "none is listed"


def test_a_space_covers_every_column_once():
    with pytest.raises(ValueError, match="do not cover"):
        Space(GemmKey, [axis(GemmKey, "tile", [(64, 64, 64)])], ())


def test_repeated_values_of_an_axis_count_once():
    assert len(axis(GemmKey, "tile_m", [64, 64, 128])) == 2


def even_sum(*names):
    return Rule("even", "", names, lambda c: sum(c[n] for n in names) % 2 == 0, lambda k: "odd")


@pytest.mark.parametrize(
    "links", [(), ("ab",), ("ab", "bc"), ("ab", "cd", "ae", "be"), ("abcdef",)]
)
def test_factoring_counts_like_brute_force(links):
    axes = [Axis((name,), np.arange(3 + i)[:, None]) for i, name in enumerate("abcdef")]
    rules = [even_sum(*link) for link in links]
    rows = np.array(list(itertools.product(*(range(len(a)) for a in axes))))
    mask = np.ones(len(rows), bool)
    for link in links:
        mask &= sum(rows[:, "abcdef".index(n)] for n in link) % 2 == 0
    assert len(factor(axes, rules)) == mask.sum()


def test_rules_on_fixed_axes_decide_for_all():
    axes = [Axis(("a",), np.array([[1]])), Axis(("b",), np.array([[0], [1]]))]
    assert len(factor(axes, [even_sum("a")])) == 0
    assert len(factor(axes, [even_sum("a", "b")])) == 1


def test_features_multiply_without_being_joined():
    # 2 * 10**12 combinations, of which half are valid: tables stay small.
    axes = [Axis((f"x{i}",), np.arange(10)[:, None]) for i in range(12)]
    axes.append(Axis(("pick",), np.array([[0], [1]])))
    rules = [even_sum("x0", "pick")] + [even_sum(f"x{i}", "pick") for i in range(1, 4)]
    assert len(factor(axes, rules)) == 2 * 5**4 * 10**8
