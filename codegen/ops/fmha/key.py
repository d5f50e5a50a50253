"""The fields of an attention kernel key, of all nine families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...enums import (
    ARCH,
    FAMILY,
    FMHA_BIAS,
    FMHA_DTYPE,
    FMHA_KV_LAYOUT,
    FMHA_KV_LOOKUP,
    FMHA_MASK,
    FMHA_MODE,
    FMHA_PIPELINE,
    FMHA_QSCALE,
    FMHA_ROPE,
    ORDER,
    PROVIDER,
)
from ...key import KernelKey
from ...schema import enum_field, flag_field, int_field, ints_field

# Components of tile, wave and warp; the fields say what they are in which family.
_TILE = ("0", "1", "2", "3", "4", "5", "6", "7", "8")
_STAGES = ("m0", "n0", "k0", "m1", "n1", "k1", "m2", "n2", "k2")


@dataclass(frozen=True, order=True, slots=True)
class FmhaKey(KernelKey):
    """One attention kernel.

    S = scale * Q K^T + bias is masked, P = softmax(S), O = P V. Sequences of queries have length
    sq, those of keys sk; head dimensions are d of Q and K, dv of V and O.

    Numbers of ``tile`` by family, those that a family lacks are 0 and not written out:

    * fwd, splitkv, pagedkv, batch_prefill: sq, sk, d per step, dv, sk per step, d in all
    * splitkv_combine: dv
    * appendkv: sq, sk, d, dv
    * bwd_dot_do_o: sq
    * bwd_dq_dk_dv: sq, sk, then the steps of the five GEMMs Q K^T, P^T dO, dO V^T, dS^T Q and dS K,
      then d in all, dv in all
    * bwd_convert_dq: sq, sk

    ``wave`` and ``warp`` have (M, N, K) for each stage of matrix instructions: two of the forward
    families (Q K^T; P V), three of bwd_dq_dk_dv (Q K^T and dO V^T; P^T dO and dS^T Q; dS K), none
    of the others.
    """

    op: ClassVar[str] = "fmha"

    family: str = enum_field(FAMILY, "identity", "kind of kernel")
    provider: str = enum_field(PROVIDER, "identity", "kernel library")
    arch: str = enum_field(ARCH, "identity", "GPU architecture or CPU level")

    dtype: str = enum_field(FMHA_DTYPE, "signature", "types of Q, K, V and O")
    hdim_q: int = int_field("q", "signature", "head dimension of Q and K; 0 is any, on a CPU")
    hdim_v: int = int_field("v", "signature", "head dimension of V and O; 0 is any, on a CPU")
    mode: str = enum_field(FMHA_MODE, "signature", "how sequences are stored")
    vlayout: str = enum_field(ORDER, "signature", "storage of V: r is sk x dv, c is dv x sk")
    mask: str = enum_field(FMHA_MASK, "signature", "which keys a query sees")
    bias: str = enum_field(FMHA_BIAS, "signature", "what is added to the scores")
    qscale: str = enum_field(FMHA_QSCALE, "signature", "scales of quantised tensors")
    rope: str = enum_field(FMHA_ROPE, "signature", "rotary embedding")
    kv_memory_layout: str = enum_field(FMHA_KV_LAYOUT, "signature", "storage inside a page")
    kv_lookup_table: str = enum_field(FMHA_KV_LOOKUP, "signature", "how pages are found")
    page_size: int = int_field("z", "signature", "keys of a page; 0 is a call's to say")
    lse: bool = flag_field("l", "also stores the logarithm of the softmax's sum", "signature")
    dropout: bool = flag_field("x", "drops probabilities at random", "signature")
    store_randval: bool = flag_field("r", "also stores the random numbers", "signature")
    logits: bool = flag_field("c", "caps the scores softly, by tanh", "signature")
    sink: bool = flag_field("s", "the first keys stay visible to every query", "signature")
    skip_min_seqlen_q: bool = flag_field("k", "leaves short sequences of Q out", "signature")
    paged_kv: bool = flag_field("p", "K and V lie in pages", "signature")
    dbias: bool = flag_field("b", "also computes the gradient of the bias", "signature")
    deterministic: bool = flag_field("d", "sums dQ in a fixed order", "signature")
    use_trload: bool = flag_field("t", "reads LDS transposed (gfx950)")
    simplified_mask: bool = flag_field("m", "one form of mask, which covers every kind")

    tile: tuple[int, ...] = ints_field(_TILE, "t", "block tile, see the class", least=1)
    wave: tuple[int, ...] = ints_field(_STAGES, "w", "waves per block, by stage", least=0)
    warp: tuple[int, ...] = ints_field(_STAGES, "r", "warp tile, by stage", least=0)
    pipeline: str = enum_field(FMHA_PIPELINE, "algorithm", "main loop")
    padding: tuple[int, ...] = ints_field(
        ("sq", "sk", "d", "dv"), "p", "what need not fill tiles: 0 none, 1 any, 8 multiples of 8"
    )
    dropout_warp: int = int_field("h", "algorithm", "side of a warp tile of random numbers, or 0")
    max_seq_len_q: int = int_field("u", "algorithm", "longest sequence of Q; 0 is any")
    num_wave_groups: int = int_field("g", "algorithm", "wave groups that alternate")
    block_per_cu: int = int_field(
        "o", "algorithm", "blocks per compute unit; 0 is the pipeline's choice"
    )
