"""From what calls need to the kernels that serve them: conditions on keys of attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .families import FIELDS
from .signature_rules import head_dims

PLAIN: dict[str, Any] = {
    "bias": "no",
    "qscale": "no",
    "rope": "none",
    **dict.fromkeys(("dropout", "logits", "sink", "paged_kv", "dbias", "deterministic"), False),
    "skip_min_seqlen_q": False,
}
"""A call without any feature."""


def conditions(
    family: str, dtype: str, head_dim: tuple[int, int], mode: str, mask: str, features: Any
) -> dict[str, list[Any]]:
    """The fields of GPU keys of a stage, one for each case, for calls that need ``features``.

    The head dimensions are the least that serve ``head_dim``, those of Q and V; one form of mask
    serves every kind.
    """
    d, dv = head_dim
    sizes = [(q, v) for q, v in head_dims(family, dtype) if q >= d and v >= dv]
    q, v = min(sizes, default=head_dim)
    asked: Mapping[str, Any] = {"mask": "no" if mask == "no" else "generic", **features}
    where = {name: [value] for name, value in asked.items() if name in FIELDS[family]}
    return {"hdim_q": [q], "hdim_v": [v], "mode": [mode], **where}
