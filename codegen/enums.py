"""The enumerations of kernel keys: one list of values, seen by Python, C++, names and JSON.

The position of a value is its code in columns and in the C++ enum, so append new values at the
end of a list: reordering changes the schema hash and with it the ABI of every built library.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from .arch import arch_names
from .errors import InvalidKey, suggest

_CPP_KEYWORDS = frozenset(("auto", "default"))


@functools.cache
def token(value: str) -> str:
    """The spelling of ``value`` inside a kernel name: lower-case letters and digits only."""
    return "".join(ch for ch in value.lower() if ch.isalnum())


@dataclass(frozen=True)
class Enum:
    """A closed list of names. ``cpp`` is the C++ enum class, ``doc`` one line for the docs."""

    cpp: str
    values: tuple[str, ...]
    doc: str
    _codes: dict[str, int] = field(init=False, repr=False, compare=False)
    _tokens: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_codes", {v: i for i, v in enumerate(self.values)})
        object.__setattr__(self, "_tokens", {token(v): v for v in self.values})
        if len(self._codes) != len(self.values) or len(self._tokens) != len(self.values):
            raise ValueError(f"enum {self.cpp}: two values share a name or a token")

    def __contains__(self, value: object) -> bool:
        return value in self._codes

    def code(self, value: str, what: str = "value") -> int:
        """The integer code of ``value``; :class:`InvalidKey` names the known values otherwise."""
        try:
            return self._codes[value]
        except (KeyError, TypeError):
            raise InvalidKey(unknown(what, value, self.values)) from None

    def from_token(self, text: str, what: str = "value") -> str:
        """The value whose name token is ``text``."""
        try:
            return self._tokens[text]
        except KeyError:
            raise InvalidKey(unknown(what, text, tuple(self._tokens))) from None

    def enumerator(self, value: str) -> str:
        """The C++ enumerator: ``gemm.multi_d`` is ``gemm_multi_d``, ``default`` is ``default_``."""
        name = "".join(ch if ch.isalnum() else "_" for ch in value)
        return name + "_" if name in _CPP_KEYWORDS else name


def unknown(what: str, value: object, known: Sequence[str]) -> str:
    """The text of an unknown-name error: what was given, the nearest name, the known ones once."""
    listed = ", ".join(dict.fromkeys(known))
    return f"unknown {what} {value!r}{suggest(value, known)}; known: {listed}"


FAMILY = Enum(
    "Family",
    (
        "gemm.standard",
        "gemm.preshuffle",
        "gemm.multi_d",
        "conv.fwd",
        "conv.bwd_data",
        "conv.bwd_weight",
        "fmha.fwd",
        "fmha.splitkv",
        "fmha.splitkv_combine",
        "fmha.pagedkv",
        "fmha.appendkv",
        "fmha.batch_prefill",
        "fmha.bwd_dot_do_o",
        "fmha.bwd_dq_dk_dv",
        "fmha.bwd_convert_dq",
    ),
    "kind of kernel",
)


FAMILY_GROUPS = {
    "fmha.bwd": ("fmha.bwd_dq_dk_dv", "fmha.bwd_dot_do_o", "fmha.bwd_convert_dq"),
}
"""Names of several families that solve a problem together, the leading one first."""


def families(op: str) -> tuple[str, ...]:
    """The families of an op."""
    return tuple(family for family in FAMILY.values if family.startswith(f"{op}."))


def families_named(name: str) -> tuple[str, ...]:
    """The family called ``name``, or those of a group; :class:`InvalidKey` for neither."""
    if name in FAMILY_GROUPS:
        return FAMILY_GROUPS[name]
    if name not in FAMILY:
        raise InvalidKey(unknown("family", name, (*FAMILY.values, *FAMILY_GROUPS)))
    return (name,)


PROVIDER = Enum("Provider", ("cpu", "ck_tile", "cutlass"), "kernel library behind a key")
ARCH = Enum("Arch", arch_names(), "GPU architecture or CPU level")
DTYPE = Enum(
    "Dtype",
    ("fp32", "fp16", "bf16", "fp8", "bf8", "int8", "int32"),
    "element type; fp8 is e4m3, bf8 is e5m2",
)
LAYOUT = Enum(
    "Layout",
    ("rcr", "rrr", "crr", "ccr"),
    "storage of A, B, C: r is row-major, c is column-major",
)
ORDER = Enum("Order", ("r", "c"), "storage of one matrix: row-major or column-major")
ELEMENTWISE = Enum(
    "Elementwise",
    (
        "passthrough",
        "add",
        "multiply",
        "multi_d_add",
        "multi_d_multiply",
        "relu",
        "gelu",
        "fast_gelu",
        "sigmoid",
        "tanh",
        "swish",
        "hard_swish",
        "clamp",
    ),
    "element-wise operation fused behind the accumulation",
)
PIPELINE = Enum(
    "Pipeline",
    (
        "mem",
        "compv3",
        "compv4",
        "compv5",
        "compv6",
        "preshufflev2",
        "packed",
        "skinny",
        "compasync",
        "direct",
        "cooperative",
        "pingpong",
        "cooperative_fast",
        "pingpong_fast",
        "unaligned",
    ),
    "main loop; packed, skinny and direct are the CPU provider's, those behind them CUTLASS's",
)
SCHEDULER = Enum("Scheduler", ("default", "intrawave", "interwave"), "main-loop scheduler")
EPILOGUE = Enum(
    "Epilogue",
    ("default", "cshuffle", "tma", "tma_transposed"),
    "how the C tile leaves registers; tma_transposed: its transpose was computed",
)
CONV_LAYOUT = Enum(
    "ConvLayout",
    ("nwgc", "nhwgc", "ndhwgc"),
    "storage of the input; the weights are gk...c and the output n...gk of the same rank",
)
SPECIALIZATION = Enum(
    "ConvSpecialization",
    ("default", "filter1x1_pad0", "filter1x1_stride1_pad0", "filter3x3"),
    "filters that a convolution kernel is restricted to",
)
FMHA_DTYPE = Enum(
    "FmhaDtype",
    (
        "fp32",
        "fp16",
        "bf16",
        "fp8",
        "bf8",
        "fp8fp16",
        "fp8bf16",
        "fp8fp32",
        "mxfp8",
        "mxfp4",
    ),
    "types of Q, K, V and O: one for all, or that of Q, K, V and that of O",
)
FMHA_PIPELINE = Enum(
    "FmhaPipeline",
    (
        "qr",
        "qr_async",
        "qs",
        "qr_async_trload",
        "v3",
        "qr_pagedkv",
        "qr_nwarp_sshuffle",
        "splitkv_combine",
        "appendkv",
        "bwd",
        "online",
    ),
    "main loop of an attention kernel; online is the CPU provider's",
)
FMHA_MODE = Enum(
    "FmhaMode",
    ("batch", "group", "any"),
    "sequences of one length, or of many lengths one behind the other; any is decided by a call",
)
FMHA_MASK = Enum(
    "FmhaMask",
    ("no", "top_left", "bottom_right", "generic", "any"),
    "which keys a query sees: all, a triangle, a window; any is decided by a call",
)
FMHA_BIAS = Enum(
    "FmhaBias",
    ("no", "bias", "alibi", "any"),
    "what is added to the scores: nothing, a tensor, slopes times distance; any: a call decides",
)
FMHA_QSCALE = Enum(
    "FmhaQscale",
    ("no", "pertensor", "blockscale", "kv_blockscale"),
    "scales of quantised Q, K and V",
)
FMHA_ROPE = Enum(
    "FmhaRope",
    ("none", "interleaved", "half_rotated", "any"),
    "rotary embedding of appended keys; any is decided by a call",
)
FMHA_KV_LAYOUT = Enum(
    "FmhaKvLayout",
    ("none", "vectorized", "linear"),
    "storage inside a page of batch prefill: split for vector loads, or row by row",
)
FMHA_KV_LOOKUP = Enum(
    "FmhaKvLookup",
    ("none", "vllm", "sglang"),
    "how batch prefill finds pages: a row of a table for a sequence, or ranges of one list",
)
