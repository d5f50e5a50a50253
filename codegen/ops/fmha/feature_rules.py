"""Attention kernels that some versions of the CK Tile headers do not have."""

from __future__ import annotations

from collections.abc import Collection

from ...rules import Rejection
from ..features import FeatureRule, missing
from .key import FmhaKey

_PREFILL = "fmha.batch_prefill"
# CK's buffers of the LDS for the last step of K and the first of V, by the numbers of both steps.
_BUFFERS = {
    (4, 4): (1, 0),
    (4, 2): (1, 2),
    (2, 4): (2, 0),
    (3, 3): (0, 1),
    (3, 4): (0, 0),
    (2, 2): (2, 1),
}
_RACE = (
    "in qr_async of the CK Tile headers waves store the first step of V where others still read "
    "the last of K, for so many steps along the head and the keys; use pipeline qr, other steps, "
    "or headers in which the waves wait"
)


def _share_a_buffer(key: FmhaKey) -> bool:
    """Whether the last step of K and the first of V have one buffer of the three in the LDS."""
    if key.pipeline != "qr_async":
        return False
    steps_k, steps_v = key.tile[5] // key.tile[2], key.tile[1] // key.tile[4]
    others = ((steps_k - 1) % 3, 2 - (steps_v - 1) % 3)
    last_k, first_v = _BUFFERS.get((steps_k, steps_v), others)
    return last_k == first_v


RULES: tuple[FeatureRule, ...] = (
    FeatureRule(
        "headers_fmha",
        "fmha",
        lambda k: True,
        "the CK Tile headers have no attention whose kernels cap scores and skip sequences; "
        "use newer headers (ROCm 7.1 has them)",
    ),
    FeatureRule(
        "headers_async_barrier",
        "fmha_async_barrier",
        lambda k: k.family == "fmha.fwd" and _share_a_buffer(k),
        _RACE,
    ),
    FeatureRule(
        "headers_prefill_barrier",
        "fmha_prefill_barrier",
        lambda k: k.family == _PREFILL and _share_a_buffer(k),
        _RACE,
    ),
    FeatureRule(
        "headers_trload",
        "fmha_trload",
        lambda k: k.use_trload,
        "the CK Tile headers have no attention that reads LDS transposed; use newer headers "
        "(ROCm 7.1 has them) or another pipeline",
    ),
    FeatureRule(
        "headers_v3",
        "fmha_v3",
        lambda k: k.pipeline == "v3",
        "the CK Tile headers have no pipeline v3; use newer headers (ROCm 7.1 has them) or "
        "another pipeline",
    ),
    FeatureRule(
        "headers_v3_soft_cap",
        "fmha_v3_soft_cap",
        lambda k: k.pipeline == "v3" and k.logits,
        "v3 of the CK Tile headers caps no scores; use another pipeline",
    ),
    FeatureRule(
        "headers_sink",
        "fmha_sink",
        lambda k: k.sink,
        "the CK Tile headers have no sink; use sink false, or newer headers",
    ),
    FeatureRule(
        "headers_block_scales",
        "fmha_block_scales",
        lambda k: k.qscale in ("blockscale", "kv_blockscale"),
        "the CK Tile headers have one scale for each tensor; use qscale no or pertensor, or newer "
        "headers",
    ),
    FeatureRule(
        "headers_prefill_pages",
        "fmha_prefill_pages",
        lambda k: (
            k.family == _PREFILL
            and (k.page_size, k.kv_memory_layout, k.kv_lookup_table) != (1, "linear", "sglang")
        ),
        "batch prefill of the CK Tile headers has pages of one key, in lists; use page_size 1, "
        "kv_memory_layout linear and kv_lookup_table sglang, or newer headers",
    ),
)


def missing_features(key: FmhaKey, features: Collection[str]) -> list[Rejection]:
    """Why headers with ``features`` cannot build ``key``; an empty list if they can."""
    return missing(RULES, key, features)
