"""``ckdisp bench``: one problem, timed side by side with NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from .arrays import element_type, random_array, require_memory
from .output import bold, human_time, json_option, plural, print_json, print_table
from .problems import ProblemOptions, problem_options
from .sources import Source, source_options
from .timing import Timing, interleaved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Contestants = dict[str, Callable[[], object]]

_TORCH = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


@click.command("bench")
@problem_options
@source_options
@click.option(
    "--seconds",
    type=click.FloatRange(0.01, 600),
    default=1.0,
    show_default=True,
    help="Time to spend, all contestants together.",
)
@click.option("--check", is_flag=True, help="Compare the result with a float64 reference first.")
@click.option("--no-torch", is_flag=True, help="Leave PyTorch out, even if it is installed.")
@json_option
def bench_command(
    problem: ProblemOptions,
    source: Source,
    seconds: float,
    check: bool,
    no_torch: bool,
    as_json: bool,
) -> None:
    """Time a problem against NumPy and PyTorch.

    The contestants run in turns in one process. NumPy and PyTorch compute the product without the
    epilogue; NumPy uses fp32 for every type that its BLAS lacks. With --check the exit code is 1
    if the result is wrong.
    """
    shape = problem.shape
    operands = _Operands(problem)
    dispatcher = source.dispatcher(problem)
    kernel = dispatcher.select(problem.make()).name

    def run() -> Any:
        return dispatcher.gemm(
            operands.a, operands.b, d=operands.d, epilogue=problem.epilogue, out=operands.c
        )

    checked = _check(run(), operands, problem) if check else None
    contestants: Contestants = {"ckdisp": run}
    label = "numpy" if problem.dtype == "fp32" else "numpy fp32"
    contestants[label] = operands.numpy_product()
    if not no_torch and problem.dtype in _TORCH and _torch_threads(source.threads):
        contestants["torch"] = operands.torch_product()
    timings = interleaved(contestants, seconds=seconds)
    if as_json:
        print_json(
            {
                "problem": problem.to_dict(),
                "kernel": kernel,
                "threads": dispatcher.num_threads,
                "timings": {n: _to_dict(t, shape.flops) for n, t in timings.items()},
                "check": checked,
            }
        )
    else:
        click.echo(f"{bold(str(problem))}, {plural(dispatcher.num_threads, 'thread')}, {kernel}")
        _print_timings(timings, shape.flops)
        if checked is not None:
            click.echo(f"check: {checked['text']}")
    if checked is not None and not checked["ok"]:
        raise SystemExit(1)


class _Operands:
    """A, B, C and the D tensors of a problem, stored as its layout says."""

    def __init__(self, problem: ProblemOptions) -> None:
        shape, layout = problem.shape, problem.layout
        self.dtype = problem.dtype
        out = str(problem.make().to_dict()["dtype_c"])
        sizes = shape.m * shape.k + shape.k * shape.n
        item = element_type(problem.dtype).itemsize
        wide = 4 * sizes if problem.dtype != "fp32" else 0
        outputs = shape.m * shape.n * (element_type(out).itemsize * (1 + problem.num_d) + 8)
        require_memory(sizes * item + wide + outputs, f"a GEMM of {shape}")
        self.a = _stored((shape.m, shape.k), layout[0], problem.dtype, 1)
        self.b = _stored((shape.k, shape.n), layout[1], problem.dtype, 2)
        self.d = [_stored((shape.m, shape.n), "r", out, 3 + i) for i in range(problem.num_d)]
        self.c = _stored((shape.m, shape.n), layout[2], out, 0)

    def numpy_product(self) -> Callable[[], object]:
        import numpy as np

        a, b = (np.asarray(x, np.float32) for x in (self.a, self.b))
        out = np.empty((a.shape[0], b.shape[1]), np.float32)
        return lambda: np.matmul(a, b, out=out)

    def torch_product(self) -> Callable[[], object]:
        import torch

        a, b = (_to_torch(x, self.dtype) for x in (self.a, self.b))
        out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype)
        return lambda: torch.matmul(a, b, out=out)


def _stored(shape: tuple[int, int], order: str, dtype: str, seed: int) -> NDArray[Any]:
    if order == "r":
        return random_array(shape, dtype, seed)
    return random_array(shape[::-1], dtype, seed).T


def _to_torch(array: NDArray[Any], dtype: str) -> Any:
    """The same bytes as a PyTorch tensor; PyTorch does not know the bfloat16 of ml_dtypes."""
    import numpy as np
    import torch

    if dtype == "bf16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _torch_threads(threads: int | None) -> bool:
    """Whether PyTorch is here; it is told to use ``threads``."""
    try:
        import torch
    except ImportError:
        return False
    if threads is not None:
        torch.set_num_threads(threads)
    return True


def _check(result: Any, operands: _Operands, problem: ProblemOptions) -> dict[str, Any]:
    from .. import Validator, reference

    expected = reference.gemm(operands.a, operands.b, d=operands.d, epilogue=problem.epilogue)
    report = Validator().check(result, expected)
    return {"ok": report.ok, "text": str(report)}


def _to_dict(timing: Timing, flops: float) -> dict[str, float]:
    return {**asdict(timing), "gflops": _gflops(timing, flops)}


def _gflops(timing: Timing, flops: float) -> float:
    return flops / timing.median * 1e-9


def _print_timings(timings: dict[str, Timing], flops: float) -> None:
    ours = timings["ckdisp"].median
    print_table(
        ("", "median", "min", "GFLOP/s", "runs", "ckdisp is"),
        [
            (
                name,
                human_time(t.median),
                human_time(t.minimum),
                f"{_gflops(t, flops):.1f}",
                str(t.runs),
                "" if name == "ckdisp" else f"{t.median / ours:.2f}x as fast",
            )
            for name, t in timings.items()
        ],
        right=("median", "min", "GFLOP/s", "runs", "ckdisp is"),
    )
