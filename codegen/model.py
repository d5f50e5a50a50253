"""The kernels that a transformer's layers need, from the sizes and types that its authors know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from .arch import arch as find_arch
from .declare import ArchLike, declare_sweep, resolve_archs
from .enums import unknown
from .errors import InvalidKey
from .ops.fmha.families import BACKWARD_DTYPES, DTYPES, FP8
from .ops.fmha.usage import PLAIN, conditions
from .parts import Part

_MASKS = ("no", "top_left", "bottom_right")
_FORWARD_LAYOUTS = ("rcr",)
# Of y = x W^T with W as PyTorch has it: y, the gradient of x, and that of W.
_TRAINING_LAYOUTS = ("rcr", "rrr", "crr")


@dataclass(frozen=True)
class Model:
    """What :meth:`KernelSet.for_model` takes."""

    heads: int
    head_dim: int
    kv_heads: int | None = None
    dtype: str = "bf16"
    mask: str = "top_left"
    training: bool = False
    packed: bool = False
    dropout: bool = False
    deterministic: bool = False
    layouts: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Refuses what no transformer has."""
        for name in ("heads", "head_dim", "kv_heads"):
            value = getattr(self, name)
            if name == "kv_heads" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidKey(f"{name} must be a positive integer, not {value!r}")
        for name in ("training", "packed", "dropout", "deterministic"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidKey(f"{name} must be true or false, not {getattr(self, name)!r}")
        if self.heads % (self.kv_heads or self.heads):
            raise InvalidKey(
                f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads}): each head "
                "of K and V serves as many heads of Q"
            )
        types = BACKWARD_DTYPES if self.training else tuple(d for d in DTYPES if d not in FP8)
        if self.dtype not in types:
            raise InvalidKey(unknown("dtype", self.dtype, types))
        if self.mask not in _MASKS:
            raise InvalidKey(unknown("mask", self.mask, _MASKS))
        if self.dropout and not self.training:
            raise InvalidKey("dropout is a part of training; give training=True, or leave it out")
        if self.deterministic and not self.training:
            raise InvalidKey("deterministic is about sums of gradients; give training=True with it")

    @classmethod
    def read(cls, values: Any) -> Model:
        """The model of a spec's object; :class:`InvalidKey` for members that are no field."""
        known = tuple(f.name for f in fields(cls))
        if not isinstance(values, dict):
            raise InvalidKey(f"must be an object with {', '.join(known)}, not {values!r}")
        for name in values:
            if name not in known:
                raise InvalidKey(unknown("field of a model", name, known))
        missing = [name for name in ("heads", "head_dim") if name not in values]
        if missing:
            raise InvalidKey(f"{' and '.join(missing)} must be given, e.g. heads 32, head_dim 128")
        return cls(**values)


def declare_model(model: Model, arch: ArchLike) -> list[Part]:
    """The parts of a set for a model; see :meth:`KernelSet.for_model`."""
    parts: list[Part] = []
    for name in resolve_archs(arch):
        for family in ("fmha.fwd", "fmha.bwd" if model.training else "fmha.splitkv"):
            parts += declare_sweep(family, name, None, None, "curated", _where(model, family, name))
        layouts = model.layouts
        if layouts is None:
            layouts = _TRAINING_LAYOUTS if model.training else _FORWARD_LAYOUTS
        if layouts:
            where = {"dtype": model.dtype, "layout": layouts}
            parts += declare_sweep("gemm.standard", name, None, None, "curated", where)
    return parts


def _where(model: Model, family: str, arch: str) -> dict[str, Any]:
    if not find_arch(arch).is_gpu:
        return {"dtype": model.dtype}
    features = {
        **PLAIN,
        "lse": model.training,
        "dropout": model.dropout,
        "deterministic": model.deterministic,
    }
    if family == "fmha.splitkv":
        del features["lse"]  # parts always have one
    leading = "fmha.bwd_dq_dk_dv" if family == "fmha.bwd" else family
    head_dim = (model.head_dim, model.head_dim)
    mode = "group" if model.packed else "batch"
    where = conditions(leading, model.dtype, head_dim, mode, model.mask, features)
    return {"dtype": model.dtype, **where}
