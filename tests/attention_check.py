"""Runs an attention kernel on the CPU in every way it is for, and compares with the reference."""

from __future__ import annotations

from typing import Any

import ckdisp
from ckdisp.cli.fmha_options import fmha_options

# The first stage of what a kernel is a later stage of.
LEADING = {
    "fmha.splitkv_combine": "fmha.splitkv",
    "fmha.bwd_dot_do_o": "fmha.bwd_dq_dk_dv",
    "fmha.bwd_convert_dq": "fmha.bwd_dq_dk_dv",
}
# Batch, heads, rows of Q and K, head dimensions: none fills its tiles.
_SHAPES = ((2, 6, 37, 75, 40, 24), (1, 2, 1, 300, 64, 64), (1, 3, 130, 9, 8, 16))
_SCORES: tuple[dict[str, Any], ...] = (
    {"nhead_k": 1, "mask": "bottom_right", "layout": "bshd"},
    {"mask": "top_left", "window": (20, 3), "bias": "bias"},
    {"bias": "alibi"},
)
_FORWARD: tuple[dict[str, Any], ...] = (
    *({**how, "lse": True} for how in _SCORES),
    {"mask": "bottom_right", "window": (9, 0), "sink": 2, "logits_soft_cap": 4.0},
)
_DROPS: tuple[dict[str, Any], ...] = ({"mask": "top_left", "dropout": 0.3},)
_WAYS: dict[str, tuple[dict[str, Any], ...]] = {
    "fmha.fwd": (*_FORWARD, *_DROPS),
    "fmha.splitkv": (
        *({**how, "num_splits": 3} for how in _FORWARD),
        {"num_splits": 2, "page_size": 8},
    ),
    "fmha.pagedkv": (*({**how, "page_size": 8} for how in _FORWARD), {"page_size": 1}),
    "fmha.batch_prefill": (*({**how, "page_size": 8} for how in _FORWARD), *_DROPS),
    "fmha.appendkv": (
        {"nhead_k": 1, "rope": "interleaved", "mask": "bottom_right"},
        {"rope": "half_rotated", "page_size": 8, "layout": "bshd"},
        {},
    ),
    "fmha.bwd_dq_dk_dv": (
        *_SCORES,
        *_DROPS,
        {"bias": "bias", "dbias": True, "deterministic": True},
    ),
}


def check_attention(disp: ckdisp.Dispatcher, key: Any, seed: int) -> None:
    """Assert that plans with the kernel of ``key`` compute what the float64 reference does.

    ``disp`` has the kernels of the other stages, and one kernel of each family and type.
    """
    family = LEADING.get(key.family, key.family)
    ways = _WAYS[family]
    for number, shape in enumerate(_SHAPES):
        batch, heads, rows, keys, *sizes = shape
        if family == "fmha.appendkv" and rows > keys:
            rows, keys = keys, rows
        for how in ways[(number + seed) % 2 :: 2]:
            problem = fmha_options(
                family, (batch, heads, rows, keys, *sizes), key.dtype, None, **how
            )
            stages = disp.plan(problem.make()).stages
            assert key.name in [stage.kernel.name for stage in stages], str(problem)
            operands = problem.operands()
            results, references = operands.run(disp), operands.reference()
            if not isinstance(results, tuple):
                results, references = (results,), (references,)
            for result, reference in zip(results, references, strict=True):
                check = ckdisp.Validator().check(result, reference)
                assert check, f"{key.name} of {problem}: {check}"
