"""Timing of several ways to do the same thing, fairly: in turns, so that drift hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Idle threads of a library wait for work in a loop, some for 100 milliseconds, and would take
# the next contestant's cores.
PAUSE = 0.12


@dataclass(frozen=True)
class Timing:
    """Seconds of one contestant over ``runs`` runs."""

    minimum: float
    median: float
    runs: int


def interleaved(
    contestants: Mapping[str, Callable[[], object]], *, seconds: float, min_runs: int = 3
) -> dict[str, Timing]:
    """Time each function in turns until ``seconds`` have passed, each at least ``min_runs`` times.

    Every function is run once before each timed run, untimed: its choices are made, its memory is
    touched and its threads are awake.
    """
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    clock = time.perf_counter
    end = clock() + seconds
    rounds = 0
    while rounds < min_runs or clock() < end:
        for name, run in contestants.items():
            time.sleep(PAUSE)
            run()  # wakes the contestant's own threads
            start = clock()
            run()
            samples[name].append(clock() - start)
        rounds += 1
    return {n: Timing(min(s), statistics.median(s), rounds) for n, s in samples.items()}
