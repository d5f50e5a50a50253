"""Calls of ``ckdisp.torch`` and what they must give, by PyTorch in float64.

Importing this skips a module of tests where PyTorch is missing.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
attend = torch.nn.functional.scaled_dot_product_attention


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
