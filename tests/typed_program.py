"""A typed program of a user: `mypy --strict` must accept it (see ``tools/typecheck.py``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import ckdisp


class Tensor:
    """Stands for the tensor class of a framework."""


def declare() -> ckdisp.KernelSet:
    kernels = ckdisp.KernelSet.sweep("gemm.standard", arch="native", where={"dtype": ["fp32"]})
    kernels |= ckdisp.KernelSet.preset("gemm.fp16_rcr_essential", arch="native")
    return kernels.filter(lambda key: key.layout == "rcr" and key.tile[0] > 32)


def build(folder: Path) -> ckdisp.Registry:
    assert_type(ckdisp.generate(declare(), folder).written, tuple[str, ...])
    return declare().build(progress=False)


def multiply(registry: ckdisp.Registry, a: NDArray[np.float32], t: Tensor) -> NDArray[np.float32]:
    dispatcher = ckdisp.Dispatcher(registry)
    assert_type(dispatcher.gemm(t, t, epilogue="add", d=[t]), Tensor)
    assert_type(dispatcher.gemm(a, a.T), NDArray[Any])
    problem = ckdisp.GemmProblem(16, 16, 64, dtype="fp32", layout="rcr")
    for candidate in dispatcher.explain(problem):
        print(candidate.rank, candidate.kernel.name, candidate.kernel.key.layout)
    return dispatcher.gemm(a, a.T, out=np.empty((len(a), len(a)), np.float32))
