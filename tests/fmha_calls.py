"""One problem as calls of every forward family."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from fmha_random import pages_of


def calls_of_all_families(
    draw: random.Random, q: Any, k: Any, v: Any, size: int
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any], Any]]:
    """By family: tensors, other arguments, and the table of pages of ``size`` keys or None."""
    batch, keys = k.shape[0], k.shape[2]
    seed = draw.getrandbits(32)
    (kp, table), (vp, _) = (pages_of(np.random.default_rng(seed), x, size) for x in (k, v))
    paged = {"page_table": table, "seqlens_k": np.full(batch, keys, np.int32), "max_seqlen_k": keys}
    yield "fwd", (q, k, v), {}, None
    yield "splitkv", (q, k, v), {"num_splits": 3}, None
    yield "splitkv", (q, kp, vp), {"num_splits": 2, **paged}, table
    yield "pagedkv", (q, kp, vp), paged, table
    starts = np.arange(batch + 1, dtype=np.int32) * q.shape[2]
    rows = np.ascontiguousarray(q.swapaxes(0, 1).reshape(q.shape[1], -1, q.shape[3]))
    many = {"cu_seqlens_q": starts, "layout": "bhsd"}
    yield "batch_prefill", (rows, kp, vp), {**paged, **many}, table
