"""``ckdisp demo``: the whole path on the layers of real models."""

from __future__ import annotations

import click

from .demo_parts import ROUNDING
from .output import json_option
from .sources import limit_threads, threads_option


@click.command("demo")
@click.argument("op", type=click.Choice(["gemm", "conv"]), default="gemm", required=False)
@click.option(
    "--dtype",
    type=click.Choice(list(ROUNDING)),
    default="fp32",
    show_default=True,
    help="Element type of activations, weights and results.",
)
@click.option(
    "--direction",
    type=click.Choice(["fwd", "bwd_data", "bwd_weight"]),
    help="conv: what to compute; default fwd.",
)
@click.option("--quick", is_flag=True, help="Only a few small layers, and shorter timings.")
@threads_option
@json_option
def demo_command(
    op: str, dtype: str, direction: str | None, quick: bool, threads: int | None, as_json: bool
) -> None:
    """Build a few kernels, run the layers of a real model and check the results.

    The kernels are compiled for this machine the first time and come from the cache afterwards;
    without a C++ compiler the prebuilt ones are used. Every result is compared with NumPy; the
    exit code is 1 if one differs by more than rounding explains.
    """
    if direction is not None and op != "conv":
        raise click.UsageError("--direction is an option of conv: ckdisp demo conv --direction ...")
    limit_threads(threads)
    if op == "conv":
        from .demo_conv import conv_demo

        conv_demo(dtype, direction or "fwd", quick, threads, as_json)
    else:
        from .demo_gemm import gemm_demo

        gemm_demo(dtype, quick, threads, as_json)
