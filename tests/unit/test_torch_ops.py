"""``ckdisp.torch`` as a part of PyTorch: graphs, autocast, vmap, threads, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from torch_check import assert_close, attend, double, normal, results, tensors, torch

import ckdisp

pytestmark = pytest.mark.xdist_group("naive")


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


FORWARD: dict[str, tuple[Any, tuple[int, ...]]] = {
    "linear": (lambda ops, t: ops.linear(t, torch.ones(3, 8)), (4, 8)),
    "weights": (lambda ops, t: ops.linear(torch.ones(4, 8), t), (3, 8)),
    "conv": (lambda ops, t: ops.conv(t, torch.ones(3, 2, 1, 1)), (1, 2, 4, 4)),
    "sdpa": (lambda ops, t: ops.scaled_dot_product_attention(t, t, t), (2, 4, 8)),
    "attention": (lambda ops, t: ops.attention(t, t, t, return_lse=True), (1, 2, 4, 8)),
    "bias": (lambda ops, t: ops.attention(*[torch.ones(1, 2, 4, 8)] * 3, bias=t), (1, 2, 4, 4)),
    "gemm": (lambda ops, t: torch.ops.ckdisp.gemm(t, t.t()), (4, 8)),
}


# PyTorch scripts its decompositions for forward mode.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("gradient", [False, True])
def test_forward_mode_is_refused(ops: Any, name: str, gradient: bool) -> None:
    function, shape = FORWARD[name]
    t = torch.ones(shape, requires_grad=gradient)
    text = "has no forward-mode derivative.*use reverse mode"
    with (
        pytest.raises(ckdisp.UnsupportedProblem, match=text),
        torch.autograd.forward_ad.dual_level(),
    ):
        function(ops, torch.autograd.forward_ad.make_dual(t, torch.ones(shape)))
    with pytest.raises(ckdisp.UnsupportedProblem, match=text):
        torch.func.jvp(lambda t: function(ops, t), (t,), (torch.ones(shape),))
    with pytest.raises(ckdisp.UnsupportedProblem, match=text):
        torch.func.jacfwd(lambda t: function(ops, t))(t)


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
    "no tensor": ([Q, K.numpy(), V], {}, ckdisp.InvalidArgument, "key must be a tensor of PyTorch"),
    "array": ([Q, K, V, Q.numpy()], {}, ckdisp.InvalidArgument, "mask must be a tensor of PyTorch"),
    "no heads": (
        [Q, K[:, :0], V[:, :0]],
        {"enable_gqa": True},
        ckdisp.InvalidArgument,
        "enable_gqa with 4 heads of query, 0 of key and 0 of value",
    ),
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
    with pytest.raises(ckdisp.InvalidArgument, match="bias must be a tensor of PyTorch"):
        ops.attention(q, k, v, bias=[[0.0]])
    with pytest.raises(ckdisp.InvalidArgument, match="cu_seqlens_q must be a tensor of PyTorch"):
        ops.attention(q[0], k[0], v[0], cu_seqlens_q=[0, 5], cu_seqlens_k=[0, 7])
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
    backward = ["fmha.bwd_dot_do_o", "fmha.bwd_dq_dk_dv"]  # fp32 is not converted
    assert built == [["fmha.fwd"], backward]
