"""Kernels in processes made by fork(), which OpenMP's threads do not survive."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import numpy as np
import pytest

import ckdisp

A = np.random.default_rng(3).random((200, 300), np.float32)
B = np.random.default_rng(4).random((300, 500), np.float32)
Q = np.random.default_rng(5).random((1, 4, 60, 32), np.float32)


@pytest.fixture
def disp() -> ckdisp.Dispatcher:
    disp = ckdisp.Dispatcher(ckdisp.Registry.prebuilt(), num_threads=2)
    disp.gemm(A, B)  # OpenMP now has threads
    return disp


def status_of_child(work: Callable[[], bool]) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # instead of waiting for ever
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def right(disp: ckdisp.Dispatcher) -> bool:
    check = ckdisp.Validator().check
    attended = ckdisp.reference.attention_fwd(Q, Q, Q)
    return check(disp.gemm(A, B), A @ B).ok and check(disp.fmha_fwd(Q, Q, Q), attended).ok


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_computes(disp: ckdisp.Dispatcher) -> None:
    assert status_of_child(lambda: right(disp) and right(disp)) == 0
    assert right(disp)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_of_the_child_computes(disp: ckdisp.Dispatcher) -> None:
    assert status_of_child(lambda: right(disp) and status_of_child(lambda: right(disp)) == 0) == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_threads_of_the_child_compute(disp: ckdisp.Dispatcher) -> None:
    def work() -> bool:
        results: list[bool] = []
        threads = [threading.Thread(target=lambda: results.append(right(disp))) for _ in range(3)]
        for thread in threads:
            thread.start()
        results.append(right(disp))
        for thread in threads:
            thread.join()
        return len(results) == 4 and all(results)

    assert status_of_child(work) == 0
