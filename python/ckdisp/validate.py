"""Compares a result with its reference, with tolerances that fit the element type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .codegen.errors import InvalidArgument
from .tensors import dtype_name

# (rtol, atol): for the narrow types a few roundings of the result, for fp32 what accumulating
# thousands of products loses.
_TOLERANCES: dict[str, tuple[float, float]] = {
    "fp32": (1e-4, 1e-4),
    "fp16": (2e-3, 2e-3),
    "bf16": (1e-2, 1e-2),
    "fp8": (8e-2, 8e-2),
    "bf8": (1.6e-1, 1.6e-1),
    "int8": (0.0, 0.0),
    "int32": (0.0, 0.0),
}


@dataclass(frozen=True)
class Check:
    """The outcome of :meth:`Validator.check`. True when the result is good.

    ``max_abs`` and ``max_rel`` are the largest absolute and relative differences over finite
    values; ``mismatches`` counts elements out of tolerance, NaN and infinities that differ
    included; ``worst`` is the index of the largest difference out of tolerance, if any.
    """

    ok: bool
    max_abs: float
    max_rel: float
    mismatches: int
    size: int
    rtol: float
    atol: float
    worst: tuple[int, ...] | None

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        if self.ok:
            return f"ok: max abs {self.max_abs:.3g}, max rel {self.max_rel:.3g}"
        return (
            f"{self.mismatches} of {self.size} elements differ (rtol {self.rtol:g}, atol "
            f"{self.atol:g}): max abs {self.max_abs:.3g}, max rel {self.max_rel:.3g}, worst at "
            f"{self.worst}"
        )


@dataclass(frozen=True)
class Validator:
    """Checks ``|out - ref| <= atol + rtol * |ref|`` elementwise.

    Tolerances left as None follow the element type of the result.
    """

    rtol: float | None = None
    atol: float | None = None

    def check(self, out: Any, ref: Any) -> Check:
        """Compare ``out``, of any tensor kind and dtype, with ``ref`` of the same shape.

        NaN matches NaN, an infinity the same infinity. Raises :class:`InvalidArgument` for shapes
        that differ.
        """
        name, result = _as_float64(out)
        _, wanted = _as_float64(ref)
        if result.shape != wanted.shape:
            raise InvalidArgument(
                f"the result has shape {result.shape}, its reference {wanted.shape}"
            )
        rtol, atol = _TOLERANCES.get(name, (1e-6, 1e-6))
        rtol = rtol if self.rtol is None else self.rtol
        atol = atol if self.atol is None else self.atol
        return _compare(result, wanted, rtol, atol)


def _as_float64(tensor: Any) -> tuple[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """The element type of ``tensor``, empty when kernels do not have it, and its values."""
    try:
        name = dtype_name(tensor.dtype)
    except (AttributeError, ValueError):
        name = ""
    if not hasattr(tensor, "__array__") and hasattr(tensor, "__dlpack__"):
        tensor = np.from_dlpack(tensor)
    elif type(tensor).__module__.partition(".")[0] == "torch":
        tensor = tensor.detach().double()  # NumPy does not know every type of PyTorch
    return name, np.asarray(tensor).astype(np.float64)


def _compare(
    out: np.ndarray[Any, Any], ref: np.ndarray[Any, Any], rtol: float, atol: float
) -> Check:
    finite = np.isfinite(out) & np.isfinite(ref)
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = np.where(finite, np.abs(out - ref), 0.0)
        relative = np.where(ref != 0, difference / np.abs(ref), 0.0)
    same = np.where(finite, difference <= atol + rtol * np.where(finite, np.abs(ref), 0.0), False)
    same |= (np.isnan(out) & np.isnan(ref)) | (~finite & (out == ref))
    bad = ~same
    mismatches = int(np.count_nonzero(bad))
    worst = None
    if mismatches:
        score = np.where(bad, np.where(finite, difference, np.inf), -1.0)
        worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(score)), out.shape))
    return Check(
        ok=mismatches == 0,
        max_abs=float(difference.max(initial=0.0)),
        max_rel=float(np.where(finite, relative, 0.0).max(initial=0.0)),
        mismatches=mismatches,
        size=out.size,
        rtol=rtol,
        atol=atol,
        worst=worst,
    )
