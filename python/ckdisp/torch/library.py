"""The library ``torch.ops.ckdisp``, and what its operators share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from ..codegen.errors import DeviceError, InvalidArgument, UnsupportedProblem
from ..tensors import why_unreadable

Tensor = Any  # torch.Tensor; the type checker does without PyTorch
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class _Library(torch.library.Library):  # type: ignore[misc]
    """Operators that refuse forward-mode AD, to which PyTorch would give tangents of zero."""

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **how: Any) -> Any:
        if dispatch_key != "Autograd":
            return super().impl(op_name, fn, dispatch_key, **how)

        def checked(keyset: Any, *args: Any, **options: Any) -> Any:
            if forward_ad._current_level >= 0 and any(map(_has_tangent, args)):
                raise UnsupportedProblem(
                    f"ckdisp::{op_name} has no forward-mode derivative (torch.func.jvp, jacfwd, "
                    "dual numbers); use reverse mode (backward, torch.autograd.grad), or the "
                    "function of torch.nn.functional"
                )
            return fn(keyset, *args, **options)

        return super().impl(op_name, checked, dispatch_key, **how)


def _has_tangent(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and forward_ad.unpack_dual(t).tangent is not None


library = _Library("ckdisp", "DEF")


def define(name: str, schema: str, kernel: Callable[..., Any], fake: Callable[..., Any]) -> None:
    """An operator of CPU tensors; ``fake`` makes empty tensors as ``kernel`` returns."""
    library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, kernel, "CPU")
    torch.library.register_fake(f"ckdisp::{name}", fake, lib=library)


def differentiate(
    name: str, backward: Callable[..., Any], setup_context: Callable[..., None] | None = None
) -> None:
    torch.library.register_autograd(
        f"ckdisp::{name}", backward, setup_context=setup_context, lib=library
    )


def autocast(name: str, count: int) -> None:
    """Let autocast convert the first ``count`` tensors of an operator."""
    op = getattr(torch.ops.ckdisp, name)

    def kernel(*args: Any, **how: Any) -> Any:
        dtype = torch.get_autocast_dtype("cpu")
        cast = [
            t.to(dtype)
            if t is not None and t.is_floating_point() and t.dtype != torch.float64
            else t
            for t in args[:count]
        ]
        with torch.autocast("cpu", enabled=False):
            return op(*cast, *args[count:], **how)

    library.impl(name, kernel, "AutocastCPU")


def to_dtype(mask: Tensor, dtype: Any) -> Tensor:
    """A mask of numbers in ``dtype``, in which those that are finite stay so.

    What is filled with the smallest number of fp32 must not become -infinity, which hides keys.
    """
    limits = torch.finfo(dtype)
    if torch.finfo(mask.dtype).max > limits.max:
        mask = torch.where(mask.isinf(), mask, mask.clamp(limits.min, limits.max))
    return mask.to(dtype)


def check_dtype(t: Tensor, name: str) -> None:
    if t.dtype not in DTYPES:
        raise InvalidArgument(
            f"{name} holds {t.dtype}, and the operators compute torch.float32, torch.float16 and "
            "torch.bfloat16; convert it"
        )


def check_tensor(t: Tensor, name: str, least: int, most: int | None = None) -> None:
    """Refuse what is no tensor in the CPU's memory of ``least`` to ``most`` dimensions."""
    if not isinstance(t, torch.Tensor):
        raise InvalidArgument(f"{name} must be a tensor of PyTorch, not {type(t).__name__}")
    if t.device.type != "meta" and (why := why_unreadable(t, name)):
        raise InvalidArgument(why)
    if t.device.type not in ("cpu", "meta"):
        raise DeviceError(
            f"{name} is on {t.device}, and these operators compute on the CPU; pass {name}.cpu(), "
            "or call the methods of ckdisp.Dispatcher for tensors of an AMD GPU"
        )
    if t.dim() < least or (most is not None and t.dim() > most):
        wanted = f"{least} or more" if most is None else f"{least} to {most}"
        wanted = str(least) if most == least else wanted
        raise InvalidArgument(
            f"{name} has shape {tuple(t.shape)}; pass a tensor of {wanted} dimensions"
        )


def check_bias(bias: Tensor | None, weight: Tensor) -> None:
    """Refuse a bias that is not one number for each result of ``weight``."""
    if bias is None:
        return
    check_tensor(bias, "bias", 1, 1)
    if bias.shape[0] != weight.shape[0]:
        raise InvalidArgument(
            f"bias has {bias.shape[0]} numbers, and weight {tuple(weight.shape)} gives "
            f"{weight.shape[0]} results; pass one number for each"
        )


__all__ = [
    "autocast",
    "check_bias",
    "check_dtype",
    "check_tensor",
    "define",
    "differentiate",
    "library",
    "to_dtype",
]
