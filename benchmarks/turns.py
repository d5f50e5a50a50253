"""Timing of libraries in turns, for the benchmarks that compare them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

Call = Callable[[], object]
SLOW = 1.0  # seconds
BURST = 0.01  # seconds


def interleaved(calls: dict[str, Call], seconds: float, threads: int) -> dict[str, list[float]]:
    """Milliseconds of each call, called in turns for about ``seconds``, at least 5 times.

    A call that takes very long is timed once. With one thread it is the thread's own time that
    counts, without that of other work on its core.
    """
    clock = time.thread_time if threads == 1 else time.perf_counter
    # Idle threads of a library wait for work in a loop, some for 100 milliseconds, and would
    # take the next one's cores.
    pause = 0.12 if threads > 1 else 0.0
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for name, call in calls.items():
        start = clock()
        call()
        first = clock() - start
        if first > SLOW:
            times[name].append(first)
            names.remove(name)
    end = time.perf_counter() + seconds
    rounds = 0
    while names and (rounds < 5 or (time.perf_counter() < end and rounds < 2000)):
        for name in names:
            time.sleep(pause)
            burst(calls[name], clock)  # wakes its threads, fills the caches
            times[name] += burst(calls[name], clock)
        names.append(names.pop(0))
        rounds += 1
    return {name: [1e3 * t for t in taken] for name, taken in times.items()}


def burst(call: Call, clock: Callable[[], float]) -> list[float]:
    """Seconds of consecutive calls, for about ``BURST`` seconds, at least one.

    A result lives until the next one is there, as in a program that binds it to a name: libraries
    then write to memory in the same state, whether their allocators hand out the last block again
    or not.
    """
    taken = []
    result = None
    while not taken or sum(taken) < BURST:
        start = clock()
        result = call()
        taken.append(clock() - start)
    del result
    return taken


def ratio(ms: dict[str, float]) -> float | None:
    """Speed of ckdisp over that of the faster of the others."""
    others = [t for name, t in ms.items() if name != "ckdisp"]
    return min(others) / ms["ckdisp"] if others else None


def environment(threads: str) -> dict[str, str]:
    """The environment of a process whose libraries, which read it when loaded, use ``threads``."""
    # A core type or cache size forced on OpenBLAS would slow it down.
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    env |= {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    # Memory that goes back to the system at each call would cost more than many a call itself.
    return env | {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36)}
