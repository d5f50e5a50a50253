"""Rules of the features of attention kernels on GPUs: which go together, which exclude others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...columns import Array, Columns
from ...enums import (
    FAMILY,
    FMHA_BIAS,
    FMHA_KV_LAYOUT,
    FMHA_KV_LOOKUP,
    FMHA_MASK,
    FMHA_MODE,
    FMHA_QSCALE,
    FMHA_ROPE,
)
from ...rules import Rule
from .. import facts
from ..spread import is_power_of_two
from .columns import all_of, any_of, dtype_is, family_rule, pipeline_is
from .families import FIELDS, FORWARD, FP8, GRADIENT

_ALL = tuple(FIELDS)
_PREFILL = ("fmha.batch_prefill",)
# The values of a field that families have on a GPU.
_QSCALES = {
    "fmha.fwd": ("no", "pertensor", "blockscale"),
    "fmha.batch_prefill": ("no", "pertensor", "kv_blockscale"),
}
_SIMPLE_QSCALES = ("no", "pertensor")


def _is(column: str, enum: Any, *values: str) -> Any:
    return lambda c: facts.one_of(enum, values, c[column])


def _flag(c: Columns, name: str) -> Array:
    return c[name].astype(np.bool_)


def _group(c: Columns) -> Array:
    return np.asarray(c["mode"] == FMHA_MODE.code("group"))


def _group_padding(c: Columns) -> Array:
    padded = c["padding_sq"] != 0
    keys = facts.one_of(FAMILY, FORWARD, c["family"])
    padded = padded & (~keys | (c["padding_sk"] != 0))
    # The main backward kernel and append-KV do not pad this way.
    free = facts.one_of(FAMILY, (GRADIENT, "fmha.appendkv"), c["family"])
    return np.asarray(~_group(c) | padded | free)


def _qscale_family(c: Columns) -> Array:
    ok = [
        (c["family"] == FAMILY.code(f)) & facts.one_of(FMHA_QSCALE, known, c["qscale"])
        for f in FIELDS
        for known in (_QSCALES.get(f, _SIMPLE_QSCALES),)
    ]
    return np.asarray(any_of(ok))


def _pages_of_two(c: Columns) -> Array:
    return is_power_of_two(c["page_size"])


def _training(c: Columns) -> Array:
    none = ~_flag(c, "lse") & ~_flag(c, "dropout") & ~_flag(c, "skip_min_seqlen_q")
    return ~dtype_is(c, *FP8) | none


RULES: tuple[Rule, ...] = (
    family_rule(
        _ALL,
        "call_decides",
        "GPU kernels are compiled for one mode, mask, bias and rotary embedding",
        "mode mask bias rope",
        lambda c: all_of(
            [
                c[name] != enum.code("any")
                for name, enum in (
                    ("mode", FMHA_MODE),
                    ("mask", FMHA_MASK),
                    ("bias", FMHA_BIAS),
                    ("rope", FMHA_ROPE),
                )
            ]
        ),
        lambda k: (
            "a GPU kernel cannot leave "
            + ", ".join(f for f in ("mode", "mask", "bias", "rope") if getattr(k, f) == "any")
            + " to a call; only CPU kernels are any"
        ),
    ),
    family_rule(
        _ALL,
        "simplified_mask",
        "the simplified form of a mask is no or generic",
        "mask simplified_mask",
        lambda c: ~_flag(c, "simplified_mask") | _is("mask", FMHA_MASK, "no", "generic")(c),
        lambda k: (
            f"mask {k.mask} has no simplified form; generic with simplified_mask serves every kind"
        ),
    ),
    family_rule(
        FORWARD,
        "soft_cap_bias",
        "scores that are capped have no bias",
        "logits bias",
        lambda c: ~_flag(c, "logits") | _is("bias", FMHA_BIAS, "no", "any")(c),
        lambda k: f"logits (soft cap) excludes bias {k.bias}; use one of them",
    ),
    family_rule(
        _ALL,
        "group_padding",
        "in mode group sequences have any length: sq and sk are padded",
        "mode padding_sq padding_sk",
        _group_padding,
        lambda k: (
            f"{k.family} in mode group needs padding of sq"
            + (" and sk" if k.family in FORWARD else "")
            + f", not {k.padding}: its sequences have any length"
        ),
    ),
    family_rule(
        _ALL,
        "qscale_family",
        "the family has the kind of scales",
        "qscale",
        _qscale_family,
        lambda k: (
            f"{k.family} has no qscale {k.qscale}; "
            f"it has {', '.join(_QSCALES.get(k.family, _SIMPLE_QSCALES))}"
        ),
    ),
    family_rule(
        _ALL,
        "qscale_dtype",
        "only fp8 types have scales",
        "qscale dtype",
        lambda c: _is("qscale", FMHA_QSCALE, "no")(c) | dtype_is(c, *FP8),
        lambda k: f"{k.dtype} is not quantised: qscale is no, not {k.qscale}",
    ),
    family_rule(
        ("fmha.fwd", "fmha.pagedkv", "fmha.batch_prefill", "fmha.splitkv_combine"),
        "fp8_training",
        "fp8 kernels are for inference: no LSE, no dropout, no skipping",
        "dtype lse dropout skip_min_seqlen_q",
        _training,
        lambda k: (
            f"{k.dtype} kernels have no "
            + ", ".join(f for f in ("lse", "dropout", "skip_min_seqlen_q") if getattr(k, f))
        ),
    ),
    family_rule(
        FORWARD[:1] + _PREFILL,
        "forward_randval",
        "forward kernels with dropout store the random numbers if a call asks for them",
        "store_randval",
        lambda c: ~_flag(c, "store_randval"),
        lambda k: f"{k.family} with dropout stores random numbers on demand; leave store_randval",
    ),
    family_rule(
        ("fmha.fwd",),
        "fp32_pipeline",
        "fp32 has the pipeline qr",
        "dtype pipeline",
        lambda c: ~dtype_is(c, "fp32") | pipeline_is(c, "qr"),
        lambda k: f"pipeline {k.pipeline} has no fp32 kernels; use qr",
    ),
    family_rule(
        ("fmha.splitkv",),
        "splitkv_lse",
        "parts of a sum need their LSE",
        "lse",
        lambda c: _flag(c, "lse"),
        lambda k: "fmha.splitkv stores LSE always: fmha.splitkv_combine reads it; set lse",
    ),
    family_rule(
        ("fmha.splitkv", "fmha.appendkv"),
        "fp8_pages",
        "split and appended fp8 keys are not in pages",
        "dtype paged_kv",
        lambda c: ~dtype_is(c, *FP8) | ~_flag(c, "paged_kv"),
        lambda k: f"{k.family} of {k.dtype} has no pages; use fmha.pagedkv or another dtype",
    ),
    family_rule(
        ("fmha.appendkv",),
        "fp8_rope",
        "rotary embeddings are computed in fp16 and bf16",
        "dtype rope",
        lambda c: ~dtype_is(c, *FP8) | _is("rope", FMHA_ROPE, "none")(c),
        lambda k: f"fmha.appendkv of {k.dtype} has no rotary embedding; use rope none",
    ),
    family_rule(
        ("fmha.appendkv",),
        "append_mode",
        "keys are appended in mode batch",
        "mode",
        lambda c: ~_group(c),
        lambda k: "fmha.appendkv exists in mode batch only",
    ),
    family_rule(
        ("fmha.pagedkv", "fmha.batch_prefill"),
        "always_paged",
        "the family reads keys in pages",
        "paged_kv",
        lambda c: _flag(c, "paged_kv"),
        lambda k: f"{k.family} always reads pages; set paged_kv",
    ),
    family_rule(
        _PREFILL,
        "prefill_mode",
        "batch prefill takes sequences of many lengths: mode group",
        "mode",
        _group,
        lambda k: f"fmha.batch_prefill exists in mode group, not {k.mode}",
    ),
    family_rule(
        _PREFILL,
        "prefill_pages",
        "batch prefill says how pages are stored and found",
        "kv_memory_layout kv_lookup_table",
        lambda c: (
            ~_is("kv_memory_layout", FMHA_KV_LAYOUT, "none")(c)
            & ~_is("kv_lookup_table", FMHA_KV_LOOKUP, "none")(c)
        ),
        lambda k: (
            "fmha.batch_prefill needs kv_memory_layout (vectorized, linear) and kv_lookup_table "
            "(vllm, sglang), not none"
        ),
    ),
    family_rule(
        _PREFILL,
        "page_size",
        "the keys of a page are a power of two",
        "page_size",
        _pages_of_two,
        lambda k: f"page_size {k.page_size} is not a power of two",
    ),
    family_rule(
        _PREFILL,
        "single_keys",
        "pages of one key are stored row by row",
        "page_size kv_memory_layout",
        lambda c: (c["page_size"] != 1) | _is("kv_memory_layout", FMHA_KV_LAYOUT, "linear")(c),
        lambda k: f"page_size 1 needs kv_memory_layout linear, not {k.kv_memory_layout}",
    ),
    family_rule(
        _PREFILL,
        "block_scale_pages",
        "keys and values with a scale for each page fill tiles",
        "qscale page_size tile_1",
        lambda c: ~_is("qscale", FMHA_QSCALE, "kv_blockscale")(c) | (c["page_size"] >= c["tile_1"]),
        lambda k: (
            f"qscale kv_blockscale needs pages of at least one tile, {k.tile[1]} keys, "
            f"not {k.page_size}"
        ),
    ),
    family_rule(
        (GRADIENT,),
        "dbias_bias",
        "the gradient of a bias needs a bias",
        "dbias bias",
        lambda c: ~_flag(c, "dbias") | _is("bias", FMHA_BIAS, "bias")(c),
        lambda k: f"dbias is the gradient of an elementwise bias; bias is {k.bias}, not bias",
    ),
    family_rule(
        (GRADIENT,),
        "randval_dropout",
        "random numbers are stored where some are drawn",
        "store_randval dropout",
        lambda c: ~_flag(c, "store_randval") | _flag(c, "dropout"),
        lambda k: "store_randval without dropout: no random numbers are drawn",
    ),
)
