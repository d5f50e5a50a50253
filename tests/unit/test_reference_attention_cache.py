"""The caches of ``ckdisp.reference``: pages, new rows, rotations, lengths, scales, parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import ckdisp
from ckdisp.reference import (
    apply_rope,
    attention_appendkv,
    attention_combine,
    attention_fwd,
    attention_splitkv,
    gather_kv,
)

B, H, HK, SQ, SK, D, DV = 2, 4, 2, 3, 7, 8, 12


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def tensors() -> list[Any]:
    return [normal(B, H, SQ, D), normal(B, HK, SK, D, seed=1), normal(B, HK, SK, DV, seed=2)]


def test_parts_are_attention_to_their_keys() -> None:
    q, k, v = tensors()
    o, lse = attention_splitkv(q, k, v, num_splits=3)
    assert o.shape == (3, B, H, SQ, DV) and lse.shape == (3, B, H, SQ)
    for i, part in enumerate((slice(0, 3), slice(3, 6), slice(6, 7))):
        want_o, want_lse = attention_fwd(q, k[:, :, part], v[:, :, part], return_lse=True)
        np.testing.assert_allclose(o[i], want_o, atol=1e-14)
        np.testing.assert_allclose(lse[i], want_lse, atol=1e-14)


def test_parts_without_keys_are_empty_and_add_nothing() -> None:
    q, k, v = tensors()
    o, lse = attention_splitkv(q, k, v, num_splits=9, seqlens_k=[4, 0])
    assert np.all(o[4:] == 0) and np.all(np.isneginf(lse[4:]))
    whole, sums = attention_combine(o, lse, return_lse=True)
    want, want_sums = attention_fwd(q, k, v, seqlens_k=[4, 0], return_lse=True)
    np.testing.assert_allclose(whole, want, atol=1e-14)
    np.testing.assert_allclose(sums, want_sums, atol=1e-14)
    assert np.all(whole[1] == 0) and np.all(np.isneginf(sums[1]))


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_parts_of_many_lengths(layout: str) -> None:
    q, k, v = normal(H, 5, D), normal(HK, 9, D), normal(HK, 9, DV)
    given = [x.swapaxes(0, 1) if layout == "bshd" else x for x in (q, k, v)]
    how: dict[str, Any] = {"cu_seqlens_q": [0, 2, 5], "cu_seqlens_k": [0, 8, 9]}
    how |= {"layout": layout, "mask": "top_left", "window": (4, 0)}
    found = attention_combine(
        *attention_splitkv(*given, num_splits=2, **how), layout=layout, return_lse=True
    )
    for x, y in zip(found, attention_fwd(*given, return_lse=True, **how), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-14)


def test_lengths_and_batches_of_a_cache() -> None:
    q, k, v = tensors()
    o, lse = attention_fwd(
        q, k, v, seqlens_k=[3, 0], cache_batch_idx=[1, 1], mask="bottom_right", return_lse=True
    )
    want, sums = attention_fwd(
        q[:1], k[1:, :, :3], v[1:, :, :3], mask="bottom_right", return_lse=True
    )
    np.testing.assert_allclose(o[0], want[0], atol=1e-14)
    np.testing.assert_allclose(lse[0], sums[0], atol=1e-14)
    assert np.all(o[1] == 0) and np.all(np.isneginf(lse[1]))


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_columns_of_v(layout: str) -> None:
    q, k, v = tensors()
    given = [x.swapaxes(1, 2) if layout == "bshd" else x for x in (q, k)]
    o = attention_fwd(*given, v.swapaxes(2, 3), vlayout="c", layout=layout)
    want = attention_fwd(q, k, v)
    np.testing.assert_array_equal(o if layout == "bhsd" else o.swapaxes(1, 2), want)


def test_a_bias_of_many_lengths_has_a_row_for_each_query() -> None:
    q, k, v = normal(H, 5, D), normal(HK, 9, D), normal(HK, 9, DV)
    bias = normal(H, 5, 7, seed=3)
    starts_q, starts_k = [0, 2, 5], [0, 2, 9]
    o = attention_fwd(q, k, v, bias=bias, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k)
    for b in range(2):
        rows, keys = (slice(s[b], s[b + 1]) for s in (starts_q, starts_k))
        alone = [x[None] for x in (q[:, rows], k[:, keys], v[:, keys])]
        mine = bias[:, rows, : starts_k[b + 1] - starts_k[b]]
        np.testing.assert_allclose(o[:, rows], attention_fwd(*alone, bias=mine)[0], atol=1e-14)


def test_short_sequences_are_left_out() -> None:
    q, k, v = normal(H, 6, D), normal(HK, 9, D), normal(HK, 9, DV)
    how: dict[str, Any] = {"cu_seqlens_q": [0, 2, 5], "cu_seqlens_k": [0, 2, 9]}
    o, lse = attention_fwd(q, k, v, min_seqlen_q=2, return_lse=True, **how)
    want, sums = attention_fwd(q, k, v, return_lse=True, **how)
    np.testing.assert_array_equal(o[:, 2:], want[:, 2:])
    np.testing.assert_array_equal(lse[:, 2:], sums[:, 2:])
    # So is a row that belongs to no sequence.
    for rows in (slice(0, 2), slice(5, 6)):
        assert np.all(o[:, rows] == 0) and np.all(np.isneginf(lse[:, rows]))
    with pytest.raises(ckdisp.InvalidArgument, match="needs cu_seqlens_q"):
        attention_fwd(*tensors(), min_seqlen_q=1)


def test_scales_of_tensors_and_of_blocks() -> None:
    q, k, v = normal(1, 4, 200, D), normal(1, 2, 300, D), normal(1, 2, 300, DV)
    want = attention_fwd(0.5 * q, 4 * k, 0.25 * v)
    found = attention_fwd(q, k, v, q_scale=0.5, k_scale=4, v_scale=0.25)
    np.testing.assert_allclose(found, want, rtol=1e-12)
    scales = [abs(normal(1, h, n, seed=n)) for h, n in ((4, 2), (2, 3), (2, 3))]
    wide = [
        x * np.repeat(s, 128, 2)[:, :, : x.shape[2], None]
        for x, s in zip((q, k, v), scales, strict=True)
    ]
    names = ("q_scale", "k_scale", "v_scale")
    found = attention_fwd(q, k, v, **dict(zip(names, scales, strict=True)))
    np.testing.assert_allclose(found, attention_fwd(*wide), rtol=1e-12)


@pytest.mark.parametrize("mask", ["bottom_right", "no"])
def test_what_is_not_seen_does_not_come_through(mask: str) -> None:
    q, k, v = tensors()
    poisoned = [k.copy(), v.copy()]
    for x in poisoned:
        x[0, 0, 5:] = np.nan
        x[1, 1, 6] = np.inf
    how: dict[str, Any] = {"mask": mask, "seqlens_k": [5, 6]}
    want = attention_fwd(q, k, v, **how)
    np.testing.assert_array_equal(attention_fwd(q, *poisoned, **how), want)
    # Of seven keys the first query of three sees five, and the second six.
    o = attention_fwd(q, *poisoned, mask="bottom_right")
    assert np.all(np.isfinite(o[:, :, 0])) and np.all(np.isnan(o[0, :2, 1:]))
    np.testing.assert_allclose(o[:, :, 0], attention_fwd(q, k, v, mask="bottom_right")[:, :, 0])


def test_gradients_of_what_is_not_seen() -> None:
    q, k, v = tensors()
    do = normal(B, H, SQ, DV)
    how: dict[str, Any] = {"mask": "bottom_right", "logits_soft_cap": 2.0}
    want = ckdisp.reference.attention_bwd(do, q, k, v, **how)
    for x in (k, v):
        x[:, :, -1] = np.nan  # only the last query sees it
    dq, dk, dv = ckdisp.reference.attention_bwd(do, q, k, v, **how)
    np.testing.assert_allclose(dq[:, :, :2], want[0][:, :, :2], atol=1e-14)
    assert np.all(np.isnan(dq[:, :, 2]))
    q[:, :, 0] = np.nan  # sees all but the last two keys
    dk, dv = ckdisp.reference.attention_bwd(do, q, k, v, **how)[1:]
    assert np.all(np.isnan(dk[:, :, :5])) and np.all(np.isnan(dv[:, :, :5]))


def test_random_bytes_are_those_of_each_head() -> None:
    q, k, v = tensors()
    how: dict[str, Any] = {"dropout_p": 0.5, "seed": 3, "offset": 8}
    o, drawn = attention_fwd(q, k, v, return_randval=True, seqlens_k=[7, 4], **how)
    np.testing.assert_array_equal(o, attention_fwd(q, k, v, seqlens_k=[7, 4], **how))
    assert drawn.shape == (B, H, SQ, SK) and drawn.dtype == np.uint8
    want = ckdisp.reference.dropout_bytes(3, 8, 1 * H + 2, SQ, 4)
    np.testing.assert_array_equal(drawn[1, 2, :, :4], want)
    assert np.all(drawn[1, :, :, 4:] == 0)


@pytest.mark.parametrize("rope", ["interleaved", "half_rotated"])
def test_a_rotation_multiplies_complex_numbers(rope: str) -> None:
    x, angles = normal(2, 3, 10), normal(3, 4, seed=1)
    found = apply_rope(x, np.cos(angles), np.sin(angles), rope=rope)
    pairs = [(2 * i, 2 * i + 1) if rope == "interleaved" else (i, i + 4) for i in range(4)]
    for i, (a, b) in enumerate(pairs):
        turned = (x[..., a] + 1j * x[..., b]) * np.exp(1j * angles[:, i])
        np.testing.assert_allclose(found[..., a], turned.real, atol=1e-14)
        np.testing.assert_allclose(found[..., b], turned.imag, atol=1e-14)
    np.testing.assert_array_equal(found[..., 8:], x[..., 8:])


def paged(x: Any, size: int) -> tuple[Any, Any]:
    """Pages (pages, heads, size, numbers) in a random order, their unused rows NaN; their table."""
    b, heads, rows, d = x.shape
    count = -(-rows // size)
    table = np.random.default_rng(9).permutation(b * count + 1)[: b * count].reshape(b, count)
    pages = np.full((b * count + 1, heads, size, d), np.nan)
    for i in range(b):
        for row in range(rows):
            pages[table[i, row // size], :, row % size] = x[i, :, row]
    return pages, table


@pytest.mark.parametrize("lookup", ["vllm", "sglang"])
@pytest.mark.parametrize("form", ["bhsd", "bshd", "vectors"])
def test_pages_are_the_rows_in_them(lookup: str, form: str) -> None:
    _, k, v = tensors()
    (kp, table), (vp, _) = paged(k, 4), paged(v, 4)
    layout = "bhsd" if form == "vectors" else form
    if form == "bshd":
        kp, vp = kp.swapaxes(1, 2), vp.swapaxes(1, 2)
    elif form == "vectors":
        kp = kp.reshape(*kp.shape[:3], D // 4, 4).transpose(0, 1, 3, 2, 4)
        vp = vp.reshape(*vp.shape[:2], 1, 4, DV).swapaxes(3, 4)
    how: dict[str, Any] = {"page_table": table, "seqlens_k": [7, 3]}
    if lookup == "sglang":
        how = {"page_table": [*table[0], table[1, 0]], "page_indptr": [0, 2, 3]}
        how |= {"last_page_len": [3, 3]}
    found_k, found_v, lengths = gather_kv(kp, vp, kv_lookup=lookup, layout=layout, **how)
    assert lengths.tolist() == [7, 3]
    if layout == "bshd":
        found_k, found_v = found_k.swapaxes(1, 2), found_v.swapaxes(1, 2)
    for found, x in ((found_k, k), (found_v, v)):
        np.testing.assert_array_equal(found[0], x[0])
        np.testing.assert_array_equal(found[1, :, :3], x[1, :, :3])
        assert np.all(found[1, :, 3:] == 0)


def test_queries_of_many_lengths_attend_to_pages() -> None:
    q, k, v = normal(H, 5, D), *tensors()[1:]
    (kp, table), (vp, _) = paged(k, 2), paged(v, 2)
    scales = abs(normal(len(kp), HK)), abs(normal(len(vp), HK, seed=1))
    *pages, lengths = gather_kv(
        kp, vp, page_table=table, seqlens_k=[7, 4], max_seqlen_k=8, k_scale=scales[0],
        v_scale=scales[1],
    )  # fmt: skip
    assert pages[0].shape == (B, HK, 8, D)
    o = attention_fwd(q, *pages, cu_seqlens_q=[0, 4, 5], seqlens_k=lengths, mask="bottom_right")
    for b, rows, n in ((0, slice(0, 4), 7), (1, slice(4, 5), 4)):
        each = [np.repeat(s[table[b]].T, 2, 1)[:, :n, None] for s in scales]
        alone = (q[None, :, rows], (k[b, :, :n] * each[0])[None], (v[b, :, :n] * each[1])[None])
        want = attention_fwd(*alone, mask="bottom_right")
        np.testing.assert_allclose(o[:, rows], want[0], atol=1e-13)


@pytest.mark.parametrize("mask", ["no", "top_left"])
@pytest.mark.parametrize("rope", [None, "interleaved", "half_rotated"])
def test_new_rows_in_a_cache(rope: str | None, mask: str) -> None:
    q, k, v = tensors()
    new_k, new_v = normal(B, HK, 2, D, seed=3), normal(B, HK, 2, DV, seed=4)
    angles = normal(SK + SQ, 3, seed=5)
    used = [1, 5]

    def turned(x: Any, places: list[int]) -> Any:
        cos, sin = np.cos(angles[places]), np.sin(angles[places])
        return x if rope is None else apply_rope(x, cos, sin, rope=rope)

    k2, v2, q2 = attention_appendkv(
        k, v, new_k, new_v, seqlens_k=used, q=q, rope=rope, rotary_cos=np.cos(angles),
        rotary_sin=np.sin(angles), mask=mask, cache_batch_idx=[1, 0],
    )  # fmt: skip
    for b, at in enumerate((1, 0)):
        places = [used[b], used[b] + 1]
        np.testing.assert_array_equal(k2[at][:, places], turned(new_k[b], places))
        np.testing.assert_array_equal(v2[at][:, places], new_v[b])
        others = [row for row in range(SK) if row not in places]
        np.testing.assert_array_equal(k2[at][:, others], k[at][:, others])
        np.testing.assert_array_equal(v2[at][:, others], v[at][:, others])
        of_q = [used[b] + (0 if mask == "no" else row) for row in range(SQ)]
        np.testing.assert_array_equal(q2[b], turned(q[b], of_q))


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_new_rows_in_pages(layout: str) -> None:
    _, k, v = tensors()
    (kp, table), (vp, _) = paged(k, 4), paged(v, 4)
    new = [normal(B, HK, 2, D, seed=3), normal(B, HK, 2, DV, seed=4)]
    used = [3, 5]
    given = [kp, vp, *new]
    if layout == "bshd":
        given = [x.swapaxes(1, 2) for x in given]
    pages = attention_appendkv(*given, seqlens_k=used, page_table=table, layout=layout)
    how: dict[str, Any] = {"page_table": table, "seqlens_k": [5, 7], "layout": layout}
    *found, _ = gather_kv(*pages, **how)
    if layout == "bshd":
        found = [x.swapaxes(1, 2) for x in found]
    wanted = attention_appendkv(k, v, *new, seqlens_k=used)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x[0, :, :5], y[0, :, :5])
        np.testing.assert_array_equal(x[1], y[1])
    assert np.array_equal(given[0], kp.swapaxes(1, 2) if layout == "bshd" else kp, equal_nan=True)


def test_new_rows_are_columns_of_v() -> None:
    _, k, v = tensors()
    new = [normal(B, HK, 2, D, seed=3), normal(B, HK, 2, DV, seed=4)]
    wanted = attention_appendkv(k, v, *new, seqlens_k=[1, 5])[1]
    turned = [x.swapaxes(1, 2) for x in (k, *new)]
    found = attention_appendkv(
        turned[0], v.swapaxes(2, 3), *turned[1:], seqlens_k=[1, 5], vlayout="c", layout="bshd"
    )[1]
    np.testing.assert_array_equal(found, wanted.swapaxes(2, 3))
    with pytest.raises(ckdisp.InvalidArgument, match="vlayout 'c' has no pages"):
        attention_appendkv(k, v, *new, seqlens_k=[1, 5], vlayout="c", page_table=[[0], [1]])


BAD_FORWARD: list[tuple[Mapping[str, Any], str]] = [
    ({"seqlens_k": [1]}, "seqlens_k has shape (1,); pass (2,), rows of k in use"),
    ({"seqlens_k": [1, 8]}, "seqlens_k[1] is 8; pass rows of k in use, from 0 to 7"),
    ({"cache_batch_idx": [0, 2]}, "cache_batch_idx[1] is 2; pass batches of k and v, from 0 to 1"),
    ({"q_scale": np.nan}, "q_scale holds a number that is not finite"),
    ({"k_scale": np.ones((2, 2))}, "pass one number, or (2, 2, 1), one for each batch, head"),
    ({"vlayout": "x"}, "unknown vlayout 'x'"),
    ({"window": 3}, "window is 3; pass (left, right)"),
    ({"vlayout": "c"}, "batches, heads and rows must agree"),
]


@pytest.mark.parametrize(("how", "words"), BAD_FORWARD, ids=lambda value: str(value)[:40])
def test_bad_lengths_and_scales(how: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ckdisp.InvalidArgument) as caught:
        attention_fwd(*tensors(), **how)
    assert words in str(caught.value)


def test_bad_lengths_of_packed_sequences() -> None:
    q, k, v = normal(H, 5, D), normal(HK, 9, D), normal(HK, 9, DV)
    how: dict[str, Any] = {"cu_seqlens_q": [0, 2, 5], "cu_seqlens_k": [0, 2, 9]}
    with pytest.raises(ckdisp.InvalidArgument, match=r"seqlens_k\[0\] is 3, more than the 2 rows"):
        attention_fwd(q, k, v, seqlens_k=[3, 3], **how)
    with pytest.raises(ckdisp.InvalidArgument, match="cache_batch_idx chooses a batch of k"):
        attention_fwd(q, k, v, cache_batch_idx=[0, 0], **how)


TABLE = np.array([[0, 1], [2, 3]])
BAD_PAGES: list[tuple[Mapping[str, Any], str]] = [
    ({"page_table": TABLE}, "seqlens_k is missing"),
    ({"page_table": TABLE, "seqlens_k": [9, 1]}, "seqlens_k[0] is 9; pass keys of a sequence"),
    ({"page_table": TABLE + 2, "seqlens_k": [8, 8]}, "sequence 1 has page 5 in page_table, and"),
    ({"page_table": TABLE[0], "seqlens_k": [8]}, "page_table has shape (2,); vllm has (batch,"),
    ({"page_table": TABLE, "seqlens_k": [8, 8], "kv_lookup": "list"}, "unknown kv_lookup 'list'"),
    ({"page_table": TABLE, "kv_lookup": "sglang"}, "page_table has shape (2, 2); sglang has one"),
    ({"page_table": TABLE[0], "kv_lookup": "sglang"}, "needs page_indptr and last_page_len"),
    (
        {
            "page_table": TABLE[0],
            "kv_lookup": "sglang",
            "page_indptr": [0, 3],
            "last_page_len": [1],
        },
        "page_indptr is [0, 3]; pass batch + 1 first places",
    ),
    (
        {
            "page_table": TABLE[0],
            "kv_lookup": "sglang",
            "page_indptr": [0, 1],
            "last_page_len": [0],
        },
        "last_page_len[0] is 0, and that sequence has pages",
    ),
    ({"page_table": TABLE, "seqlens_k": [8, 8], "max_seqlen_k": 7}, "a sequence has 8 keys"),
    ({"page_table": TABLE, "seqlens_k": [8, 8], "k_scale": np.ones(3)}, "one for each page and"),
]


@pytest.mark.parametrize(("how", "words"), BAD_PAGES, ids=lambda value: str(value)[:60])
def test_bad_pages(how: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ckdisp.InvalidArgument) as caught:
        gather_kv(np.zeros((5, HK, 4, D)), np.zeros((5, HK, 4, DV)), **how)
    assert words in str(caught.value)


def test_pages_that_disagree() -> None:
    how: dict[str, Any] = {"page_table": TABLE, "seqlens_k": [8, 8]}
    with pytest.raises(ckdisp.InvalidArgument, match="both in pages of vectors, or none"):
        gather_kv(np.zeros((5, HK, 2, 4, 4)), np.zeros((5, HK, 4, DV)), **how)
    with pytest.raises(
        ckdisp.InvalidArgument, match="k has 5 pages of 2 heads and 4 rows, and v 6"
    ):
        gather_kv(np.zeros((5, HK, 4, D)), np.zeros((6, HK, 4, DV)), **how)


BAD_APPEND: list[tuple[Mapping[str, Any], str]] = [
    ({"seqlens_k": [1, 6]}, "seqlens_k[1] is 6; pass rows in use before, from 0 to 5"),
    ({"seqlens_k": [1, 1], "rope": "interleaved"}, "needs rotary_cos and rotary_sin"),
    ({"seqlens_k": [1, 1], "rope": "full", "rotary_cos": 1, "rotary_sin": 1}, "unknown rope"),
    (
        {"seqlens_k": [1, 5], "rope": "interleaved", "rotary_cos": np.ones((6, 2)),
         "rotary_sin": np.ones((6, 2))},
        "rotary_cos has 6 places, and there is a row at 6",
    ),
    (
        {"seqlens_k": [1, 1], "rope": "half_rotated", "rotary_cos": np.ones((7, 5)),
         "rotary_sin": np.ones((7, 5))},
        "cos has 5 pairs, more than rows of 8 numbers have",
    ),
    ({"seqlens_k": [1, 1], "q": np.zeros((B, H, 1, D + 1))}, "pass a batch of 2 and rows of 8"),
    ({"seqlens_k": [1, 1], "cache_batch_idx": [0, 5]}, "cache_batch_idx[1] is 5"),
    ({"seqlens_k": [1, 1], "mask": "foo"}, "unknown mask 'foo'"),
    ({"seqlens_k": [1.5, 1]}, "seqlens_k holds float64; pass integers"),
    (
        {"seqlens_k": [1, 1], "rope": "half_rotated", "rotary_cos": np.ones((7, 4)),
         "rotary_sin": np.ones((6, 4))},
        "rotary_cos has shape (7, 4) and rotary_sin (6, 4)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("how", "words"), BAD_APPEND, ids=lambda value: str(value)[:60])
def test_bad_new_rows(how: Mapping[str, Any], words: str) -> None:
    _, k, v = tensors()
    with pytest.raises(ckdisp.InvalidArgument) as caught:
        attention_appendkv(k, v, k[:, :, :2], v[:, :, :2], **how)
    assert words in str(caught.value)


def test_new_rows_of_another_shape() -> None:
    _, k, v = tensors()
    with pytest.raises(ckdisp.InvalidArgument, match="k has 2 heads of 8 numbers and k_new 1 of 8"):
        attention_appendkv(k, v, k[:, :1], v, seqlens_k=[0, 0])
    with pytest.raises(ckdisp.InvalidArgument, match="different batches or rows"):
        attention_appendkv(k, v, k[:, :, :1], v[:, :, :2], seqlens_k=[0, 0])
    with pytest.raises(ckdisp.InvalidArgument, match="k has a batch of 2 and k_new of 1"):
        attention_appendkv(k, v, k[:1, :, :1], v[:1, :, :1], seqlens_k=[0])


def test_bad_parts() -> None:
    with pytest.raises(ckdisp.InvalidArgument, match="num_splits is 0; pass an integer, 1 or more"):
        attention_splitkv(*tensors(), num_splits=0)
    with pytest.raises(ckdisp.InvalidArgument, match=r"num_splits is 2\.5; pass an integer"):
        attention_splitkv(*tensors(), num_splits=2.5)
    o, lse = attention_splitkv(*tensors(), num_splits=2)
    with pytest.raises(ckdisp.InvalidArgument, match="pass what attention_splitkv returns"):
        attention_combine(o, lse, layout="bshd")
    with pytest.raises(ckdisp.InvalidArgument, match="no parts to combine"):
        attention_combine(o[:0], lse[:0])
