"""Functions that users call: PyTorch's attention, and the one with what the kernels can do."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..codegen.errors import InvalidArgument
from . import fmha_operators  # noqa: F401 - registers torch.ops.ckdisp.fmha_*
from .library import Tensor, check_tensor, to_dtype


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``torch.nn.functional.scaled_dot_product_attention``, by the kernels of ckdisp.

    ``query`` is (..., heads, L, E), ``key`` (..., heads, S, E) and ``value`` (..., heads, S, Ev),
    of float32, float16 or bfloat16; what is before L and S broadcasts, and with ``enable_gqa`` the
    heads of query are a multiple of the others. ``attn_mask`` broadcasts to (..., heads, L, S): a
    bool one is True where a key is seen, one of numbers, which may have a gradient, is added to the
    scores, and hides keys where it is -infinity. Nothing of a key that a query does not see reaches
    its result, even if it is NaN; a query that sees no key has result 0. Dropout draws from
    PyTorch's generator of the CPU. There is no gradient of a gradient.
    """
    for name, t in (("query", query), ("key", key), ("value", value)):
        check_tensor(t, name, 2)
    if attn_mask is not None:
        check_tensor(attn_mask, "attn_mask", 0)
    if is_causal and attn_mask is not None:
        raise InvalidArgument("attn_mask and is_causal exclude each other; pass one of them")
    outer = [t.shape[:-2] for t in (query, key, value)]
    if enable_gqa:
        heads = [s[-1] if s else 1 for s in outer]
        if heads[1] != heads[2] or heads[1] == 0 or heads[0] % heads[1] != 0:
            raise InvalidArgument(
                f"enable_gqa with {heads[0]} heads of query, {heads[1]} of key and {heads[2]} of "
                "value; those of key and value must be equal and divide those of query"
            )
        shared = _broadcast(*(s[:-1] for s in outer))
        wanted = [(*shared, n) for n in heads]
    else:
        wanted = [_broadcast(*outer)] * 3
    q, k, v = map(_with_batch, (query, key, value), wanted)
    bias = None
    if attn_mask is not None:
        bias = _bias(attn_mask, query, (*wanted[0], query.shape[-2], key.shape[-2]))
    mask = "top_left" if is_causal else "no"
    o, _ = _fmha_fwd(q, k, v, bias, dropout_p=dropout_p, scale=scale, mask=mask)
    return o if len(wanted[0]) == 2 else o.reshape(*wanted[0], *o.shape[-2:])


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    mask: str = "no",
    window: tuple[int, int] | None = None,
    bias: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    dropout_p: float = 0.0,
    logits_soft_cap: float = 0.0,
    sink: int | None = None,
    layout: str = "bhsd",
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """:meth:`ckdisp.Dispatcher.fmha_fwd` with gradients of q, k, v and ``bias``.

    Arguments are as there, but that dropout draws from PyTorch's generator of the CPU, and that
    tensors whose last dimension is not dense are copied. The LSE has a gradient too.
    """
    rank = 4 if cu_seqlens_q is None else 3
    for name, t in (("q", q), ("k", k), ("v", v)):
        check_tensor(t, name, rank, rank)
    more = {"bias": bias, "alibi_slopes": alibi_slopes}
    more |= {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    for name, given in more.items():
        if given is not None:
            check_tensor(given, name, 1)
    o, lse = _fmha_fwd(
        *(q, k, v, bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k),
        scale=scale, mask=mask, window=window, sink=sink, dropout_p=dropout_p,
        logits_soft_cap=logits_soft_cap, layout=layout, max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
    )  # fmt: skip
    return (o, lse) if return_lse else o


def _fmha_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    *others: Tensor | None,
    dropout_p: float,
    **how: Any,
) -> tuple[Tensor, Tensor]:
    others += (None,) * (3 - len(others))
    if bias is not None and bias.is_floating_point() and torch.is_autocast_enabled("cpu"):
        bias = to_dtype(bias, torch.get_autocast_dtype("cpu"))
    rng_state = None
    if dropout_p != 0:  # NaN too, which the call refuses
        rng_state = torch.randint(2**63 - 1, (2,), dtype=torch.int64)
    found: tuple[Tensor, Tensor] = torch.ops.ckdisp.fmha_fwd(
        q, k, v, bias, *others, rng_state, dropout_p=dropout_p, **how
    )
    return found


def _with_batch(t: Tensor, outer: tuple[int, ...]) -> Tensor:
    """``t`` repeated to (*outer, rows, size), as (batch, heads, rows, size)."""
    if len(outer) == 2 and t.shape[:-2] == outer:
        return t
    shape = (math.prod(outer[:-1]), outer[-1] if outer else 1, *t.shape[-2:])
    return t.expand(*outer, *t.shape[-2:]).reshape(shape)


def _broadcast(*shapes: Any) -> tuple[int, ...]:
    if shapes[0] == shapes[1] == shapes[2]:
        return tuple(shapes[0])
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        texts = " and ".join(str(tuple(s)) for s in shapes)
        raise InvalidArgument(
            f"the batches and heads of query, key and value are {texts}, which do not broadcast; "
            "pass equal ones, or enable_gqa=True if heads of key and value serve several of query"
        ) from None


def _bias(attn_mask: Tensor, query: Tensor, wanted: tuple[int, ...]) -> Tensor:
    """The mask as numbers to add, with four dimensions that repeat what they did before."""
    if attn_mask.dtype == torch.bool:
        hidden = torch.zeros((), dtype=query.dtype, device=query.device)
        attn_mask = hidden.masked_fill(attn_mask.logical_not(), -math.inf)
    elif not attn_mask.is_floating_point():
        raise InvalidArgument(
            f"attn_mask holds {attn_mask.dtype}; pass bool, True where a key is seen, or numbers "
            f"of {query.dtype} to add to the scores"
        )
    shape = (1,) * (len(wanted) - attn_mask.dim()) + tuple(attn_mask.shape)
    if len(shape) != len(wanted) or any(
        a not in (1, b) for a, b in zip(shape, wanted, strict=True)
    ):
        raise InvalidArgument(
            f"attn_mask has shape {tuple(attn_mask.shape)}, which does not broadcast to {wanted}"
        )
    bias = to_dtype(attn_mask, query.dtype).reshape(shape)
    bias = bias.expand(*shape[:-1], wanted[-1])  # the keys are the only ones that must be there
    if len(wanted) == 2:
        return bias[None, None]
    if all(n == 1 for n in shape[:-3]):
        return bias.reshape(1, *bias.shape[-3:])
    batch = math.prod(wanted[:-3])
    return bias.expand(*wanted[:-3], *bias.shape[-3:]).reshape(batch, *bias.shape[-3:])


__all__ = ["attention", "scaled_dot_product_attention"]
