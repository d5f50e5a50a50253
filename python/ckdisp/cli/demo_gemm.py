"""``ckdisp demo gemm``: the whole path on the layers of a real language model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..codegen.ops.gemm.key import GemmKey
from .arrays import element_type, random_array, require_memory
from .demo_parts import (
    ROUNDING,
    SUMMATION,
    Checked,
    Legend,
    Say,
    kernels_of,
    largest_error,
    show,
)
from .output import human_time, plural
from .params import Shape
from .timing import interleaved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .. import Dispatcher

MODEL = "Llama 3 8B"
LAYERS = {  # name -> N, K
    "qkv_proj": (6144, 4096),
    "o_proj": (4096, 4096),
    "gate_up_proj": (28672, 4096),
    "down_proj": (4096, 14336),
}
QUICK_LAYERS = ("qkv_proj", "o_proj")
TOKENS = (1, 16, 128)
SECONDS = 0.4  # time spent on one row, unless three runs take longer

REFERENCE_ROWS = 4096  # rows of a weight that are widened to fp32 at a time


COLUMNS = {
    "layer": 12,
    "N x K": 12,
    "M": 4,
    "kernel": 22,
    "time": 9,
    "GFLOP/s": 8,
    "NumPy": 9,
    "error": 8,
    "": 5,
}


@dataclass(frozen=True)
class Row(Checked):
    """One layer for one number of tokens; times in seconds.

    The reference is NumPy's fp32 product of the same inputs, every element compared.
    """

    layer: str
    shape: Shape
    kernel: str
    seconds: float
    numpy_seconds: float | None
    error: float
    tolerance: float

    @property
    def gflops(self) -> float:
        return self.shape.flops / self.seconds * 1e-9

    @property
    def place(self) -> str:
        return f"{self.layer} M={self.shape.m}"

    def names(self) -> tuple[str, ...]:
        return (self.kernel,)

    def cells(self) -> tuple[str, ...]:
        return (
            self.layer,
            f"{self.shape.n}x{self.shape.k}",
            str(self.shape.m),
            short(self.kernel),
            human_time(self.seconds),
            f"{self.gflops:.1f}",
            human_time(self.numpy_seconds) if self.numpy_seconds is not None else "-",
            f"{self.error:.1e}",
            self.mark,
        )

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        shape = values.pop("shape")
        return {**shape, **values, "gflops": self.gflops, **self.verdict()}


def gemm_demo(dtype: str, quick: bool, threads: int | None, say: Say) -> dict[str, Any]:
    """The GEMMs of a language model, compared with NumPy."""
    layers = [name for name in LAYERS if not quick or name in QUICK_LAYERS]
    _require_memory(layers, dtype)
    from .. import Dispatcher, KernelSet

    where = {"dtype": [dtype], "layout": ["rcr"]}
    kernels = KernelSet.sweep("gemm.standard", arch="native", where=where)
    registry, source = kernels_of(kernels, say)

    dispatcher = Dispatcher(registry, num_threads=threads)
    say(f"{MODEL} layers in {dtype}, {plural(dispatcher.num_threads, 'thread')}, {source}\n")
    about = {
        "model": MODEL,
        "dtype": dtype,
        "threads": dispatcher.num_threads,
        "kernels": source,
    }
    rows = _run(dispatcher, layers, dtype, 0.1 if quick else SECONDS)
    return show(rows, COLUMNS, about, _legend(dtype), say)


def _legend(dtype: str) -> Legend:
    notes = f"NumPy:  multiplies {dtype} without its BLAS, so its time would say nothing"
    return Legend(
        "pipeline, cache block (M x N x K), register tile (M x N)",
        "C",
        "fp32",
        () if dtype == "fp32" else (notes,),
    )


def _require_memory(layers: list[str], dtype: str) -> None:
    weights = max(n * k for n, k in map(LAYERS.__getitem__, layers))
    widened = 0 if dtype == "fp32" else 4 * REFERENCE_ROWS * max(LAYERS[x][1] for x in layers)
    size = element_type(dtype).itemsize * weights + widened + (64 << 20)
    require_memory(size, "the demo")


def _run(dispatcher: Dispatcher, layers: list[str], dtype: str, seconds: float) -> Iterator[Row]:
    """Time and check every layer. All weights are views of one buffer, to save memory and time."""
    import numpy as np

    from .. import GemmProblem

    buffer = random_array((max(n * k for n, k in map(LAYERS.__getitem__, layers)),), dtype, seed=1)
    for layer in layers:
        n, k = LAYERS[layer]
        weight = buffer[: n * k].reshape(n, k)
        for m in TOKENS:
            x = random_array((m, k), dtype, seed=m)
            out = np.empty((m, n), x.dtype)
            contestants: dict[str, Callable[[], object]] = {
                "ckdisp": partial(dispatcher.gemm, x, weight.T, out=out)
            }
            product = np.empty((m, n), np.float32)
            if dtype == "fp32":
                contestants["numpy"] = partial(np.matmul, x, weight.T, out=product)
            timings = interleaved(contestants, seconds=seconds)
            if dtype != "fp32":
                _widened_product(x, weight, product)
            yield Row(
                layer=layer,
                shape=Shape(m, n, k),
                kernel=dispatcher.select(GemmProblem(m, n, k, dtype=dtype)).name,
                seconds=timings["ckdisp"].median,
                numpy_seconds=timings["numpy"].median if "numpy" in timings else None,
                error=largest_error(out, product),
                tolerance=SUMMATION + ROUNDING[dtype],
            )


def _widened_product(x: NDArray[Any], weight: NDArray[Any], out: NDArray[Any]) -> None:
    """``x @ weight.T`` by NumPy in fp32, a block of weights at a time."""
    import numpy as np

    wide = x.astype(np.float32)
    for start in range(0, weight.shape[0], REFERENCE_ROWS):
        block = weight[start : start + REFERENCE_ROWS].astype(np.float32)
        out[:, start : start + REFERENCE_ROWS] = wide @ block.T


def short(name: str) -> str:
    """What tells the kernels of this table apart: pipeline and tiles."""
    key = GemmKey.from_name(name)
    return f"{key.pipeline} {'x'.join(map(str, key.tile))} {'x'.join(map(str, key.warp[:2]))}"
