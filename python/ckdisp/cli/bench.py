"""``ckdisp bench``: one problem, timed side by side with NumPy and PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from .output import bold, human_time, json_option, plural, print_json, print_table
from .problems import ProblemOptions, problem_options
from .sources import Source, source_options
from .timing import Timing, interleaved

if TYPE_CHECKING:
    from .operands import Operands

    Contestants = dict[str, Callable[[], object]]


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

    The contestants run in turns in one process. NumPy and PyTorch multiply matrices without the
    epilogue, NumPy in fp32 for every type that its BLAS lacks; it has no convolution and no
    attention. PyTorch attends to keys that lie in no pages, and its backward pass is by autograd.
    With --check the exit code is 1 if the result is wrong.
    """
    operands = problem.operands()
    dispatcher = source.dispatcher(problem)
    kernel = dispatcher.select(problem.make()).name
    run = functools.partial(operands.run, dispatcher)
    checked = _check(run(), operands) if check else None
    contestants: Contestants = {"ckdisp": run}
    if (by_numpy := operands.numpy()) is not None:
        contestants[by_numpy[0]] = by_numpy[1]
    if not no_torch and _torch_threads(source.threads):
        by_torch = operands.torch()
        if by_torch is not None:
            contestants["torch"] = by_torch
    timings = interleaved(contestants, seconds=seconds)
    if as_json:
        print_json(
            {
                "problem": problem.to_dict(),
                "kernel": kernel,
                "threads": dispatcher.num_threads,
                "timings": {n: _to_dict(t, problem.flops) for n, t in timings.items()},
                "check": checked,
            }
        )
    else:
        click.echo(f"{bold(str(problem))}, {plural(dispatcher.num_threads, 'thread')}, {kernel}")
        _print_timings(timings, problem.flops)
        if checked is not None:
            click.echo(f"check: {checked['text']}")
    if checked is not None and not checked["ok"]:
        raise SystemExit(1)


def _torch_threads(threads: int | None) -> bool:
    """Whether PyTorch is here; it is told to use ``threads``."""
    try:
        import torch
    except ImportError:
        return False
    if threads is not None:
        torch.set_num_threads(threads)
    return True


def _check(result: Any, operands: Operands) -> dict[str, Any]:
    from .. import Validator

    results, references = (
        x if isinstance(x, tuple) else (x,) for x in (result, operands.reference())
    )
    reports = [Validator().check(x, y) for x, y in zip(results, references, strict=True)]
    return {"ok": all(reports), "text": "; ".join(map(str, reports))}


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
                f"{_gflops(t, flops):.1f}" if flops else "-",
                str(t.runs),
                "" if name == "ckdisp" else f"{t.median / ours:.2f}x as fast",
            )
            for name, t in timings.items()
        ],
        right=("median", "min", "GFLOP/s", "runs", "ckdisp is"),
    )
