"""The operator ``torch.ops.ckdisp.gemm``, and the function on top of it."""

from __future__ import annotations

import math
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


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``torch.nn.functional.linear``: ``input @ weight.T + bias``, by the kernels of ckdisp.

    ``input`` is (..., in), ``weight`` (out, in) and ``bias`` (out,), of float32, float16 or
    bfloat16.
    """
    check_tensor(input, "input", 1)
    check_tensor(weight, "weight", 2, 2)
    if input.shape[-1] != weight.shape[1]:
        raise InvalidArgument(
            f"input has shape {tuple(input.shape)} and weight {tuple(weight.shape)}; their last "
            "dimensions must be equal"
        )
    check_bias(bias, weight)
    rows = input
    if input.dim() != 2:
        rows = input.reshape(math.prod(input.shape[:-1]), input.shape[-1])
    out = torch.ops.ckdisp.gemm(rows, weight.t())
    if bias is not None:
        out = out + bias.to(out.dtype)
    return out if input.dim() == 2 else out.reshape(*input.shape[:-1], weight.shape[0])


def _gemm(a: Tensor, b: Tensor) -> Tensor:
    check_dtype(a, "a")
    with torch.no_grad():
        return dispatcher_for("gemm", a.dtype).gemm(a, b)


def _fake(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty((a.shape[0], b.shape[1]))


def _setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, dc: Tensor) -> tuple[Tensor | None, Tensor | None]:
    a, b = ctx.saved_tensors
    needs_a, needs_b = ctx.needs_input_grad
    da = torch.ops.ckdisp.gemm(dc, b.t()) if needs_a else None
    return da, torch.ops.ckdisp.gemm(a.t(), dc) if needs_b else None


define("gemm", "(Tensor a, Tensor b) -> Tensor", _gemm, _fake)
autocast("gemm", 2)
differentiate("gemm", _backward, _setup_context)

__all__ = ["linear"]
