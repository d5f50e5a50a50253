"""What ``ckdisp doctor`` says of NVIDIA GPUs: what kernels for them are built with.

CPU kernels need nothing of it, so whatever is missing is a warning.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ..codegen.cuda.toolchain import (
    HELP_CUDA,
    HELP_CUTLASS,
    Place,
    cuda_places,
    cutlass_places,
    dotted,
)
from .findings import OK, WARN, Check


def build_checks() -> Iterator[Check]:
    """nvcc and the headers of CUTLASS: which are taken, and what was passed over."""
    yield from _chosen("nvcc", "CUDA", cuda_places(None, os.environ), HELP_CUDA)
    yield from _chosen("cutlass", "CUTLASS", cutlass_places(None, os.environ), HELP_CUTLASS)


def _chosen(name: str, what: str, places: Iterable[Place], remedy: str) -> Iterator[Check]:
    tried = []
    for place in places:
        if not place.problem:
            yield Check(
                name, OK, f"{what} {dotted(place.version)} in {place.folder} ({place.origin})"
            )
            return
        tried.append(str(place))
        if place.setting:
            break
    todo = "; ".join((*tried, remedy))
    yield Check(name, WARN, "none; kernels for NVIDIA GPUs cannot be built", todo)
