"""One attention, as options describe it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..codegen.arch import arch as find_arch
from ..codegen.enums import unknown
from ..codegen.ops.fmha.families import BACKWARD, FORWARD, GRADIENT
from ..codegen.ops.fmha.usage import conditions
from .params import Window

if TYPE_CHECKING:
    from .. import FmhaProblem
    from .fmha_operands import FmhaOperands

LAYOUTS = ("bhsd", "bshd")
# The stages that only come with another one.
_LATER = {
    "fmha.splitkv_combine": "fmha.splitkv",
    "fmha.bwd_dot_do_o": "fmha.bwd",
    "fmha.bwd_convert_dq": "fmha.bwd",
}
_STAGES = {GRADIENT: BACKWARD, "fmha.splitkv": ("fmha.splitkv", "fmha.splitkv_combine")}
_PAGED = ("fmha.pagedkv", "fmha.batch_prefill")
PAGE_SIZE = 16
TYPES = ("fp32", "fp16", "bf16", "fp8", "bf8")
FP8_RESULTS = ("bf16", "fp16", "fp32", "fp8")
_SIZES = "batch, heads of Q, rows of Q, rows of K, head dimension, and that of V where it differs"


@dataclass(frozen=True)
class FmhaOptions:
    """What the options of an attention family said; sizes are those of the command line.

    ``shape`` is batch, heads of Q, rows of Q and K, head dimensions of Q and V. In
    ``fmha.appendkv`` the rows of Q are those that are appended, and those of K the room of a cache.
    """

    family: str
    shape: tuple[int, ...]
    nhead_k: int
    dtype: str
    out_dtype: str | None
    layout: str = "bhsd"
    mask: str = "no"
    window: Window | None = None
    sink: int = 0
    bias: str = "no"
    dropout: float = 0.0
    logits_soft_cap: float = 0.0
    lse: bool = False
    num_splits: int = 0
    page_size: int = 0
    rope: str = "none"
    deterministic: bool = False
    dbias: bool = False

    def __str__(self) -> str:
        said = [self.family, "x".join(map(str, self.shape))]
        if self.nhead_k != self.shape[1]:
            said.append(f"nhead-k {self.nhead_k}")
        out = f" -> {self.out_dtype}" if self.out_dtype else ""
        said += [self.dtype + out, self.layout]
        usual = {"mask": "no", "bias": "no", "rope": "none"}
        said += [value for name, none in usual.items() if (value := getattr(self, name)) != none]
        if self.window is not None:
            said.append("window {},{}".format(*self.window))
        numbers = ("sink", "dropout", "logits_soft_cap", "num_splits", "page_size")
        said += [f"{n.replace('_', '-')} {v:g}" for n in numbers if (v := getattr(self, n))]
        said += [n for n in ("lse", "deterministic", "dbias") if getattr(self, n)]
        return " ".join(said)

    @property
    def types(self) -> str:
        """The types of Q, K, V and O as keys have them."""
        if self.dtype == "fp8":
            out = self.out_dtype or "bf16"
            return "fp8" if out == "fp8" else f"fp8{out}"
        return self.dtype

    @property
    def pages(self) -> tuple[int, int]:
        """Pages of a sequence, and of all."""
        each = -(-self.shape[3] // self.page_size)
        return each, each * self.shape[0]

    def make(self) -> FmhaProblem:
        """The problem for a dispatcher; :class:`ckdisp.InvalidArgument` if it can never work."""
        from .. import FmhaProblem

        batch, heads, rows, keys, d, dv = self.shape
        append = self.family == "fmha.appendkv"
        options: dict[str, Any] = {
            "batch": batch,
            "heads": (heads, self.nhead_k),
            "lengths": (rows if not append or self.rope != "none" else 0, keys),
            "head_dim": (d, dv),
            "dtype": self.types,
            "sink": self.sink or None,
            "dropout": self.dropout > 0,
            "soft_cap": self.logits_soft_cap != 0,
            "splits": self.num_splits,
        }
        same = ("layout", "mask", "window", "bias", "lse", "rope", "deterministic", "dbias")
        options |= {name: getattr(self, name) for name in same}
        if append:
            options |= {"append": rows, "rotary_dim": d if self.rope != "none" else 0}
        if self.page_size:
            each, every = self.pages
            options["pages"] = (self.page_size, every, each)
        if self.family == "fmha.batch_prefill":
            options["totals"] = (batch * rows, batch * keys)
            options |= {"kv_memory_layout": "linear", "kv_lookup": "vllm"}
        return FmhaProblem(self.family, **options)

    @property
    def flops(self) -> float:
        return self.make().flops

    def stages(self, arch: str) -> dict[str, dict[str, list[Any]]]:
        """Family of each stage -> the signature of the problem as a condition on its keys."""
        on_gpu = arch != "native" and find_arch(arch).is_gpu
        made = self.make().to_dict()
        found = {}
        for family in _STAGES.get(self.family, (self.family,)):
            found[family] = {"dtype": [self.types]}
            if on_gpu:
                found[family] |= _features(family, made)
        return found

    def to_dict(self) -> dict[str, Any]:
        return self.make().to_dict()

    def operands(self) -> FmhaOperands:
        """Random data for the problem."""
        from .fmha_operands import FmhaOperands

        return FmhaOperands(self)


def _features(family: str, made: dict[str, Any]) -> dict[str, list[Any]]:
    """The fields that GPU keys of a stage have, one for each case, where the call decides them."""
    asked = {
        "bias": made["bias"],
        "rope": made["rope"],
        "dropout": made["dropout"],
        "logits": made["soft_cap"],
        "sink": made["sink"] > 0,
        "paged_kv": made["pages"][0] > 0,
        "page_size": made["pages"][0],
        "kv_memory_layout": made["kv_memory_layout"],
        "kv_lookup_table": made["kv_lookup"],
        "dbias": made["dbias"],
        "deterministic": made["deterministic"],
    }
    if family in FORWARD and family != "fmha.splitkv":  # whose parts always have an LSE
        asked["lse"] = made["lse"]
    return conditions(*(family, made["dtype"], made["head_dim"], made["mode"], made["mask"]), asked)


def fmha_options(
    family: str, shape: tuple[int, ...], dtype: str, out_dtype: str | None, **given: Any
) -> FmhaOptions:
    """The problem, or a :class:`click.UsageError` for options that do not fit."""
    if family in _LATER:
        raise click.UsageError(f"{family} is a stage of {_LATER[family]}; name that one")
    if not 5 <= len(shape) <= 6:
        raise click.UsageError(
            f"--shape of {family} is {_SIZES}, e.g. 2x8x1024x1024x64, not {len(shape)} sizes"
        )
    if dtype not in TYPES:
        raise click.UsageError(f"attention has no {dtype}; choose one of {', '.join(TYPES)}")
    if out_dtype not in (None, dtype) and (dtype != "fp8" or out_dtype not in FP8_RESULTS):
        raise click.UsageError(
            f"no attention turns {dtype} into {out_dtype}; the result is of the type of Q, or "
            f"for fp8 {', '.join(FP8_RESULTS)}"
        )
    layout = given.get("layout", LAYOUTS[0])
    if layout not in LAYOUTS:
        raise click.UsageError(f"--layout of {family}: {unknown('layout', layout, LAYOUTS)}")
    for name, only in (("rope", "fmha.appendkv"), ("num_splits", "fmha.splitkv")):
        if name in given and family != only:
            raise click.UsageError(f"--{name.replace('_', '-')} is an option of {only} only")
    for name in ("dropout", "logits_soft_cap"):
        if not math.isfinite(given.get(name, 0)):
            raise click.UsageError(f"--{name.replace('_', '-')} is {given[name]}; give a number")
    if family in _PAGED:
        given.setdefault("page_size", PAGE_SIZE)
    given.setdefault("nhead_k", shape[1])
    shape = shape if len(shape) == 6 else (*shape, shape[4])
    return FmhaOptions(family, shape, dtype=dtype, out_dtype=out_dtype, **given)
