"""``ckdisp.torch``: attention and its gradients, compared with PyTorch's own in float64."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_check import assert_close, attend, double, normal, results, tensors, torch

from ckdisp.reference import attention_fwd

pytestmark = pytest.mark.xdist_group("naive")


def check(ops: Any, *inputs: Any, tolerance: float = 1e-5, **how: Any) -> None:
    """SDPA and its gradients, as PyTorch gives them in float64."""
    found = results(ops.scaled_dot_product_attention, *inputs, **how)
    assert {t.dtype for t in found[:2]} == {inputs[0].dtype}
    assert_close(found, results(attend, *map(double, inputs), **how), tolerance)


SEEN = torch.arange(35).reshape(5, 7) % 3 > 0
SEEN[2] = False
MASKS = {
    "numbers": normal(2, 4, 5, 7),
    "rows": normal(5, 1),
    "keys": normal(7),
    "one": normal(1, 1, 1, 1),
    "of a head": normal(4, 1, 7),
    "of a batch": normal(2, 1, 5, 7),
    "hidden": normal(4, 5, 7).detach().masked_fill(~SEEN, -torch.inf).requires_grad_(),
    "truth": SEEN,
    "truth of keys": SEEN[:1],
    "columns": normal(7, 5).detach().t(),
    "without a gradient": normal(5, 7).detach(),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_sdpa(ops: Any, name: str) -> None:
    check(ops, *tensors(), MASKS[name])


def test_an_expanded_mask_gets_one_gradient(ops: Any) -> None:
    mask = normal(5, 1)
    inputs = tensors()
    o = ops.scaled_dot_product_attention(*inputs, mask.expand(2, 4, 5, 7))
    wide = [double(t) for t in (*inputs, mask)]
    want = attend(*wide[:3], wide[3].expand(2, 4, 5, 7))
    weights = normal(*o.shape).detach()
    found = torch.autograd.grad(o, (*inputs, mask), weights)
    assert_close(list(found), list(torch.autograd.grad(want, wide, weights.double())))


@pytest.mark.parametrize(
    "how", [{}, {"is_causal": True}, {"scale": 0.3}, {"scale": -0.2, "is_causal": True}]
)
def test_options_of_sdpa(ops: Any, how: dict[str, Any]) -> None:
    check(ops, *tensors(), **how)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_types(ops: Any, dtype: Any) -> None:
    inputs = [t.detach().to(dtype).requires_grad_() for t in tensors()]
    mask = normal(5, 7)  # of float32 in both cases
    check(ops, *inputs, mask, tolerance=1e-5 if dtype == torch.float32 else 4e-2)


def test_heads_that_serve_several(ops: Any) -> None:
    check(ops, *tensors(heads_k=2), normal(4, 1, 7), enable_gqa=True)
    check(ops, *tensors(heads_k=1), enable_gqa=True, is_causal=True)


def test_a_mask_without_rows(ops: Any) -> None:
    q, k = normal(2, 4, 0, 8), normal(2, 4, 7, 8)
    assert ops.scaled_dot_product_attention(q, k, k, normal(2, 1, 0, 7)).shape == q.shape


@pytest.mark.parametrize(
    ("q", "k", "mask"),
    [
        ((5, 8), (7, 8), (5, 7)),
        ((3, 5, 8), (3, 7, 8), (3, 1, 7)),
        ((3, 5, 8), (1, 7, 8), None),
        ((2, 1, 5, 8), (1, 4, 7, 8), (2, 1, 5, 7)),
        ((3, 2, 4, 5, 8), (2, 4, 7, 8), (3, 1, 4, 5, 7)),
        ((3, 2, 4, 5, 8), (3, 2, 4, 7, 8), (1, 2, 1, 1, 7)),
        ((0, 4, 5, 8), (0, 4, 7, 8), None),
        ((2, 4, 0, 8), (2, 4, 7, 8), None),
        ((2, 4, 5, 8), (2, 4, 0, 8), None),
    ],
)
def test_shapes_of_sdpa(ops: Any, q: Any, k: Any, mask: Any) -> None:
    check(ops, normal(*q), normal(*k, seed=1), normal(*k, seed=2), mask and normal(*mask))


@st.composite
def calls(draw: Any) -> tuple[list[Any], dict[str, Any]]:
    """Inputs of SDPA: dimensions that repeat, orders in memory, masks of every kind."""
    size = st.integers(1, 3)
    outer = draw(st.lists(size, max_size=3))
    heads, group, sq, sk = draw(size), draw(size), draw(size), draw(st.integers(1, 5))
    gqa = bool(outer) and draw(st.booleans())
    if outer:
        outer[-1] = heads * (group if gqa else 1)

    def shape(*wanted: int, repeats: bool = True) -> tuple[int, ...]:
        return tuple(1 if repeats and draw(st.integers(0, 3)) == 0 else n for n in wanted)

    def tensor(*sizes: int) -> Any:
        order = draw(st.permutations(range(len(sizes))))
        made = normal(*(sizes[i] for i in order), seed=draw(st.integers(0, 9)))
        return made.detach().permute(*map(order.index, range(len(sizes)))).requires_grad_()

    inner = [*outer[:-1], heads] if gqa else outer
    inputs = [
        tensor(*shape(*outer, repeats=not gqa), sq, 4),
        tensor(*shape(*inner, repeats=not gqa), sk, 4),
        tensor(*shape(*inner, repeats=not gqa), sk, 3),
    ]
    how: dict[str, Any] = {"enable_gqa": gqa, "scale": draw(st.sampled_from([None, 0.7]))}
    kind = draw(st.sampled_from(["no", "causal", "numbers", "bool"]))
    if kind in ("numbers", "bool"):
        full = torch.broadcast_shapes(*(t.shape[:-2] for t in inputs)) if not gqa else tuple(outer)
        mask = tensor(*shape(*full, sq, sk)[draw(st.integers(0, len(full))) :])
        inputs.append(mask if kind == "numbers" else mask.detach() > -0.5)
    how["is_causal"] = kind == "causal"
    return inputs, how


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(calls())
def test_what_sdpa_takes(ops: Any, call: tuple[list[Any], dict[str, Any]]) -> None:
    inputs, how = call

    def repeated(q: Any, k: Any, v: Any, *mask: Any, **how: Any) -> Any:
        """Repeats by hand: PyTorch's function takes no mask that is wider than q and k."""
        if not how["enable_gqa"]:
            outer = torch.broadcast_shapes(*(t.shape[:-2] for t in (q, k, v)))
            q, k, v = (t.expand(*outer, *t.shape[-2:]) for t in (q, k, v))
        return attend(q, k, v, *mask, **how)

    found = results(ops.scaled_dot_product_attention, *inputs, **how)
    assert_close(found, results(repeated, *map(double, inputs), **how))


