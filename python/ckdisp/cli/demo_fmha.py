"""``ckdisp demo fmha``: an attention block of a language model, forward, decoding and backward."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..codegen.make import parse_name
from ..codegen.ops.gemm.key import GemmKey
from . import attention_block as block_parts
from .arrays import element_type
from .attention_block import OUT, Block, Sizes, Steps
from .demo_gemm import short as gemm_text
from .demo_parts import (
    ROUNDING,
    SUMMATION,
    Checked,
    Legend,
    Say,
    kernels_at_hand,
    largest_error,
    show,
)
from .output import human_time, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .. import Dispatcher, KernelSet
    from .attention_block import Tensors

SIZES = Sizes()
QUICK_TOKENS = 64
RUNS = 3
FAMILIES = (
    *("fwd", "splitkv", "splitkv_combine", "pagedkv", "appendkv"),
    *("bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq"),
)
# Every step rounds, and reads what the steps before have rounded; most of that averages out.
ROUNDINGS = 3
AGREE = "as forward"

COLUMNS = {
    "pass": 14,
    "step": 10,
    "kernel": 36,
    "time": 9,
    "GFLOP/s": 8,
    "error": 8,
    "": 5,
}
LEGEND = Legend(
    "family, or pipeline and cache block of a GEMM",
    "result",
    "fp64",
    (
        "time:   of all tokens together; decode takes a token at a time, on one thread",
        f"{AGREE}: the difference to the result of the forward pass in place of NumPy's",
    ),
)


@dataclass(frozen=True)
class Row(Checked):
    """One step of one pass. Its reference is that of the whole path from the tokens to it."""

    way: str
    step: str
    kernels: tuple[str, ...]
    seconds: float | None
    gflops: float | None
    error: float
    tolerance: float

    @property
    def place(self) -> str:
        return f"{self.way} {self.step}"

    def names(self) -> tuple[str, ...]:
        return self.kernels

    def cells(self) -> tuple[str, ...]:
        return (
            self.way,
            self.step,
            _short(self.kernels),
            human_time(self.seconds) if self.seconds is not None else "-",
            f"{self.gflops:.1f}" if self.gflops else "-",
            f"{self.error:.1e}",
            self.mark,
        )

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        return {"pass": values.pop("way"), **values, **self.verdict()}


def fmha_demo(dtype: str, quick: bool, threads: int | None, say: Say) -> dict[str, Any]:
    """One block on the bytes of a text, compared with NumPy."""
    from .. import Dispatcher

    text = files(__package__).joinpath("demo_text.txt").read_bytes()
    tokens = text[:QUICK_TOKENS] if quick else text
    registry, source = kernels_at_hand(_kernels(dtype), say)
    dispatcher = Dispatcher(registry, num_threads=threads)
    s = SIZES
    say(
        f"An attention block of {s.heads} heads of {s.head_dim}, {s.kv_heads} of K and V, and "
        f"{s.dim} channels, causal, with RoPE,\non a text of {len(tokens)} tokens in {dtype}, "
        f"{plural(dispatcher.num_threads, 'thread')}, {source}\n"
    )
    about = {
        **asdict(s),
        "tokens": len(tokens),
        "dtype": dtype,
        "threads": dispatcher.num_threads,
        "kernels": source,
    }
    block = Block.make(s, tokens, element_type(dtype))
    decoder = Dispatcher(registry, num_threads=1)
    passes = _Passes(block, dispatcher, decoder, dtype, 1 if quick else RUNS)
    return show(passes.rows(), COLUMNS, about, LEGEND, say)


def _kernels(dtype: str) -> KernelSet:
    """What a block needs; fp32 gradients need no conversion."""
    from .. import KernelSet

    where: dict[str, Any] = {"dtype": [dtype], "layout": ["rcr", "rrr"]}
    kernels = KernelSet.sweep("gemm.standard", arch="native", where=where)
    turned = {"dtype": [dtype], "layout": ["crr"], "pipeline": ["packed"]}
    kernels |= KernelSet.sweep("gemm.standard", arch="native", where=turned)
    for family in FAMILIES:
        if family != "bwd_convert_dq" or dtype != "fp32":
            where = {"dtype": [dtype]}
            kernels |= KernelSet.sweep(f"fmha.{family}", arch="native", where=where)
    return kernels


@dataclass(frozen=True)
class _Passes:
    """The ways through a block, of which the medians of ``runs`` passes are told; of one to decode.

    A token at a time is too little work for several threads, which would wait for each other.
    """

    block: Block
    dispatcher: Dispatcher
    decoder: Dispatcher
    dtype: str
    runs: int

    @property
    def tolerance(self) -> float:
        return SUMMATION + ROUNDINGS * ROUNDING[self.dtype]

    def rows(self) -> Iterator[Row]:
        wanted, gradients = block_parts.expected(self.block)
        kept: list[Any] = []

        def forward(steps: Steps) -> Tensors:
            found, kept[:] = block_parts.forward(self.block, steps)
            return found

        results = yield from self._timed("forward", forward, wanted, self.dispatcher, self.runs)
        ways = {"pagedkv": {}, "splitkv": {"num_splits": block_parts.SPLITS}}
        for method, options in ways.items():
            way = f"decode {method}"
            decode = partial(block_parts.decode, self.block, f"fmha_{method}", options)
            again = yield from self._timed(way, decode, wanted, self.decoder, 1)
            error = largest_error(again[OUT][0], results[OUT][0])
            yield Row(way, AGREE, (), None, None, error, self.tolerance)
        backward = partial(block_parts.backward, self.block, kept)
        yield from self._timed("backward", backward, gradients, self.dispatcher, self.runs)

    def _timed(
        self,
        way: str,
        run: Callable[[Steps], Tensors],
        wanted: Tensors,
        dispatcher: Dispatcher,
        runs: int,
    ) -> Generator[Row, None, Tensors]:
        """The steps of a pass in the order that they run in; what the last of the passes found."""
        passes = [Steps(dispatcher) for _ in range(runs)]
        for steps in passes:
            found = run(steps)
        flops = self.block.flops(gradients=way == "backward")
        for step, kernels in passes[0].kernels.items():
            seconds = statistics.median(steps.seconds[step] for steps in passes)
            yield Row(
                way,
                step,
                kernels,
                seconds,
                flops[step] / seconds * 1e-9,
                _worst(found[step], wanted[step]),
                self.tolerance,
            )
        return found


def _worst(found: Sequence[NDArray[Any]], wanted: Sequence[NDArray[Any]]) -> float:
    """The largest error of several tensors, NaN if one is."""
    import numpy as np

    return float(np.max([largest_error(x, y) for x, y in zip(found, wanted, strict=True)]))


def _short(names: tuple[str, ...]) -> str:
    """What tells the kernels of this table apart: families, or the algorithm of a GEMM."""
    keys = [parse_name(name) for name in names]
    if any(isinstance(key, GemmKey) for key in keys):
        return gemm_text(names[0])
    families = [key.family.partition(".")[2] for key in keys] or ["-"]
    shared = families[0].partition("_")[0] + "_"
    return " + ".join((families[0], *(name.removeprefix(shared) for name in families[1:])))
