"""Laws of attention, on random features and lengths: the references against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fmha_random import Call, Pages, calls, turned
from hypothesis import given, settings
from hypothesis import strategies as st

from ckdisp.reference import (
    attention_bwd,
    attention_combine,
    attention_fwd,
    attention_splitkv,
    gather_kv,
)

EXACT = {"rtol": 1e-9, "atol": 1e-9}


def close(found: Any, wanted: Any) -> None:
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, **EXACT)


def visible(call: Call, rows: int, keys: int) -> Any:
    """What a query sees, key by key, by the words of the documentation."""
    mask, sink = call.how.get("mask", "no"), call.how.get("sink", 0)
    left, right = call.how.get("window", (-1, -1 if mask == "no" else 0))
    seen = np.zeros((rows, keys), bool)
    for i in range(rows):
        own = i if mask == "top_left" else i + keys - rows
        for j in range(keys):
            ahead = left == -1 or j >= own - left
            behind = right == -1 or j <= own + right
            seen[i, j] = j < sink or (ahead and behind)
    return seen


@settings(deadline=None, max_examples=50)
@given(calls(packed=False, dropout=False))
def test_a_mask_is_a_bias_of_minus_infinity_in_pytorch(call):
    torch = pytest.importorskip("torch", reason="PyTorch is what it is compared with")
    how = dict(call.how)
    if how.pop("logits_soft_cap", None):
        return  # PyTorch has none
    (batch, heads, rows, d), keys = call.q.shape, call.k.shape[2]
    bias = np.broadcast_to(np.asarray(how.get("bias", 0.0), float), (batch, heads, rows, keys))
    if "alibi_slopes" in how:
        slopes = np.broadcast_to(how["alibi_slopes"], (batch, heads)).astype(float)
        i, j = np.indices((rows, keys))
        bias = -slopes[..., None, None] * abs(i + keys - rows - j)
    seen = visible(call, rows, keys)
    inputs = [torch.tensor(x.astype(float), requires_grad=True) for x in call.inputs]
    wanted = torch.nn.functional.scaled_dot_product_attention(
        *inputs,
        attn_mask=torch.tensor(np.where(seen, bias, -np.inf)),
        scale=how.get("scale", d**-0.5),
        enable_gqa=True,
    )
    some = seen.any(1)  # PyTorch has no result for a query that sees nothing
    o, lse = attention_fwd(*call.inputs, return_lse=True, **how)
    np.testing.assert_allclose(o[:, :, some], wanted.detach().numpy()[:, :, some], **EXACT)
    assert np.all(o[:, :, ~some] == 0)
    assert np.all(np.isneginf(lse[:, :, ~some]))
    assert np.all(np.isfinite(lse[:, :, some]))
    do = call.rng.standard_normal(o.shape)
    if some.all():
        wanted.backward(torch.tensor(do))
        for x, tensor in zip(attention_bwd(do, *call.inputs, **how), inputs, strict=True):
            np.testing.assert_allclose(x, tensor.grad.numpy(), rtol=1e-8, atol=1e-8)


@settings(deadline=None, max_examples=50)
@given(calls(dropout=False), st.integers(1, 9))
def test_parts_add_up_to_the_whole(call, splits):
    parts = attention_splitkv(*call.inputs, num_splits=splits, **call.how)
    close(attention_combine(*parts, return_lse=True), call.reference(return_lse=True))


@settings(deadline=None, max_examples=50)
@given(calls(cache=True), st.sampled_from([1, 4, 16]), st.booleans())
def test_pages_are_the_cache_in_them(call, size, listed):
    pages = Pages.of(call, size)
    if listed:
        pages.listed()
    lookup = "sglang" if listed else "vllm"
    most = call.k.shape[2]
    k, v, used = gather_kv(pages.k, pages.v, kv_lookup=lookup, max_seqlen_k=most, **pages.how)
    np.testing.assert_array_equal(used, call.how["seqlens_k"])
    close(attention_fwd(call.q, k, v, return_lse=True, **call.how), call.reference(return_lse=True))


@settings(deadline=None, max_examples=50)
@given(calls(packed=True, dropout=False))
def test_sequences_do_not_know_each_other(call):
    how = dict(call.how)
    rows, keys = how.pop("cu_seqlens_q"), how.pop("cu_seqlens_k")
    o, lse = call.reference(return_lse=True)
    do = call.rng.standard_normal(o.shape)
    has_bias = "bias" in how
    gradients = attention_bwd(do, *call.inputs, return_dbias=has_bias, **call.how)
    slopes, bias = how.get("alibi_slopes"), how.get("bias")
    for b in range(len(rows) - 1):
        i, j = slice(rows[b], rows[b + 1]), slice(keys[b], keys[b + 1])
        if slopes is not None and slopes.ndim == 2:
            how["alibi_slopes"] = slopes[b]
        count = keys[b + 1] - keys[b]
        if has_bias:
            full = np.broadcast_to(bias, (call.q.shape[0], rows[-1], bias.shape[-1]))
            how["bias"] = full[:, i, :count]
        alone = [x[None] for x in (call.q[:, i], call.k[:, j], call.v[:, j])]
        close([o[:, i], lse[:, i]], [x[0] for x in attention_fwd(*alone, return_lse=True, **how)])
        found = [gradients[0][:, i], gradients[1][:, j], gradients[2][:, j]]
        if has_bias:
            found.append(gradients[3][:, i, :count])
            assert np.all(gradients[3][:, i, count:] == 0)
        wanted = attention_bwd(do[None, :, i], *alone, return_dbias=has_bias, **how)
        close(found, [x[0] for x in wanted])


@settings(deadline=None, max_examples=50)
@given(calls(packed=False, dropout=False), st.randoms(use_true_random=False))
def test_batches_may_be_in_any_order(call, random):
    order = list(range(len(call.q)))
    random.shuffle(order)
    how = dict(call.how)
    for name, rank in (("bias", 4), ("alibi_slopes", 2)):
        if np.ndim(how.get(name)) == rank and len(how[name]) == len(order):
            how[name] = how[name][order]
    found = attention_fwd(*(x[order] for x in call.inputs), return_lse=True, **how)
    close(found, [x[order] for x in call.reference(return_lse=True)])


@settings(deadline=None, max_examples=50)
@given(calls())
def test_heads_of_a_group_share_their_keys(call):
    """As many heads of k as of q give the same; the gradients of the copies are summed."""
    axis = call.k.ndim - 3
    group = call.q.shape[axis] // call.k.shape[axis]
    copies = [np.repeat(x, group, axis) for x in (call.k, call.v)]
    o, lse = call.reference(return_lse=True)
    close([o, lse], attention_fwd(call.q, *copies, return_lse=True, **call.how))
    do = call.rng.standard_normal(o.shape)
    dq, dk, dv = attention_bwd(do, *call.inputs, **call.how)
    wide = attention_bwd(do, call.q, *copies, **call.how)
    shared = call.k.shape[axis]
    summed = [
        x.reshape(*x.shape[:axis], shared, group, *x.shape[axis + 1 :]).sum(axis + 1)
        for x in wide[1:]
    ]
    close([dq, dk, dv], [wide[0], *summed])


@settings(deadline=None, max_examples=50)
@given(calls())
def test_layouts_hold_the_same_numbers(call):
    given = [turned(x, "bshd") for x in call.inputs]
    o, lse = attention_fwd(*given, layout="bshd", return_lse=True, **call.how)
    close([turned(o, "bshd"), lse], call.reference(return_lse=True))
    do = call.rng.standard_normal(o.shape)
    found = attention_bwd(do, *given, layout="bshd", **call.how)
    wanted = attention_bwd(turned(do, "bshd"), *call.inputs, **call.how)
    close([turned(x, "bshd") for x in found], wanted)


@settings(deadline=None, max_examples=50)
@given(calls(scored=False), st.floats(-50, 50))
def test_a_constant_on_all_scores_moves_only_the_lse(call, constant):
    # A last number of 1 in each key, times the constant in each query.
    scale = call.how.get("scale", call.q.shape[-1] ** -0.5)
    if scale == 0:
        return
    q, k = (np.concatenate([x, np.ones((*x.shape[:-1], 1))], -1) for x in call.inputs[:2])
    q[..., -1] = constant / scale
    o, lse = attention_fwd(q, k, call.v, return_lse=True, **{**call.how, "scale": scale})
    want_o, want_lse = call.reference(return_lse=True)
    np.testing.assert_allclose(o, want_o, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(lse, want_lse + constant, rtol=1e-7, atol=1e-7)


@settings(deadline=None, max_examples=50)
@given(calls(), st.floats(0.25, 4))
def test_scales_fold_into_each_other(call, factor):
    how = {**call.how, "scale": call.how.get("scale", call.q.shape[-1] ** -0.5)}
    folded = {**how, "scale": how["scale"] / factor, "q_scale": factor * 2, "k_scale": 0.5}
    o, lse = attention_fwd(*call.inputs, return_lse=True, **how)
    found = attention_fwd(*call.inputs, v_scale=3.0, return_lse=True, **folded)
    np.testing.assert_allclose(found[0], 3 * o, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found[1], lse, rtol=1e-6, atol=1e-6)


@settings(deadline=None, max_examples=50)
@given(calls())
def test_gradients_are_slopes(call):
    """<gradient, direction> is how fast <do, o> grows along a direction."""
    call.q = call.q / max(1.0, np.sqrt(call.size))
    do = call.rng.standard_normal((*call.q.shape[:-1], call.v.shape[-1]))
    inputs = [x.astype(float) for x in call.inputs]
    has_bias = "bias" in call.how
    found = attention_bwd(do, *inputs, return_dbias=has_bias, **call.how)
    ahead = [call.rng.standard_normal(x.shape) for x in found]
    step, sides = 1e-5, []
    for sign in (1, -1):
        moved = [x + sign * step * d for x, d in zip(inputs, ahead, strict=False)]
        how = dict(call.how)
        if has_bias:
            how["bias"] = how["bias"] + sign * step * ahead[3]
        sides.append(np.vdot(do, attention_fwd(*moved, **how)))
    slope = sum(np.vdot(x, d) for x, d in zip(found, ahead, strict=True))
    size = 1 + sum(np.linalg.norm(x) for x in found)
    assert slope == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=1e-5 * size)