def test_strides_of_any_kind(ops: Any) -> None:
    q, k, v = (normal(2, 8, 4, n) for n in (5, 7, 7))
    check(ops, *(t.permute(0, 2, 3, 1) for t in (q, k, v)))  # the last dimension is not dense
    o = ops.scaled_dot_product_attention(*tensors())
    assert o.is_contiguous()
    (gradient,) = torch.autograd.grad(o.sum(), tensors()[:1], allow_unused=True)
    assert gradient is None  # other tensors of the same numbers
    inputs = tensors()
    o = ops.scaled_dot_product_attention(*inputs)
    repeated = torch.autograd.grad(o.sum(), inputs, retain_graph=True)  # strides of 0
    assert_close(list(repeated), list(torch.autograd.grad(o, inputs, torch.ones_like(o))))


FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "top left": {"mask": "top_left"},
    "bottom right": {"mask": "bottom_right", "scale": 0.3},
    "window": {"window": (1, 2)},
    "sink": {"window": (0, 0), "mask": "top_left", "sink": 2},
    "soft cap": {"logits_soft_cap": 0.5},
    "slopes": {"alibi_slopes": torch.tensor([0.5, 0.25, 0.125, 0.0625])},
    "bias": {"bias": normal(4, 1, 7)},
}


def as_numpy(how: dict[str, Any]) -> dict[str, Any]:
    return {k: v.detach().numpy() if torch.is_tensor(v) else v for k, v in how.items()}


def gradcheck(function: Any, *inputs: Any) -> None:
    """Differences over 1/64 of what is computed in fp32: exact to 1e-4, and rounded to 1e-5."""
    with pytest.warns(UserWarning, match="not a double precision floating point"):
        assert torch.autograd.gradcheck(function, inputs, eps=2**-6, atol=4e-3, rtol=4e-3)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("name", FEATURES)
