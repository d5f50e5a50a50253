"""Attention from Python through every family: values, layouts, lengths, plans, results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_kernels import fmha_runs

import ckdisp
from ckdisp.codegen.errors import InvalidArgument, UnsupportedProblem
from ckdisp.reference import apply_rope, attention_bwd, attention_fwd

pytestmark = pytest.mark.xdist_group("naive")

B, H, HK, SQ, SK, D, DV = 2, 4, 2, 5, 7, 8, 6
SCALE = 1 / np.sqrt(D)


@pytest.fixture
def disp(naive_fmha):
    return ckdisp.Dispatcher(ckdisp.Registry.load(naive_fmha))


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def tensors(sq=SQ, sk=SK):
    return normal(B, H, sq, D), normal(B, HK, sk, D, seed=1), normal(B, HK, sk, DV, seed=2)


def expected(q, k, v, **how):
    return attention_fwd(q, k, v, return_lse=True, **how)


def close(a, b, tolerance=2e-6):
    np.testing.assert_allclose(np.asarray(a, np.float64), b, rtol=tolerance, atol=tolerance)


def int32(*values):
    return np.array(values, np.int32)


FEATURES = {
    "plain": {},
    "scale": {"scale": 0.3},
    "top left": {"mask": "top_left"},
    "bottom right": {"mask": "bottom_right"},
    "window": {"window": (1, 2)},
    "window at the top": {"window": (0, 1), "mask": "top_left"},
    "one side": {"window": (1, -1)},
    "sink": {"window": (0, 0), "sink": 2},
    "soft cap": {"logits_soft_cap": 0.5},
}


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("call", ["fmha_fwd", "fmha_splitkv"])
def test_features(disp, call, name):
    how = FEATURES[name]
    q, k, v = tensors()
    o, lse = getattr(disp, call)(q, k, v, return_lse=True, **how)
    want, want_lse = expected(q, k, v, **how)
    close(o, want)
    close(lse, want_lse)
    assert o.dtype == lse.dtype == np.float32


def test_more_queries_than_keys_leaves_rows_without_keys(disp):
    q, k, v = tensors(sq=9, sk=3)
    o, lse = disp.fmha_fwd(q, k, v, mask="bottom_right", return_lse=True)
    assert (o[:, :, :6] == 0).all()
    assert np.isneginf(lse[:, :, :6]).all()
    close(o, expected(q, k, v, mask="bottom_right")[0])


@pytest.mark.parametrize("shape", [(SQ, SK), (1, SK), (H, 1, SK), (H, SQ, SK), (B, 1, SQ, SK)])
def test_a_bias_is_repeated(disp, shape):
    q, k, v = tensors()
    bias = normal(*shape, seed=3)
    close(disp.fmha_fwd(q, k, v, bias=bias), expected(q, k, v, bias=bias)[0])


@pytest.mark.parametrize("shape", [(H,), (B, H)])
def test_alibi(disp, shape):
    q, k, v = tensors()
    slopes = np.abs(normal(*shape, seed=4))
    o = disp.fmha_fwd(q, k, v, alibi_slopes=slopes)
    close(o, expected(q, k, v, alibi_slopes=slopes)[0])


def test_layouts_are_the_same_numbers(disp):
    q, k, v = tensors()
    o, lse = disp.fmha_fwd(q, k, v, return_lse=True)
    turned = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v)]
    p, other = disp.fmha_fwd(*turned, return_lse=True, layout="bshd")
    assert p.shape == (B, SQ, H, DV)
    assert p.flags.c_contiguous
    np.testing.assert_array_equal(p.swapaxes(1, 2), o)
    np.testing.assert_array_equal(lse, other)
    # The same memory, seen in the other order, is read where it is.
    seen = [x.swapaxes(1, 2) for x in turned]
    np.testing.assert_array_equal(disp.fmha_fwd(*seen), o)
    column = np.ascontiguousarray(v.swapaxes(2, 3))
    np.testing.assert_array_equal(disp.fmha_fwd(q, k, column, vlayout="c"), o)


def test_interleaved_tensors_are_read_and_written_where_they_are(disp):
    packed = normal(B, SQ, 3, H, D)
    q, k, v = (packed[:, :, i] for i in range(3))
    alone = [np.ascontiguousarray(x) for x in (q, k, v)]
    o, lse = disp.fmha_fwd(q, k, v, layout="bshd", return_lse=True)
    np.testing.assert_array_equal(o, disp.fmha_fwd(*alone, layout="bshd"))
    gradients = np.zeros_like(packed)
    out = tuple(gradients[:, :, i] for i in range(3))
    do = normal(*o.shape, seed=5)
    found = disp.fmha_bwd(do, q, k, v, o, lse, layout="bshd", out=out)
    assert all(a is b for a, b in zip(found, out, strict=True))
    for a, b in zip(disp.fmha_bwd(do, *alone, o, lse, layout="bshd"), out, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_sequences_of_many_lengths(disp, layout):
    starts_q, starts_k = int32(0, 3, 3, 8), int32(0, 5, 9, 10)
    q, k, v = normal(H, 8, D), normal(HK, 10, D, seed=1), normal(HK, 10, DV, seed=2)
    order = (0, 1, 2) if layout == "bhsd" else (1, 0, 2)
    given = [np.ascontiguousarray(x.transpose(order)) for x in (q, k, v)]
    how = {"layout": layout, "cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k}
    o, lse = disp.fmha_fwd(*given, mask="bottom_right", return_lse=True, **how)
    do = normal(*o.shape, seed=6)
    gradients = disp.fmha_bwd(do, *given, o, lse, mask="bottom_right", **how)
    o, do = o.transpose(order), do.transpose(order)
    dq, dk, dv = (x.transpose(order) for x in gradients)
    assert lse.shape == (H, 8)
    for b in range(3):
        rows, keys = (slice(s[b], s[b + 1]) for s in (starts_q, starts_k))
        part = [x[None] for x in (q[:, rows], k[:, keys], v[:, keys])]
        want, want_lse = expected(*part, mask="bottom_right")
        close(o[:, rows], want[0])
        close(lse[:, rows], want_lse[0])
        found = attention_bwd(do[None, :, rows], *part, mask="bottom_right")
        close(dq[:, rows], found[0][0], 1e-5)
        close(dk[:, keys], found[1][0], 1e-5)
        close(dv[:, keys], found[2][0], 1e-5)


def test_lengths_and_batches_of_a_cache(disp):
    q, k, v = tensors()
    o = disp.fmha_fwd(q, k, v, seqlens_k=int32(3, 7), cache_batch_idx=int32(1, 1))
    close(o[:1], expected(q[:1], k[1:, :, :3], v[1:, :, :3])[0])
    close(o[1:], expected(q[1:], k[1:], v[1:])[0])


def test_a_cache_of_more_batches(disp):
    q, _, _ = tensors()
    k, v = normal(5, HK, SK, D), normal(5, HK, SK, DV)
    o = disp.fmha_fwd(q, k, v, cache_batch_idx=int32(4, 0))
    close(o, expected(q, k[[4, 0]], v[[4, 0]])[0])
    new = normal(B, HK, 1, D, seed=7), normal(B, HK, 1, DV, seed=8)
    before = k.copy()
    disp.fmha_appendkv(k, v, *new, seqlens_k=int32(2, 3), cache_batch_idx=int32(4, 0))
    np.testing.assert_array_equal(k[[4, 0], :, [2, 3]], new[0][:, :, 0])
    assert (k != before).any((1, 3)).sum() == 2


def test_dropout_is_reproducible_and_stored(disp):
    q, k, v = tensors()
    how = {"dropout_p": 0.4, "seed": 2**64 - 1, "offset": 3}
    o, lse, randval = disp.fmha_fwd(q, k, v, return_lse=True, return_randval=True, **how)
    assert randval.shape == (B, H, SQ, SK)
    assert randval.dtype == np.uint8
    kept = randval <= np.floor(255 * 0.6)
    assert 0 < kept.mean() < 1
    for b in range(B):
        for h in range(H):
            s = SCALE * q[b, h].astype(float) @ k[b, h // 2].astype(float).T
            p = np.exp(s - lse[b, h][:, None]) * kept[b, h] / 0.6
            close(o[b, h], p @ v[b, h // 2], 1e-5)
    np.testing.assert_array_equal(o, disp.fmha_fwd(q, k, v, **how))
    assert (o != disp.fmha_fwd(q, k, v, **{**how, "seed": 7})).any()


def test_random_bytes_of_keys_that_are_not_in_use_are_0(disp):
    q, k, v = tensors()
    before = np.full((B, H, SQ, SK), 90, np.uint8)
    del before  # NumPy gives its memory to the next array of the size
    how = {"dropout_p": 0.4, "return_randval": True, "seqlens_k": int32(3, 7)}
    randval = disp.fmha_fwd(q, k, v, **how)[1]
    assert (randval[0, :, :, 3:] == 0).all()
    assert (randval[1] != 0).any()


@pytest.mark.parametrize("how", [{}, {"mask": "top_left"}, {"bias": normal(SQ, SK, seed=3)}])
def test_gradients(disp, naive_fmha, how):
    q, k, v = tensors()
    o, lse = disp.fmha_fwd(q, k, v, return_lse=True, **how)
    do = normal(*o.shape, seed=5)
    before = fmha_runs(naive_fmha)
    has_bias = "bias" in how
    found = disp.fmha_bwd(do, q, k, v, o, lse, return_dbias=has_bias, **how)
    after = fmha_runs(naive_fmha)
    ran = [family for family in before if family != "parts" and after[family] > before[family]]
    assert ran == ["bwd_dot_do_o", "bwd_dq_dk_dv"]  # dq is fp32 already
    assert len(found) == (4 if has_bias else 3)
    want = attention_bwd(do, q, k, v, return_dbias=has_bias, **how)
    for gradient, wanted in zip(found, want, strict=True):
        close(gradient, wanted, 1e-5)


def test_gradients_of_half_precision_are_converted(disp, naive_fmha):
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in tensors())
    o, lse = disp.fmha_fwd(q, k, v, return_lse=True)
    assert o.dtype == ml_dtypes.bfloat16
    assert lse.dtype == np.float32
    do = normal(*o.shape, seed=5).astype(ml_dtypes.bfloat16)
    before = fmha_runs(naive_fmha)["bwd_convert_dq"]
    found = disp.fmha_bwd(do, q, k, v, o, lse)
    assert fmha_runs(naive_fmha)["bwd_convert_dq"] == before + 1
    close(found[0], attention_bwd(do, q, k, v)[0], 3e-2)


@pytest.mark.parametrize("splits", [1, 2, 3, 7, 12])
def test_parts_add_up(disp, naive_fmha, splits):
    q, k, v = tensors()
    o, lse = disp.fmha_splitkv(
        q, k, v, num_splits=splits, mask="bottom_right", return_lse=True, seqlens_k=int32(7, 4)
    )
    assert fmha_runs(naive_fmha)["parts"] == splits
    for b, length in enumerate((7, 4)):
        part = [x[b : b + 1] for x in (q, k[:, :, :length], v[:, :, :length])]
        want, want_lse = expected(*part, mask="bottom_right")
        close(o[b], want[0])
        close(lse[b], want_lse[0])


def test_more_parts_than_a_kernel_can_sum(disp):
    words = r"\[splits\] sums at most 128 parts, not 200"
    with pytest.raises(UnsupportedProblem, match=words):
        disp.fmha_splitkv(*tensors(), num_splits=200)


def paged(x, size, layout):
    """Pages in a random order that hold ``x`` (batch, heads, keys, size), and their table."""
    b, heads, keys, d = x.shape
    count = -(-keys // size)
    order = np.random.default_rng(9).permutation(b * count + 1)[: b * count].reshape(b, count)
    pages = np.full((b * count + 1, heads, size, d), np.nan, x.dtype)
    whole = np.concatenate([x, np.full((b, heads, count * size - keys, d), np.nan, x.dtype)], 2)
    for i in range(b):
        for j in range(count):
            pages[order[i, j]] = whole[i, :, j * size : (j + 1) * size]
    table = order.astype(np.int32)
    return (pages if layout == "bhsd" else np.ascontiguousarray(pages.swapaxes(1, 2))), table


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("call", ["fmha_pagedkv", "fmha_splitkv"])
def test_pages(disp, layout, call):
    q, k, v = tensors()
    (kp, table), (vp, _) = paged(k, 3, layout), paged(v, 3, layout)
    given = q if layout == "bhsd" else np.ascontiguousarray(q.swapaxes(1, 2))
    o = getattr(disp, call)(
        given, kp, vp, page_table=table, seqlens_k=int32(7, 7), layout=layout, mask="bottom_right"
    )
    want = expected(q, k, v, mask="bottom_right")[0]
    close(o if layout == "bhsd" else o.swapaxes(1, 2), want)


@pytest.mark.parametrize("lookup", ["vllm", "sglang"])
@pytest.mark.parametrize("vectors", [False, True])
def test_batch_prefill(disp, lookup, vectors):
    q, k, v = normal(H, 8, D), normal(B, HK, 8, D, seed=1), normal(B, HK, 8, 12, seed=2)
    (kp, table), (vp, _) = paged(k, 4, "bhsd"), paged(v, 4, "bhsd")
    if vectors:
        kp = kp.reshape(*kp.shape[:3], D // 4, 4).transpose(0, 1, 3, 2, 4).copy()
        vp = vp.reshape(*vp.shape[:2], 1, 4, 12).swapaxes(3, 4).copy()
    starts, lengths = int32(0, 3, 8), int32(7, 8)
    how = {"page_table": table, "seqlens_k": lengths}
    if lookup == "sglang":
        how = {
            "page_table": table.ravel(),
            "page_indptr": int32(0, 2, 4),
            "last_page_len": int32(3, 4),
            "max_seqlen_k": 8,
        }
    o = disp.fmha_batch_prefill(
        q, kp, vp, cu_seqlens_q=starts, kv_lookup=lookup, layout="bhsd", mask="bottom_right", **how
    )
    for b in range(B):
        rows = slice(starts[b], starts[b + 1])
        keys = slice(0, lengths[b])
        part = (q[None, :, rows], k[b : b + 1, :, keys], v[b : b + 1, :, keys])
        close(o[:, rows], expected(*part, mask="bottom_right")[0][0])


@pytest.mark.parametrize("rope", ["interleaved", "half_rotated"])
def test_appending_to_a_cache(disp, rope):
    k, v = normal(B, HK, 9, D), normal(B, HK, 9, DV, seed=1)
    q, new_k, new_v = normal(B, H, 2, D), normal(B, HK, 2, D, seed=2), normal(B, HK, 2, DV, seed=3)
    angles = np.outer(np.arange(9), [1.0, 0.3, 0.1])
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    cache_k, cache_v, used = k.copy(), v.copy(), int32(3, 7)
    rotated = disp.fmha_appendkv(
        cache_k, cache_v, new_k, new_v, seqlens_k=used, q=q, rope=rope, rotary_cos=cos,
        rotary_sin=sin, mask="bottom_right",
    )  # fmt: skip
    for b in range(B):
        places = slice(used[b], used[b] + 2)
        turn = (cos[places], sin[places])
        close(cache_k[b, :, places], apply_rope(new_k[b], *turn, rope=rope))
        close(cache_v[b, :, places], new_v[b])
        close(rotated[b], apply_rope(q[b], *turn, rope=rope))
        others = [i for i in range(9) if i not in range(used[b], used[b] + 2)]
        np.testing.assert_array_equal(cache_k[b, :, others], k[b, :, others])
    assert (q == normal(B, H, 2, D)).all()
    with pytest.raises(
        InvalidArgument, match="q takes 3 of the places behind them, past the 9 that have"
    ):
        disp.fmha_appendkv(
            cache_k, cache_v, new_k, new_v, seqlens_k=used, q=normal(B, H, 3, D), rope=rope,
            rotary_cos=cos, rotary_sin=sin, mask="bottom_right",
        )  # fmt: skip
    with pytest.raises(InvalidArgument, match=r"hold 8 at \[1\], with 2 new rows, more than the 9"):
        disp.fmha_appendkv(cache_k, cache_v, new_k, new_v, seqlens_k=used + 1)


def test_queries_without_a_mask_stand_at_one_place(disp):
    cache, none = normal(B, HK, 9, D), normal(B, HK, 0, D)
    q, angles = normal(B, H, 3, D), np.outer(np.arange(9), [1.0, 0.3, 0.1])
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    how = {"q": q, "rope": "interleaved", "rotary_cos": cos, "rotary_sin": sin}
    rotated = disp.fmha_appendkv(cache, cache.copy(), none, none, seqlens_k=int32(3, 8), **how)
    for b, place in enumerate((3, 8)):
        turn = (cos[[place] * 3], sin[[place] * 3])
        close(rotated[b], apply_rope(q[b], *turn, rope="interleaved"))
    words = r"hold 9 at \[1\], and q takes 1 of the places behind them, past the 9 that have a rot"
    with pytest.raises(InvalidArgument, match=words):
        disp.fmha_appendkv(cache, cache.copy(), none, none, seqlens_k=int32(3, 9), **how)
    how["q"] = q[:, :, :0]
    disp.fmha_appendkv(cache, cache.copy(), none, none, seqlens_k=int32(3, 9), **how)


def test_appending_to_pages(disp):
    k, v = normal(B, HK, 8, D), normal(B, HK, 8, DV, seed=1)
    (kp, table), (vp, _) = paged(k, 4, "bhsd"), paged(v, 4, "bhsd")
    new_k, new_v = normal(B, HK, 1, D, seed=2), normal(B, HK, 1, DV, seed=3)
    used = int32(5, 2)
    assert disp.fmha_appendkv(kp, vp, new_k, new_v, seqlens_k=used, page_table=table) is None
    for b in range(B):
        page, row = table[b, used[b] // 4], used[b] % 4
        np.testing.assert_array_equal(kp[page, :, row], new_k[b, :, 0])
        np.testing.assert_array_equal(vp[page, :, row], new_v[b, :, 0])


def test_a_result_given(disp):
    q, k, v = tensors()
    out = np.full((B, SQ, H, DV + 2), 3, np.float32)
    view = out[..., :DV].swapaxes(1, 2)
    assert disp.fmha_fwd(q, k, v, out=view) is view
    np.testing.assert_array_equal(view, disp.fmha_fwd(q, k, v))
    assert (out[..., DV:] == 3).all()


def test_nothing_to_do(disp):
    q, k, v = tensors()
    o, lse = disp.fmha_fwd(q, k[:, :, :0], v[:, :, :0], return_lse=True)
    assert (o == 0).all()
    assert np.isneginf(lse).all()
    assert disp.fmha_fwd(q[:, :, :0], k, v).shape == (B, H, 0, DV)
    assert disp.fmha_fwd(q[:0], k[:0], v[:0]).shape == (0, H, SQ, DV)


def test_a_prepared_call_runs_again(disp, naive_fmha):
    q, k, v = tensors()
    call = disp.prepare("fmha_splitkv", q, k, v, num_splits=2, return_lse=True)
    assert call.problem.family == "fmha.splitkv"
    assert [s.kernel.family for s in call.plan.stages] == ["fmha.splitkv", "fmha.splitkv_combine"]
    assert call.plan.stages[0].num_splits == 2
    assert "2 parts" in str(call.plan)
    assert "scratch memory" in str(call.plan)
    o, _ = call.run()
    close(o, expected(q, k, v)[0])
    q *= 2
    again, _ = call.run()
    assert again is o
    close(o, expected(q, k, v)[0])
    before = fmha_runs(naive_fmha)["splitkv"]
    seconds = call.time()
    assert len(seconds) == 2
    assert fmha_runs(naive_fmha)["splitkv"] == before + 1


def test_kernels_by_their_fields(disp):
    kernels = disp.registry.kernels(op="fmha", dtype="bf16", mask="any")
    assert len(kernels) == 9
    assert {k.field("tile") for k in kernels} == {"1x1"}
    assert kernels[0].op == "fmha"


def test_questions_about_a_problem(disp):
    p = ckdisp.FmhaProblem(
        "bwd", batch=2, heads=(4, 2), head_dim=64, lengths=128, dtype="bf16", mask="top_left"
    )
    assert disp.select(p).family == "fmha.bwd_dq_dk_dv"
    plan = disp.plan(p)
    assert [s.kernel.family.rpartition("_")[2] for s in plan.stages] == ["o", "dv", "dq"]
    rows = 2 * 4 * 128
    assert plan.workspace_bytes == 4 * rows + 4 * rows * 64
    told = disp.explain(p)
    assert [c.rank for c in told[:4]] == [0, 0, 0, -1]
    assert {c.reason for c in told[3:]} <= {"family", "dtype"}
    assert disp.select(p).key.hdim_q == 0
    assert ckdisp.parse_name(disp.select(p).key.name) == disp.select(p).key


@st.composite
def ragged(draw):
    lengths = draw(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), min_size=1, max_size=3)
    )
    side = st.integers(-1, 3)
    mask = draw(st.sampled_from(["top_left", "bottom_right"]))
    return lengths, mask, (draw(side), draw(side)), draw(st.integers(0, 2)), draw(st.booleans())


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ragged())
def test_windows_over_ragged_batches(disp, case):
    lengths, mask, window, sink, in_parts = case
    sink = 0 if window == (-1, -1) else sink  # everything is seen already
    starts_q, starts_k = (int32(0, *np.cumsum([x[i] for x in lengths])) for i in (0, 1))
    q = normal(H, starts_q[-1], D)
    k, v = normal(HK, starts_k[-1], D, seed=1), normal(HK, starts_k[-1], DV, seed=2)
    call = disp.fmha_splitkv if in_parts else disp.fmha_fwd
    how = {"mask": mask, "window": window, "sink": sink}
    how |= {"cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k}
    parts = {"num_splits": 2} if in_parts else {}
    o, lse = call(q, k, v, return_lse=True, **how, **parts)
    want, want_lse = expected(q, k, v, **how)
    close(o, want)
    close(lse, want_lse)


def test_a_callback_is_asked_about_each_stage(naive_fmha):
    asked = []

    def order(problem, kernels):
        asked.append((problem.family, problem.to_dict()["splits"], [k.family for k in kernels]))
        return kernels

    disp = ckdisp.Dispatcher(ckdisp.Registry.load(naive_fmha), strategy=order)
    for _ in range(2):
        disp.fmha_splitkv(*tensors(), num_splits=3)
    families = ["fmha.splitkv", "fmha.splitkv_combine"]
    assert asked == [(family, 3, [family]) for family in families]


def test_many_threads_at_once(disp):
    q, k, v = tensors()
    want = expected(q, k, v, mask="top_left")[0]
    with ThreadPoolExecutor(4) as pool:
        calls = [
            pool.submit(disp.fmha_splitkv, q, k, v, mask="top_left", num_splits=1 + i % 5)
            for i in range(40)
        ]
    for call in calls:
        close(call.result(), want)


def test_torch_tensors_come_back_as_torch_tensors(disp):
    torch = pytest.importorskip("torch")
    q, k, v = (torch.from_numpy(x) for x in tensors())
    o = disp.fmha_fwd(q, k, v, mask="top_left")
    assert isinstance(o, torch.Tensor)
    wide = [x.repeat_interleave(H // x.shape[1], 1) for x in (q, k, v)]
    want = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=True)
    torch.testing.assert_close(o, want, atol=1e-5, rtol=1e-5)
    randval = disp.fmha_fwd(q, k, v, dropout_p=0.5, return_randval=True)[1]
    assert randval.dtype == torch.uint8
    half = [x.to(torch.bfloat16) for x in (q, k, v)]
    assert disp.fmha_fwd(*half).dtype == torch.bfloat16
