"""Which tensors a direction multiplies: the A, B and C of its implicit GEMM."""

from __future__ import annotations

# Direction -> the suffixes of dtype fields of A, B and C.
OPERANDS = {
    "conv.fwd": ("in", "wei", "out"),
    "conv.bwd_data": ("out", "wei", "in"),
    "conv.bwd_weight": ("out", "in", "wei"),
}
DTYPES = ("dtype_in", "dtype_wei", "dtype_out")


def types(family: str, dtypes: tuple[str, str, str]) -> tuple[str, str, str]:
    """The types of A, B and C of a direction, from those of input, weights and output."""
    by_name = dict(zip(("in", "wei", "out"), dtypes, strict=True))
    a, b, c = (by_name[name] for name in OPERANDS[family])
    return a, b, c


def tensors(family: str, a: str, b: str, c: str) -> tuple[str, str, str]:
    """The types of input, weights and output of a direction, from those of A, B and C."""
    by_name = dict(zip(OPERANDS[family], (a, b, c), strict=True))
    return by_name["in"], by_name["wei"], by_name["out"]
