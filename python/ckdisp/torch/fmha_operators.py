"""The operators ``torch.ops.ckdisp.fmha_fwd`` and ``fmha_bwd``.

Each is a pure function of its tensors: what dropout draws follows from ``rng_state``, a seed and an
offset. The random numbers, the LSE and the lengths are therefore arguments of the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch

from ..codegen.errors import InvalidArgument, UnsupportedProblem
from .batching import register_vmap
from .kernels import dispatcher_for
from .library import Tensor, autocast, check_dtype, define, differentiate, library

_WORD = 2**64 - 1

_SHARED = (
    "Tensor? bias=None, Tensor? alibi_slopes=None, Tensor? cu_seqlens_q=None, "
    "Tensor? cu_seqlens_k=None, Tensor? rng_state=None, *, float? scale=None, str mask='no', "
    "SymInt[]? window=None, SymInt? sink=None, float dropout_p=0., float logits_soft_cap=0., "
    "str layout='bhsd', SymInt? max_seqlen_q=None, SymInt? max_seqlen_k=None"
)
_INPUTS = ("bias", "alibi_slopes", "cu_seqlens_q", "cu_seqlens_k", "rng_state")


def _dense_rows(t: Tensor) -> Tensor:
    """``t``, or a copy of it that the kernels can read: they take any strides but the last."""
    return t if t.size(-1) <= 1 or t.stride(-1) == 1 else t.contiguous()


def _options(tensors: tuple[Tensor | None, ...], how: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a dispatcher's call. The defaults are the same, so they may be missing."""
    options = {name: t for name, t in zip(_INPUTS, tensors, strict=False) if t is not None}
    options |= how
    if "bias" in options:
        options["bias"] = _dense_rows(options["bias"])
    if "alibi_slopes" in options:
        options["alibi_slopes"] = options["alibi_slopes"].contiguous()
    rng_state = options.pop("rng_state", None)
    if how.get("dropout_p", 0.0) != 0:
        options["seed"], options["offset"] = _words(rng_state)
    return options


def _words(rng_state: Tensor | None) -> list[int]:
    if rng_state is None or rng_state.shape != (2,) or rng_state.dtype != torch.int64:
        given = "None" if rng_state is None else f"{tuple(rng_state.shape)} of {rng_state.dtype}"
        raise InvalidArgument(
            f"rng_state is {given}; dropout needs a seed and an offset, a tensor (2,) of int64"
        )
    return [word & _WORD for word in rng_state.tolist()]


def _fmha_fwd(
    q: Tensor, k: Tensor, v: Tensor, *tensors: Tensor | None, **how: Any
) -> tuple[Tensor, Tensor]:
    check_dtype(q, "q")
    options = _options(tensors, how)
    call: Any = dispatcher_for("fmha_fwd", q.dtype).fmha_fwd
    with torch.no_grad():
        o, lse = call(*map(_dense_rows, (q, k, v)), return_lse=True, **options)
    return o, lse


def _fmha_bwd(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor,
    *tensors: Tensor | None, **how: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    check_dtype(q, "q")
    options = _options(tensors, how)
    call: Any = dispatcher_for("fmha_bwd", q.dtype).fmha_bwd
    with torch.no_grad():
        fixed = torch.are_deterministic_algorithms_enabled()
        rows = map(_dense_rows, (do, q, k, v, o))
        dq, dk, dv, *dbias = call(*rows, lse.contiguous(), deterministic=fixed, **options)
    return dq, dk, dv, dbias[0] if dbias else q.new_empty((0,))


def _lse_shape(q: Tensor, layout: str) -> list[Any]:
    *outer, a, b = q.shape[:-1]
    return [*outer, a, b] if layout == "bhsd" else [*outer, b, a]


def _fake_fwd(
    q: Tensor, k: Tensor, v: Tensor, *tensors: Tensor | None, **how: Any
) -> tuple[Tensor, Tensor]:
    o = q.new_empty((*q.shape[:-1], v.shape[-1]))
    return o, q.new_empty(_lse_shape(q, how.get("layout", "bhsd")), dtype=torch.float32)


def _fake_bwd(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor,
    bias: Tensor | None = None, *tensors: Tensor | None, **how: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    wants_bias = how.get("return_dbias", False)
    cells = (*lse.shape, bias.shape[-1]) if bias is not None and wants_bias else (0,)
    return *(t.new_empty(t.shape) for t in (q, k, v)), q.new_empty(cells)


def _setup_context(
    ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Any
) -> None:
    slopes = inputs[4]
    if slopes is not None and slopes.requires_grad:
        raise InvalidArgument(
            "alibi_slopes requires a gradient, and no kernel computes it; pass "
            "alibi_slopes.detach(), or a bias made from the slopes"
        )
    ctx.how = keyword_only_inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:3], *output, *inputs[3:])


def _backward(ctx: Any, do: Tensor | None, dlse: Tensor | None) -> tuple[Tensor | None, ...]:
    q, k, v, o, lse, bias, *others = ctx.saved_tensors
    size = v.size(-1)
    do = torch.zeros_like(o) if do is None else do
    if dlse is not None:
        do, v, o = _with_lse(do, v, o, dlse, ctx.how["layout"])
    wants_bias = any(ctx.needs_input_grad[3:4])  # it ends with the last argument that was given
    dq, dk, dv, cells = torch.ops.ckdisp.fmha_bwd(
        do, q, k, v, o, lse, bias, *others, **ctx.how, return_dbias=wants_bias
    )
    dbias = _sum_to(cells, bias) if wants_bias else None
    dv = dv if dlse is None else dv[..., :size]
    return dq, dk, dv, dbias, *(None for _ in others)


def _with_lse(
    do: Tensor, v: Tensor, o: Tensor, dlse: Tensor, layout: str
) -> tuple[Tensor, Tensor, Tensor]:
    """The tensors with one more column, by which the LSE has a gradient.

    Scores s have the gradient p * (do v^T - delta + dlse) with delta = sum(do * o): a column dlse
    of do, -1 of o and 0 of v gives that.
    """
    column = dlse if layout == "bhsd" else dlse.transpose(-1, -2)
    column = column.unsqueeze(-1).to(do.dtype)
    last = torch.full_like(column, -1.0)
    return (
        torch.cat([do, column], -1),
        torch.cat([v, torch.zeros_like(v[..., :1])], -1),
        torch.cat([o, last], -1),
    )


def _sum_to(cells: Tensor, bias: Tensor) -> Tensor:
    """The gradient of a bias that was repeated: a kernel gives that of each of its copies."""
    added = bias.dim() - cells.dim()  # a bias of many sequences may have a batch of 1
    return cells.reshape((1,) * added + cells.shape).sum_to_size(bias.shape)


def _second_backward(ctx: Any, *gradients: Tensor) -> None:
    raise UnsupportedProblem(
        "the gradients of attention have no gradient themselves: no kernel computes it; leave "
        "create_graph away, or use torch.nn.functional.scaled_dot_product_attention"
    )


define(
    "fmha_fwd",
    f"(Tensor q, Tensor k, Tensor v, {_SHARED}) -> (Tensor o, Tensor lse)",
    _fmha_fwd,
    _fake_fwd,
)
define(
    "fmha_bwd",
    f"(Tensor do, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, {_SHARED}, "
    "bool return_dbias=False) -> (Tensor dq, Tensor dk, Tensor dv, Tensor dbias)",
    _fmha_bwd,
    _fake_bwd,
)
autocast("fmha_fwd", 4)  # not slopes, which are fp32
differentiate("fmha_fwd", _backward, _setup_context)
differentiate("fmha_bwd", _second_backward)
register_vmap(library)
