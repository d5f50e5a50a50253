"""``ckdisp.torch`` with the kernels that its functions take by default."""

from __future__ import annotations

from typing import Any

import pytest
from torch_check import attend, double, normal, tensors, torch

import ckdisp

functional = torch.nn.functional
pytestmark = pytest.mark.xdist_group("torch_layers")


def results(function: Any, *inputs: Any, **how: Any) -> list[Any]:
    """The result, its gradients, and the gradients of the squares of these."""
    o = function(*inputs, **how)
    weights = normal(*o.shape, seed=9).detach().to(o.dtype)
    first = torch.autograd.grad(o, inputs, weights, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first[:2]), inputs[:2])
    return [o, *first, *second]


def check(ours: Any, theirs: Any, *inputs: Any, **how: Any) -> None:
    """Values and gradients of both orders, as PyTorch gives them in float64."""
    wide = [t.detach().double().requires_grad_() for t in inputs]
    found, want = results(ours, *inputs, **how), results(theirs, *wide, **how)
    for got, right in zip(found, want, strict=True):
        torch.testing.assert_close(got.double(), right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (0, 5)])
def test_linear(shape: tuple[int, ...]) -> None:
    inputs = [normal(*shape), normal(4, 5, seed=1), normal(4, seed=2)]
    check(ckdisp.torch.linear, functional.linear, *inputs)
    turned = [normal(*reversed(shape)).permute(*reversed(range(len(shape)))), inputs[1]]
    check(ckdisp.torch.linear, functional.linear, *turned)


