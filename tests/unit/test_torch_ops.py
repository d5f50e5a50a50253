"""``ckdisp.torch``: attention with gradients, compared with PyTorch's own in float64."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ckdisp
from ckdisp.reference import attention_fwd

torch = pytest.importorskip("torch")
attend = torch.nn.functional.scaled_dot_product_attention
pytestmark = pytest.mark.xdist_group("naive")


@pytest.fixture(autouse=True)
def ops(naive_fmha: Path) -> Any:
    """The module, with naive kernels for fp32 and bf16."""
    with ckdisp.torch.use_dispatcher(ckdisp.Dispatcher(ckdisp.Registry.load(naive_fmha))):
        yield ckdisp.torch


def normal(*shape: int, seed: int = 0, dtype: Any = None) -> Any:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return made.to(dtype or torch.float32).requires_grad_()


def tensors(sq: int = 5, sk: int = 7, heads: int = 4, heads_k: int = 4) -> list[Any]:
    shapes = ((2, heads, sq, 8), (2, heads_k, sk, 8), (2, heads_k, sk, 6))
    return [normal(*shape, seed=i) for i, shape in enumerate(shapes)]


def results(function: Any, *inputs: Any, **how: Any) -> list[Any]:
    """The result, and the gradients of the inputs that have one, for weights of the result."""
    o = function(*inputs, **how)
    weights = normal(*o.shape, seed=9).detach().to(o.dtype)
    wanted = [t for t in inputs if t is not None and t.requires_grad]
    return [o, *torch.autograd.grad(o, wanted, weights)]


def assert_close(found: list[Any], wanted: list[Any], tolerance: float = 1e-5) -> None:
    for got, right in zip(found, wanted, strict=True):
        assert got.shape == right.shape
        torch.testing.assert_close(
            got.double(), right.double(), rtol=tolerance, atol=tolerance, equal_nan=False
        )


def double(t: Any) -> Any:
    wide = t is None or t.dtype == torch.bool
    return t if wide else t.detach().double().requires_grad_(t.requires_grad)


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


OPERATORS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "plain": (tensors(heads_k=2), {}),
    "bias": ([*tensors(), normal(4, 1, 7)], {"mask": "top_left", "scale": 0.5}),
    "window": (
        [t.detach().transpose(1, 2).requires_grad_() for t in tensors()],
        {"window": [1, 2], "layout": "bshd"},
    ),
    "dropout": ([*tensors(), *[None] * 4, torch.tensor([-3, 5])], {"dropout_p": 0.3}),
    "lengths": (
        [t.detach()[0].requires_grad_() for t in tensors()]
        + [None, None, *torch.tensor([[0, 2, 5], [0, 3, 7]], dtype=torch.int32)],
        {},
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_keep_the_rules_of_pytorch(ops: Any, name: str) -> None:
    inputs, how = OPERATORS[name]
    rules = ["test_schema", "test_autograd_registration", "test_faketensor"]
    if name in ("bias", "dropout", "lengths"):  # these have all that is traced otherwise
        rules.append("test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.ckdisp.fmha_fwd.default, inputs, how, test_utils=rules)
    plain = [t if t is None else t.detach() for t in inputs]
    o, lse = torch.ops.ckdisp.fmha_fwd(*plain, **how)
    how = {**how, "return_dbias": name == "bias"}
    inputs = [torch.ones_like(o), *plain[:3], o, lse, *plain[3:]]
    torch.library.opcheck(torch.ops.ckdisp.fmha_bwd.default, inputs, how, test_utils=rules)


def test_compiled(ops: Any) -> None:
    def block(q: Any, k: Any, v: Any, mask: Any) -> Any:
        o = ops.scaled_dot_product_attention(q * 2, k, v, mask, enable_gqa=True)
        return ops.attention(o, o, o, mask="top_left", logits_soft_cap=2.0)

    # The passes before code is generated; that of other operators is no matter here.
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    for sq in (5, 6):  # sizes are constants in the first graph, symbols in the second
        inputs = [*tensors(sq=sq, heads_k=2), normal(4, 1, 7)]
        assert_close(results(compiled, *inputs), results(block, *inputs), 1e-6)


def test_compiled_dropout_follows_the_generator(ops: Any) -> None:
    def block(*inputs: Any) -> Any:
        return ops.scaled_dot_product_attention(*inputs, dropout_p=0.5)

    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    found = []
    for function in (block, compiled):
        torch.manual_seed(4)
        found.append(results(function, *tensors()))
    assert all(map(torch.equal, *found))


def test_autocast(ops: Any) -> None:
    inputs = [*tensors(), normal(5, 7)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = results(ops.scaled_dot_product_attention, *inputs)
        slopes = torch.ones(4)
        assert ops.attention(*inputs[:3], alibi_slopes=slopes).dtype == torch.bfloat16
    assert [t.dtype for t in found] == [torch.bfloat16, *[torch.float32] * 4]
    assert_close(found, results(attend, *map(double, inputs)), 4e-2)


def test_without_gradients(ops: Any) -> None:
    inputs = tensors()
    with torch.no_grad():
        o = ops.scaled_dot_product_attention(*inputs)
    assert not o.requires_grad
    with torch.inference_mode():
        assert torch.equal(ops.scaled_dot_product_attention(*inputs), o)
    kept = ops.scaled_dot_product_attention(inputs[0].detach(), *inputs[1:])
    assert_close(
        [*torch.autograd.grad(kept.sum(), inputs[1:])],
        [*torch.autograd.grad(attend(*inputs).sum(), inputs[1:])],
    )


def test_checkpointing_draws_the_same(ops: Any) -> None:
    from torch.utils.checkpoint import checkpoint

    def block(*inputs: Any) -> Any:
        return ops.scaled_dot_product_attention(*inputs, dropout_p=0.5)

    found = []
    for function in (block, lambda *t: checkpoint(block, *t, use_reentrant=False)):
        torch.manual_seed(6)
        found.append(results(function, *tensors()))
    assert all(map(torch.equal, *found))


def test_tensors_without_data_have_shapes(ops: Any) -> None:
    q, k = torch.empty(2, 5, 4, 8, device="meta"), torch.empty(2, 7, 2, 8, device="meta")
    o, lse = ops.attention(q, k, k[..., :6], layout="bshd", return_lse=True)
    assert (o.shape, lse.shape, lse.dtype) == ((2, 5, 4, 6), (2, 4, 5), torch.float32)
    assert o.device.type == "meta"


BATCHED: dict[str, tuple[tuple[Any, ...], list[Any]]] = {
    "queries": ((0, None, None), []),
    "the last dimension": ((3, 0, 1), []),
    "a mask for all": ((0, 0, None, None), [normal(2, 4, 5, 7)]),
    "a mask that repeats": ((0, 0, None, None), [normal(4, 1, 7)]),
    "masks": ((0, None, None, 0), [normal(3, 5, 7)]),
    "masks alone": ((None, None, None, 1), [normal(5, 3, 7)]),
}


@pytest.mark.parametrize("name", BATCHED)
def test_vmap(ops: Any, name: str) -> None:
    dims, mask = BATCHED[name]
    alone = [*tensors(), *mask]
    inputs = [
        t if dim is None or i == 3 else torch.stack([t, 2 * t, t - 1], dim)
        for i, (t, dim) in enumerate(zip(alone, dims, strict=True))
    ]

    def loop(*inputs: Any) -> Any:
        cut = lambda t, dim, i: t if dim is None else t.select(dim, i)  # noqa: E731
        parts = ([cut(t, d, i) for t, d in zip(inputs, dims, strict=True)] for i in range(3))
        return torch.stack([ops.scaled_dot_product_attention(*p) for p in parts])

    inputs = [t.detach().requires_grad_() for t in inputs]
    found = results(torch.vmap(ops.scaled_dot_product_attention, dims), *inputs)
    assert_close(found, results(loop, *inputs), 1e-6)


def test_vmap_draws_once_or_for_each(ops: Any) -> None:
    q, k, v = tensors()
    wide = q.detach().expand(3, *q.shape)

    def block(q: Any) -> Any:
        return ops.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

    same = torch.vmap(block, randomness="same")(wide)
    assert torch.equal(same[0], same[1])
    different = torch.vmap(block, randomness="different")(wide)
    assert not torch.equal(different[0], different[1])


def test_threads_have_the_dispatcher_they_use(ops: Any, naive_fmha: Path) -> None:
    empty = ckdisp.Dispatcher(ckdisp.Registry("empty"))
    inputs = [t.detach() for t in tensors()]
    want = ops.scaled_dot_product_attention(*inputs)

    def work(i: int) -> Any:
        registry = ckdisp.Registry.load(naive_fmha)
        with ops.use_dispatcher(ckdisp.Dispatcher(registry) if i % 2 else empty):
            try:
                return ops.scaled_dot_product_attention(*inputs)
            except ckdisp.KernelNotFound:
                return None

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(20)))
    assert all(o is None for o in found[::2])
    assert all(torch.equal(o, want) for o in found[1::2])


def test_the_dispatcher_of_a_process(ops: Any) -> None:
    here, other = ops.get_dispatcher(), ckdisp.Dispatcher(ckdisp.Registry("other"))
    try:
        ops.set_dispatcher(other)
        assert ops.get_dispatcher() is here  # that of the context goes first
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(ops.get_dispatcher).result() is other
    finally:
        ops.set_dispatcher(None)
    with pytest.raises(ckdisp.InvalidArgument, match=r"the dispatcher is 'fast'; pass a ckdisp\."):
        ops.set_dispatcher("fast")


Q, K, V = (t.detach() for t in tensors())
REFUSED: dict[str, tuple[list[Any], dict[str, Any], type[Exception], str]] = {
    "double": ([Q.double(), K, V], {}, ckdisp.InvalidArgument, r"q holds torch\.float64, and"),
    "integers": ([Q.int(), K.int(), V.int()], {}, ckdisp.InvalidArgument, r"holds torch\.int32"),
    "types": ([Q, K.bfloat16(), V], {}, ckdisp.InvalidArgument, "k holds bf16, and the type of q"),
    "heads": ([Q, K[:, :2], V], {}, ckdisp.InvalidArgument, r"do not broadcast.*enable_gqa=True"),
    "groups": (
        [Q, K[:, :3], V[:, :3]],
        {"enable_gqa": True},
        ckdisp.InvalidArgument,
        "enable_gqa with 4 heads of query, 3 of key and 3 of value",
    ),
    "no mask": ([Q, K, V, Q.int()], {}, ckdisp.InvalidArgument, r"attn_mask holds torch\.int32"),
    "mask": (
        [Q, K, V, torch.zeros(5, 6)],
        {},
        ckdisp.InvalidArgument,
        r"attn_mask has shape \(5, 6\), which does not broadcast to \(2, 4, 5, 7\)",
    ),
    "two masks": (
        [Q, K, V, torch.zeros(5, 7)],
        {"is_causal": True},
        ckdisp.InvalidArgument,
        "attn_mask and is_causal exclude each other",
    ),
    "all": ([Q, K, V], {"dropout_p": 1.0}, ckdisp.InvalidArgument, "dropout_p is 1"),
    "nothing": ([Q, K, V], {"dropout_p": torch.nan}, ckdisp.InvalidArgument, "dropout_p is nan"),
    "scale": ([Q, K, V], {"scale": torch.nan}, ckdisp.InvalidArgument, "scale is nan"),
    "rank": ([Q[0, 0, 0], K, V], {}, ckdisp.InvalidArgument, r"query has shape \(8,\); pass a"),
    "no tensor": ([Q, K.numpy(), V], {}, ckdisp.InvalidArgument, "key is no dense tensor"),
    "sparse": ([Q, K, V.to_sparse()], {}, ckdisp.InvalidArgument, "value is no dense tensor"),
    "size": ([Q, K[..., :7], V], {}, ckdisp.InvalidArgument, "the head dimensions must be equal"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_sdpa_refuses(ops: Any, name: str) -> None:
    inputs, how, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        ops.scaled_dot_product_attention(*inputs, **how)


def test_what_attention_refuses(ops: Any) -> None:
    q, k, v = tensors()
    with pytest.raises(ckdisp.InvalidArgument, match=r"q has shape \(4, 5, 8\); pass a tensor"):
        ops.attention(q[0], k, v)
    with pytest.raises(ckdisp.InvalidArgument, match=r"the window \(-2, 0\) is inverted"):
        ops.attention(q, k, v, window=(-2, 0))
    with pytest.raises(ckdisp.InvalidArgument, match="alibi_slopes requires a gradient"):
        ops.attention(q, k, v, alibi_slopes=torch.ones(4, requires_grad=True))
    with pytest.raises(ckdisp.InvalidArgument, match="rng_state is None; dropout needs a seed"):
        torch.ops.ckdisp.fmha_fwd(q, k, v, dropout_p=0.5)


def test_other_devices_are_named(ops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away(torch.Tensor):
        device = torch.device("cuda:1")

    q, k, v = (t.detach() for t in tensors())
    with pytest.raises(ckdisp.DeviceError, match=r"key is on cuda:1, .* on the CPU; pass key\.cpu"):
        ops.scaled_dot_product_attention(q, k.as_subclass(Away), v)


def test_a_second_gradient_is_refused(ops: Any) -> None:
    inputs = tensors()
    o = ops.scaled_dot_product_attention(*inputs)
    first = torch.autograd.grad(o.sum(), inputs, create_graph=True)
    with pytest.raises(ckdisp.UnsupportedProblem, match="gradients of attention have no gradient"):
        first[0].sum().backward()


def test_importing_takes_pytorch_only_when_asked() -> None:
    def run(script: str) -> str:
        command = [sys.executable, "-c", f"import ckdisp, sys\n{script}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout

    assert run("from ckdisp import *; print('torch' in sys.modules)") == "False\n"
    words = run(
        "sys.modules['torch'] = None\ntry: ckdisp.torch\nexcept ckdisp.Error as e: print(e)"
    )
    assert "ckdisp.torch needs PyTorch, which cannot be imported" in words
    assert "pip install 'ckdisp[torch]'" in words


def test_kernels_by_default_are_compiled_once(
    naive_fmha: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ckdisp.torch import kernels

    built: list[list[str]] = []

    def build(self: ckdisp.KernelSet, **how: Any) -> ckdisp.Registry:
        built.append(sorted({key.family for key in self}))
        return ckdisp.Registry.load(naive_fmha).filter(lambda k: k.family in built[-1])

    def prebuilt() -> ckdisp.Registry:
        raise ckdisp.LibraryError("this package has none")

    monkeypatch.setattr(kernels, "_default", kernels._Default())
    monkeypatch.setattr(kernels.Registry, "prebuilt", prebuilt)
    monkeypatch.setattr(kernels.KernelSet, "build", build)
    with ThreadPoolExecutor(2) as pool:  # the dispatcher of a context is not that of its threads
        inputs = tensors()
        for found in pool.map(lambda _: results(ckdisp.torch.attention, *inputs), range(4)):
            assert_close(found, results(attend, *map(double, inputs)))
    backward = ["fmha.bwd_convert_dq", "fmha.bwd_dot_do_o", "fmha.bwd_dq_dk_dv"]
    assert built == [["fmha.fwd"], backward]
