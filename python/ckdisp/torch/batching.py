"""How ``torch.vmap`` treats the operators: one call for all, where the batch can hold them."""

from __future__ import annotations

from typing import Any

import torch

Tensor = Any


def _rule(name: str, rows: int) -> Any:
    """The rule of operator ``name``, whose first ``rows`` tensors have a batch."""

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any, **how: Any) -> Any:
        op = getattr(torch.ops.ckdisp, name)
        count = info.batch_size
        args = tuple(
            t if dim is None else t.movedim(dim, 0) for t, dim in zip(args, in_dims, strict=True)
        )
        batched = [dim is not None for dim in in_dims]
        # Sequences of many lengths have no batch, and dropout draws by the place in it.
        if any(t is not None for t in args[rows + 2 :]):
            found = [
                op(*(t[i] if each else t for t, each in zip(args, batched, strict=True)), **how)
                for i in range(count)
            ]
            return tuple(map(torch.stack, zip(*found, strict=True))), (0,) * len(found[0])
        folded = [
            (t if each else t.expand(count, *t.shape)).flatten(0, 1)
            for t, each in zip(args[:rows], batched, strict=False)
        ]
        batch = args[0].shape[1] if batched[0] else args[0].shape[0]
        ranks = (4, 2)  # of a bias and of slopes, with a batch
        for t, each, rank in zip(args[rows:], batched[rows:], ranks, strict=False):
            folded.append(_fold(t, each, rank, count, batch))
        outputs = op(*folded, **how)
        return tuple(_unfold(t, count, batch) for t in outputs), (0,) * len(outputs)

    return rule


def _fold(t: Tensor | None, batched: bool, rank: int, count: int, batch: int) -> Tensor | None:
    """A tensor that broadcasts to a batch, for ``count`` batches one behind the other."""
    if t is None:
        return None
    size = t.dim() - batched
    shape = (1,) * (rank - size) + tuple(t.shape[batched:])
    if not batched and shape[0] == 1:
        return t
    t = t.reshape((count if batched else 1, *shape))
    return t.expand(count, batch, *shape[1:]).flatten(0, 1)


def _unfold(t: Tensor, count: int, batch: int) -> Tensor:
    if t.dim() == 1:  # the gradient of a bias that nobody asked for
        return t.expand(count, *t.shape)
    return t.unflatten(0, (count, batch))


def register_vmap(library: Any) -> None:
    torch.library.register_vmap("ckdisp::fmha_fwd", _rule("fmha_fwd", 3), lib=library)
    torch.library.register_vmap("ckdisp::fmha_bwd", _rule("fmha_bwd", 6), lib=library)


__all__ = ["register_vmap"]
