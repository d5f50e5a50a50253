"""The operators ``torch.ops.ckdisp.conv_*``, and the function on top of them.

Results lie channels last, as the kernels write them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..codegen.errors import InvalidArgument
from .kernels import dispatcher_for
from .library import (
    Tensor,
    autocast,
    check_bias,
    check_dtype,
    check_tensor,
    define,
    differentiate,
)

_LAYOUTS = {3: "nwgc", 4: "nhwgc", 5: "ndhwgc"}
_HOW = "SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups"


def conv(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """``conv1d``, ``conv2d`` and ``conv3d`` of ``torch.nn.functional``, by the kernels of ckdisp.

    ``input`` is (N, C, *spatial), or without N, and ``weight`` (K, C / groups, *filter), of
    float32, float16 or bfloat16. Tensors in ``torch.channels_last`` are read where they are,
    others are copied; the result lies channels last.
    """
    check_tensor(weight, "weight", 3, 5)
    rank = weight.dim()
    check_tensor(input, "input", rank - 1, rank)
    check_bias(bias, weight)
    how = [_numbers(x, name, rank - 2) for name, x in
           (("stride", stride), ("padding", padding), ("dilation", dilation))]  # fmt: skip
    batched = input if input.dim() == rank else input.unsqueeze(0)
    out = torch.ops.ckdisp.conv_fwd(batched, weight, *how, groups)
    if bias is not None:
        out = out + bias.to(out.dtype).view(-1, *[1] * (rank - 2))
    return out if input.dim() == rank else out.squeeze(0)


def _numbers(value: Any, name: str, count: int) -> list[int]:
    whole = (int, torch.SymInt)
    numbers = [value] * count if isinstance(value, whole) else value
    # A text is a sequence, too: of padding that PyTorch has a name for.
    if not isinstance(numbers, Sequence) or isinstance(numbers, str):
        numbers = ()
    if len(numbers) != count or not all(isinstance(n, whole) for n in numbers):
        raise InvalidArgument(f"{name} is {value!r}; pass one integer, or {count} in a sequence")
    return list(numbers)


def _conv_fwd(x: Tensor, w: Tensor, *how: Any) -> Tensor:
    return _run("conv_fwd", x, w, how)


def _conv_bwd_data(dy: Tensor, w: Tensor, shape: Sequence[int], *how: Any) -> Tensor:
    return _run("conv_bwd_data", dy, w, how, input_shape=shape)


def _conv_bwd_weight(x: Tensor, dy: Tensor, shape: Sequence[int], *how: Any) -> Tensor:
    return _run("conv_bwd_weight", x, dy, how, weight_shape=shape)


def _run(call: str, first: Tensor, second: Tensor, how: tuple[Any, ...], **shape: Any) -> Tensor:
    check_dtype(first, "input" if call != "conv_bwd_data" else "dy")
    dispatcher = dispatcher_for(call, first.dtype, _LAYOUTS.get(first.dim()))
    named = dict(zip(("stride", "padding", "dilation", "groups"), how, strict=True))
    with torch.no_grad():
        return getattr(dispatcher, call)(first, second, **named, **shape)


def _channels_last(like: Tensor, shape: Sequence[Any]) -> Tensor:
    outer, channels, *spatial = shape
    return like.new_empty((outer, *spatial, channels)).movedim(-1, 1)


def _fake_fwd(
    x: Tensor, w: Tensor, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Tensor:
    sizes = zip(x.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)
    spatial = [(n + 2 * p - d * (f - 1) - 1) // s + 1 for n, f, s, p, d in sizes]
    return _channels_last(x, (x.shape[0], w.shape[0], *spatial))


def _fake_bwd(first: Tensor, second: Tensor, shape: Any, *how: Any) -> Tensor:
    return _channels_last(first, shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.how = inputs[2:]


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    x, w = ctx.saved_tensors
    needs_x, needs_w, *_ = ctx.needs_input_grad
    ops = torch.ops.ckdisp
    dx = ops.conv_bwd_data(dy, w, x.shape, *ctx.how) if needs_x else None
    dw = ops.conv_bwd_weight(x, dy, w.shape, *ctx.how) if needs_w else None
    return dx, dw, None, None, None, None


# A convolution and its gradients are linear in either tensor, so that the gradients of one are
# others of the three.
def _backward_data(ctx: Any, ddx: Tensor) -> tuple[Any, ...]:
    dy, w = ctx.saved_tensors
    _, *how = ctx.how
    needs_dy, needs_w, *_ = ctx.needs_input_grad
    ops = torch.ops.ckdisp
    grad_dy = ops.conv_fwd(ddx, w, *how) if needs_dy else None
    grad_w = ops.conv_bwd_weight(ddx, dy, w.shape, *how) if needs_w else None
    return grad_dy, grad_w, None, None, None, None, None


def _backward_weight(ctx: Any, ddw: Tensor) -> tuple[Any, ...]:
    x, dy = ctx.saved_tensors
    _, *how = ctx.how
    needs_x, needs_dy, *_ = ctx.needs_input_grad
    ops = torch.ops.ckdisp
    grad_x = ops.conv_bwd_data(dy, ddw, x.shape, *how) if needs_x else None
    grad_dy = ops.conv_fwd(x, ddw, *how) if needs_dy else None
    return grad_x, grad_dy, None, None, None, None, None


define("conv_fwd", f"(Tensor x, Tensor w, {_HOW}) -> Tensor", _conv_fwd, _fake_fwd)
define(
    "conv_bwd_data",
    f"(Tensor dy, Tensor w, SymInt[] input_shape, {_HOW}) -> Tensor",
    _conv_bwd_data,
    _fake_bwd,
)
define(
    "conv_bwd_weight",
    f"(Tensor x, Tensor dy, SymInt[] weight_shape, {_HOW}) -> Tensor",
    _conv_bwd_weight,
    _fake_bwd,
)
autocast("conv_fwd", 2)
differentiate("conv_fwd", _backward, _setup_context)
differentiate("conv_bwd_data", _backward_data, _setup_context)
differentiate("conv_bwd_weight", _backward_weight, _setup_context)

__all__ = ["conv"]
