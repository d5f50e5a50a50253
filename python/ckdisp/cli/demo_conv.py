"""``ckdisp demo conv``: every distinct convolution of ResNet-50."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..codegen.ops.conv.key import ConvKey
from .conv_options import ConvOptions
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
from .timing import interleaved

if TYPE_CHECKING:
    from .. import Dispatcher

MODEL = "ResNet-50"
IMAGES = 4
# Name -> input channels, output channels, input size, filter, stride. A filter of three pixels is
# padded by one, the first one of seven by three.
LAYERS = {
    "stem": (3, 64, 224, 7, 2),
    "res2 1x1 64": (64, 64, 56, 1, 1),
    "res2 3x3": (64, 64, 56, 3, 1),
    "res2 1x1 up": (64, 256, 56, 1, 1),
    "res2 1x1 down": (256, 64, 56, 1, 1),
    "res3 1x1 first": (256, 128, 56, 1, 1),
    "res3 3x3 /2": (128, 128, 56, 3, 2),
    "res3 skip /2": (256, 512, 56, 1, 2),
    "res3 1x1 up": (128, 512, 28, 1, 1),
    "res3 1x1 down": (512, 128, 28, 1, 1),
    "res3 3x3": (128, 128, 28, 3, 1),
    "res4 1x1 first": (512, 256, 28, 1, 1),
    "res4 3x3 /2": (256, 256, 28, 3, 2),
    "res4 skip /2": (512, 1024, 28, 1, 2),
    "res4 1x1 up": (256, 1024, 14, 1, 1),
    "res4 1x1 down": (1024, 256, 14, 1, 1),
    "res4 3x3": (256, 256, 14, 3, 1),
    "res5 1x1 first": (1024, 512, 14, 1, 1),
    "res5 3x3 /2": (512, 512, 14, 3, 2),
    "res5 skip /2": (1024, 2048, 14, 1, 2),
    "res5 1x1 up": (512, 2048, 7, 1, 1),
    "res5 1x1 down": (2048, 512, 7, 1, 1),
    "res5 3x3": (512, 512, 7, 3, 1),
}
QUICK_LAYERS = ("res2 1x1 64", "res4 3x3", "res5 3x3")
SECONDS = 0.3  # time spent on one layer, unless three runs take longer


COLUMNS = {
    "layer": 15,
    "C": 5,
    "K": 5,
    "size": 5,
    "kernel": 28,
    "time": 9,
    "GFLOP/s": 8,
    "error": 8,
    "": 5,
}
LEGEND = Legend("pipeline and what it is restricted to", "result", "fp64")


@dataclass(frozen=True)
class Row(Checked):
    """One layer."""

    layer: str
    problem: str
    kernel: str
    seconds: float
    gflops: float
    error: float
    tolerance: float

    @property
    def place(self) -> str:
        return self.layer

    def names(self) -> tuple[str, ...]:
        return (self.kernel,)

    def cells(self) -> tuple[str, ...]:
        c, k, size, _, _ = LAYERS[self.layer]
        return (
            self.layer,
            str(c),
            str(k),
            str(size),
            _short(self.kernel),
            human_time(self.seconds),
            f"{self.gflops:.1f}",
            f"{self.error:.1e}",
            self.mark,
        )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), **self.verdict()}


def conv_demo(
    direction: str, dtype: str, quick: bool, threads: int | None, say: Say
) -> dict[str, Any]:
    """The layers of ResNet-50, compared with NumPy."""
    from .. import Dispatcher, KernelSet

    where = {"dtype": [dtype], "layout": ["nhwgc"]}
    kernels = KernelSet.sweep(f"conv.{direction}", arch="native", where=where)
    registry, source = kernels_of(kernels, say)
    dispatcher = Dispatcher(registry, num_threads=threads)
    say(
        f"{MODEL} layers, {direction}, {IMAGES} images in {dtype}, "
        f"{plural(dispatcher.num_threads, 'thread')}, {source}\n"
    )
    about = {
        "model": MODEL,
        "direction": direction,
        "images": IMAGES,
        "dtype": dtype,
        "threads": dispatcher.num_threads,
        "kernels": source,
    }
    rows = _run(dispatcher, dtype, direction, quick)
    return show(rows, COLUMNS, about, LEGEND, say)


def _run(dispatcher: Dispatcher, dtype: str, direction: str, quick: bool) -> Iterator[Row]:
    for layer, sizes in LAYERS.items():
        if quick and layer not in QUICK_LAYERS:
            continue
        problem = _problem(sizes, dtype, direction)
        operands = problem.operands()
        run = partial(operands.run, dispatcher)
        timing = interleaved({"ckdisp": run}, seconds=0.1 if quick else SECONDS)["ckdisp"]
        made = problem.make()
        yield Row(
            layer=layer,
            problem=str(problem),
            kernel=dispatcher.select(made).name,
            seconds=timing.median,
            gflops=made.flops / timing.median * 1e-9,
            error=largest_error(run(), operands.reference()),
            tolerance=SUMMATION + ROUNDING[dtype],
        )


def _problem(sizes: tuple[int, ...], dtype: str, direction: str) -> ConvOptions:
    c, k, size, filter_, stride = sizes
    return ConvOptions(
        family=f"conv.{direction}",
        input=(IMAGES, c, size, size),
        weights=(k, c, filter_, filter_),
        stride=(stride, stride),
        padding=(filter_ // 2, filter_ // 2),
        dilation=(1, 1),
        groups=1,
        dtype=dtype,
        out_dtype=None,
    )


def _short(name: str) -> str:
    """What tells the kernels of this table apart."""
    key = ConvKey.from_name(name)
    return key.pipeline if key.specialization == "default" else f"{key.pipeline} 1x1"
