"""What the demos of every op share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .output import colour

if TYPE_CHECKING:
    from .. import KernelSet, Registry

Say = Callable[[str], None]

# One rounding to the type of a result, relative to the value; what is above has another cause.
ROUNDING = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
# Two fp32 sums of thousands of products in another order differ by 1e-7 to 1e-6 of the largest.
SUMMATION = 1e-5


def silent(text: str) -> None:
    """Says nothing."""


def kernels_of(kernels: KernelSet, say: Say) -> tuple[Registry, str]:
    """Freshly built kernels, or the prebuilt ones where there is no compiler."""
    from .. import Registry
    from ..codegen.errors import BuildError

    say(f"Building {len(kernels)} kernels for this machine (a second run finds them in the cache)")
    start = time.perf_counter()
    try:
        registry = kernels.build()
    except BuildError as error:
        if _has_compiler():
            raise
        say(f"{colour('note:', 'yellow')} {error}\n")
        return Registry.prebuilt(), "prebuilt kernels"
    return registry, f"{len(registry)} kernels ready in {time.perf_counter() - start:.1f} s"


def _has_compiler() -> bool:
    from ..codegen.errors import BuildError
    from ..codegen.toolchain import Toolchain

    try:
        Toolchain.find()
    except BuildError:
        return False
    return True