def test_linear_of_no_channels() -> None:
    x, w, b = torch.ones(2, 3, 0), torch.ones(4, 0), torch.arange(4.0)
    torch.testing.assert_close(ckdisp.torch.linear(x, w, b), functional.linear(x, w, b))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_forward_mode_passes_by_tensors_without_a_tangent() -> None:
    dual = torch.autograd.forward_ad
    with dual.dual_level():
        bias = dual.make_dual(torch.ones(3), torch.full((3,), 2.0))
        out = ckdisp.torch.linear(torch.ones(4, 8), torch.ones(3, 8), bias)
        tangent = dual.unpack_dual(out).tangent
    assert torch.equal(tangent, torch.full((4, 3), 2.0))


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 4, 7, 6), (6, 4, 3, 2), {}),
    "groups": (
        (2, 4, 7, 6),
        (6, 2, 3, 2),
        {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2},
    ),
    "depthwise": ((1, 8, 5, 5), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    "one image": ((3, 6, 6), (5, 3, 1, 1), {"stride": 2}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv(name: str) -> None:
    image, filters, how = CONVOLUTIONS[name]
    inputs = [normal(*image), normal(*filters, seed=1), normal(filters[0], seed=2)]
    check(ckdisp.torch.conv, functional.conv2d, *inputs, **how)


def test_channels_last_stays_so() -> None:
    x = normal(2, 4, 7, 6).to(memory_format=torch.channels_last)
    y = ckdisp.torch.conv(x, normal(8, 4, 3, 3))
    assert y.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_shapes_without_data(rank: int) -> None:
    x, w = torch.empty(2, 4, *range(9, 9 + rank)), torch.empty(6, 2, *range(1, 1 + rank))
    how = {"stride": 2, "padding": 1, "dilation": 3, "groups": 2}
    want = getattr(functional, f"conv{rank}d")(x, w, **how)
    found = ckdisp.torch.conv(x.to("meta"), w.to("meta"), **how)
    assert found.shape == want.shape
    assert found.movedim(1, -1).is_contiguous()


def test_operators_keep_the_rules_of_pytorch() -> None:
    ops = torch.ops.ckdisp
    torch.library.opcheck(ops.gemm.default, (normal(3, 4), normal(4, 5)))
    how = ([2, 1], [1, 0], [1, 2], 2)
    x, w = normal(2, 4, 7, 6), normal(6, 2, 3, 2)
    dy = normal(*ops.conv_fwd(x, w, *how).shape)
    torch.library.opcheck(ops.conv_fwd.default, (x, w, *how))
    untraced = ["test_schema", "test_autograd_registration", "test_faketensor"]
    for op, inputs in (
        (ops.conv_bwd_data, (dy, w, list(x.shape), *how)),
        (ops.conv_bwd_weight, (x, dy, list(w.shape), *how)),
    ):
        torch.library.opcheck(op.default, inputs, test_utils=untraced)


def test_compiled() -> None:
    def block(x: Any, w: Any, b: Any) -> Any:
        y = ckdisp.torch.conv(x, w, b, padding=1).relu()
        return ckdisp.torch.linear(y.flatten(1), torch.ones(3, y[0].numel()))

    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    inputs = [normal(2, 4, 7, 6), normal(6, 4, 3, 3, seed=1), normal(6, seed=2)]
    outputs = [function(*inputs) for function in (compiled, block)]
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(*(torch.autograd.grad(o.sum(), inputs) for o in outputs))


def test_autocast() -> None:
    x, w = normal(3, 5), normal(4, 5, seed=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = ckdisp.torch.linear(x, w)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), functional.linear(x, w), rtol=3e-2, atol=3e-2)


def test_what_is_refused() -> None:
    x, w = torch.zeros(2, 4, 7, 6), torch.zeros(6, 4, 3, 2)
    with pytest.raises(ckdisp.InvalidArgument, match=r"stride is \(1, 2, 3\); pass one integer"):
        ckdisp.torch.conv(x, w, stride=(1, 2, 3))
    with pytest.raises(ckdisp.InvalidArgument, match="padding is 'same'; pass one integer, or 2"):
        ckdisp.torch.conv(x, w, padding="same")
    with pytest.raises(ckdisp.InvalidArgument, match=r"stride is 1\.5; pass one integer, or 2"):
        ckdisp.torch.conv(x, w, stride=1.5)
    with pytest.raises(ckdisp.InvalidArgument, match=r"bias has 1 numbers, and weight \(6, 4, 3"):
        ckdisp.torch.conv(x, w, torch.zeros(1))
    with pytest.raises(ckdisp.InvalidArgument, match=r"bias has 5 numbers, and weight \(1, 6\) gi"):
        ckdisp.torch.linear(x, torch.zeros(1, 6), torch.zeros(5))
    with pytest.raises(ckdisp.InvalidArgument, match=r"input has shape \(7, 6\); pass a tensor of"):
        ckdisp.torch.conv(x[0, 0], w)
    with pytest.raises(ckdisp.InvalidArgument, match=r"input holds torch\.float64, and the oper"):
        ckdisp.torch.conv(x.double(), w.double())
    with pytest.raises(ckdisp.InvalidArgument, match="their last dimensions must be equal"):
        ckdisp.torch.linear(x, torch.zeros(4, 5))
    with pytest.raises(ckdisp.InvalidArgument, match=r"a holds torch\.int64, and the operators"):
        ckdisp.torch.linear(x.long(), torch.zeros(4, 6, dtype=torch.int64))


def sdpa(*inputs: Any) -> list[Any]:
    """The result and the gradients of q, k and v."""
    function = ckdisp.torch.scaled_dot_product_attention
    if inputs[0].dtype == torch.float64:
        function = attend
    o = function(*inputs)
    weights = normal(*o.shape, seed=9).detach().to(o.dtype)
    return [o, *torch.autograd.grad(o, inputs[:3], weights)]


@pytest.mark.parametrize("rows", [2, 70])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_masks_hide_what_is_no_number(kind: Any, bad: float, rows: int) -> None:
    """PyTorch's own attention multiplies it by 0, which is NaN."""
    inputs = tensors(sq=rows, sk=50)
    seen = torch.ones(rows, 50, dtype=torch.bool)
    seen[:, [7, 31, 49]] = False
    mask = seen if kind == torch.bool else torch.zeros(rows, 50).masked_fill(~seen, -torch.inf)
    want = sdpa(*map(double, inputs), mask if kind == torch.bool else mask.double())
    with torch.no_grad():
        inputs[1][:, :, [7, 49]] = bad
        inputs[2][:, :, [31, 49], 3] = bad
    found = sdpa(*inputs, mask)
    for got, right in zip(found, want, strict=True):
        torch.testing.assert_close(got.double(), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [2, 70])
@pytest.mark.parametrize("value", [torch.finfo(torch.float32).min, 3e38, -1e38, -1e9])
def test_masks_of_the_largest_numbers(value: float, rows: int) -> None:
    """Rows of one such number have the mean of V, others none of what it is added to."""
    inputs = tensors(sq=rows, sk=50)
    mask = torch.zeros(rows, 50)
    mask[::2] = value
    mask[1::2, ::3] = -abs(value)
    wide = [double(t) for t in inputs]
    with torch.no_grad():
        wide[0][:, :, ::2] = 0  # beside such a number q k is none
    found, want = sdpa(*inputs, mask), sdpa(*wide, mask.double())
    for got, right in zip((found[0], found[3]), (want[0], want[3]), strict=True):
        torch.testing.assert_close(got.double(), right, rtol=1e-5, atol=1e-5)
    o, lse = ckdisp.torch.attention(*inputs, bias=mask.expand(2, 4, -1, -1), return_lse=True)
    torch.testing.assert_close(o, found[0])
    assert lse.isfinite().all()


def test_the_lowest_number_of_a_wider_type_hides_nothing() -> None:
    q, k, v = (t.detach().bfloat16() for t in tensors(sk=50))
    mask = torch.full((5, 50), torch.finfo(torch.float32).min)
    mean = v.mean(dim=2, keepdim=True).expand(2, 4, 5, 6)
    o = ckdisp.torch.scaled_dot_product_attention(q, k, v, mask)
    torch.testing.assert_close(o, mean, rtol=1e-2, atol=1e-2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        o = ckdisp.torch.scaled_dot_product_attention(q.float(), k.float(), v.float(), mask)
    torch.testing.assert_close(o, mean, rtol=1e-2, atol=1e-2)
    mask[:, :25] = -torch.inf
    o = ckdisp.torch.scaled_dot_product_attention(q, k, v, mask)
    mean = v[:, :, 25:].mean(dim=2, keepdim=True).expand(2, 4, 5, 6)
    torch.testing.assert_close(o, mean, rtol=1e-2, atol=1e-2)
