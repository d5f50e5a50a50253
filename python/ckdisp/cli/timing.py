"""Timing of several ways to do the same thing, fairly: in turns, so that drift hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


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

    Every function is run once before, untimed, so that memory is touched and choices are made.
    """
    for run in contestants.values():
        run()
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    clock = time.perf_counter
    end = clock() + seconds
    rounds = 0
    while rounds < min_runs or clock() < end:
        for name, run in contestants.items():
            start = clock()
            run()
            samples[name].append(clock() - start)
        rounds += 1
    return {n: Timing(min(s), statistics.median(s), rounds) for n, s in samples.items()}
