"""``ckdisp demo``: the whole path on the layers of real models."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import click

from .demo_parts import ROUNDING, Say, silent
from .output import json_option, print_json
from .sources import limit_threads, threads_option


@click.command("demo")
@click.argument("op", type=click.Choice(["gemm", "conv", "fmha"]), required=False)
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
    op: str | None,
    dtype: str,
    direction: str | None,
    quick: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Build a few kernels, run the layers of a real model and check the results.

    gemm is the layers of a language model, conv those of an image model, and fmha an attention
    block on a text, forward, decoding token by token, and backward; without OP it is gemm and
    fmha. Kernels are compiled for this machine the first time and come from the cache afterwards;
    without a C++ compiler, and where fmha finds all that it needs, the prebuilt ones are used.
    Every result is compared with NumPy; the exit code is 1 if one differs by more than rounding
    explains.
    """
    if direction is not None and op != "conv":
        raise click.UsageError("--direction is an option of conv: ckdisp demo conv --direction ...")
    limit_threads(threads)
    say: Say = silent if as_json else click.echo
    documents: dict[str, dict[str, Any]] = {}
    for name in [op] if op else ["gemm", "fmha"]:
        if documents:
            say("")
        documents[name] = _demo(name, direction or "fwd")(dtype, quick, threads, say)
    ok = all(document["ok"] for document in documents.values())
    if as_json:
        print_json(documents[op] if op else {**documents, "ok": ok})
    if not ok:
        sys.exit(1)


def _demo(op: str, direction: str) -> Callable[[str, bool, int | None, Say], dict[str, Any]]:
    if op == "conv":
        from .demo_conv import conv_demo

        return functools.partial(conv_demo, direction)
    if op == "fmha":
        from .demo_fmha import fmha_demo

        return fmha_demo
    from .demo_gemm import gemm_demo

    return gemm_demo