def test_features_of_the_kernels(ops: Any, name: str, layout: str) -> None:
    how = FEATURES[name]
    q, k, v = tensors(sq=3, sk=7, heads_k=2)
    given = [q, k, v] if layout == "bhsd" else [t.transpose(1, 2) for t in (q, k, v)]
    o, lse = ops.attention(*given, layout=layout, return_lse=True, **how)
    want, want_lse = attention_fwd(
        *(t.detach().numpy() for t in (q, k, v)), return_lse=True, **as_numpy(how)
    )
    assert_close([o if layout == "bhsd" else o.transpose(1, 2)], [torch.from_numpy(want)])
    assert_close([lse], [torch.from_numpy(want_lse)])
    if layout == "bshd" or name not in ("bottom right", "soft cap", "bias"):
        return  # the kernels behind are the same, and differences take their time
    small = [t.detach()[:1].requires_grad_() for t in (q, k, v)]
    extra = {n: t for n, t in how.items() if n == "bias"}
    others = {n: t for n, t in how.items() if n != "bias"}

    def function(q: Any, k: Any, v: Any, *bias: Any) -> Any:
        given = dict(zip(extra, bias, strict=True))
        return ops.attention(q, k, v, return_lse=True, **given, **others)

    gradcheck(function, *small, *extra.values())


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("both", [False, True])
def test_the_lse_has_a_gradient(ops: Any, layout: str, both: bool) -> None:
    inputs = [*tensors(), normal(4, 1, 7)]

    def ours(q: Any, k: Any, v: Any, bias: Any) -> Any:
        rows = [t if layout == "bhsd" else t.transpose(1, 2) for t in (q, k, v)]
        o, lse = ops.attention(*rows, bias=bias, layout=layout, return_lse=True)
        o = o if layout == "bhsd" else o.transpose(1, 2)
        return torch.cat([o * both, lse[..., None]], -1) if both else lse

    def theirs(q: Any, k: Any, v: Any, bias: Any) -> Any:
        scores = q @ k.mT * 8**-0.5 + bias
        lse = scores.logsumexp(-1)
        return (
            torch.cat([scores.softmax(-1) @ v, lse[..., None]], -1) if both else lse + 0 * v.sum()
        )

    assert_close(results(ours, *inputs), results(theirs, *map(double, inputs)))


def test_gradients_with_dropout(ops: Any) -> None:
    inputs = [t.detach()[:1, :2].requires_grad_() for t in tensors(sq=3)]

    def function(*inputs: Any) -> Any:
        torch.manual_seed(3)
        return ops.scaled_dot_product_attention(*inputs, dropout_p=0.4, is_causal=True)

    gradcheck(function, *inputs)


def test_dropout_follows_the_generator(ops: Any) -> None:
    inputs = tensors()
    torch.manual_seed(1)
    first = results(ops.scaled_dot_product_attention, *inputs, dropout_p=0.5)
    second = results(ops.scaled_dot_product_attention, *inputs, dropout_p=0.5)
    torch.manual_seed(1)
    again = results(ops.scaled_dot_product_attention, *inputs, dropout_p=0.5)
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], second[0])
    state = torch.get_rng_state()
    ops.scaled_dot_product_attention(*inputs)
    assert torch.equal(torch.get_rng_state(), state)  # nothing is drawn without dropout


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_sequences_of_many_lengths(ops: Any, layout: str) -> None:
    starts_q, starts_k = [0, 2, 2, 9], [0, 5, 6, 13]
    q, k, v = normal(4, 11, 8), normal(2, 14, 8), normal(2, 14, 6)  # rows behind the last
    bias = normal(1, 11, 7)
    given = [q, k, v] if layout == "bhsd" else [t.transpose(0, 1).contiguous() for t in (q, k, v)]
    cu = [torch.tensor(s, dtype=torch.int32) for s in (starts_q, starts_k)]
    o, lse = ops.attention(
        *given, bias=bias, layout=layout, cu_seqlens_q=cu[0], cu_seqlens_k=cu[1], return_lse=True
    )
    o = o if layout == "bhsd" else o.transpose(0, 1)
    weights = normal(4, 11, 6, seed=5).detach()
    found = torch.autograd.grad(o, (q, k, v, bias), weights)
    wide = [double(t) for t in (q, k, v, bias)]
    parts = [
        attend(wide[0][:, a:b], wide[1][:, c:d], wide[2][:, c:d], wide[3][:, a:b, : d - c],
               enable_gqa=True)
        for a, b, c, d in zip(starts_q, starts_q[1:], starts_k, starts_k[1:], strict=False)
    ]  # fmt: skip
    want = torch.cat([*parts, torch.zeros(4, 2, 6)], 1)
    assert_close([o], [want])
    assert torch.isneginf(lse[:, 9:]).all()
    assert_close(list(found), list(torch.autograd.grad(want, wide, weights.double())))
