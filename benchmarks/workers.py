"""The command line and the processes of the benchmarks that compare libraries on a CPU.

Libraries read their number of threads when they are loaded: each number has a process of its own,
the same program with ``--worker``, which prints its rows as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from turns import Call, environment, interleaved, ratio

Row = dict[str, Any]


def parser(doc: str | None, *, quick: str, threads: str) -> argparse.ArgumentParser:
    """The options that these benchmarks have alike; ``threads`` are measured by default."""
    found = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    found.add_argument("--quick", action="store_true", help=quick)
    found.add_argument("--threads", default=threads, help=f"numbers of threads ({threads})")
    found.add_argument("--dtypes", default="fp32,bf16,fp16")
    found.add_argument("--json", action="store_true", help="rows as JSON on standard output")
    found.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return found


def torch_parser(doc: str | None, axis: str, values: Sequence[str]) -> argparse.ArgumentParser:
    """The options of a benchmark against PyTorch over the ``values`` of ``axis``."""
    found = parser(doc, quick="fewer problems, shorter timings", threads="1")
    found.add_argument(f"--{axis}", default=",".join(values))
    found.add_argument("--seconds", type=float, default=1.0, help="time for each problem (1)")
    return found


def rows_of(file: str, options: argparse.Namespace, names: Sequence[str]) -> list[Row]:
    """The rows of a process of the program ``file`` for each number of threads.

    ``names`` are the options, beside ``--quick``, that it is passed.
    """
    rows: list[Row] = []
    for threads in options.threads.split(","):
        command = [sys.executable, file, "--worker", "--threads", threads]
        for name in names:
            command += [f"--{name}", str(getattr(options, name))]
        command += ["--quick"] * options.quick
        done = subprocess.run(command, env=environment(threads), stdout=subprocess.PIPE, check=True)
        rows += json.loads(done.stdout)
    return rows


def timed(calls: dict[str, Call], options: argparse.Namespace, threads: int) -> Row:
    """Median milliseconds of each call, and the ratios of the medians and of the fastest."""
    taken = interleaved(calls, 0.2 if options.quick else options.seconds, threads)
    ms = {name: statistics.median(t) for name, t in taken.items()}
    best = {name: min(t) for name, t in taken.items()}
    return {"ms": ms, "ratio": ratio(ms), "best_ratio": ratio(best)}


def print_groups(
    rows: Sequence[Row], column: str, line: Callable[[tuple[str, str, int], list[Row]], str]
) -> None:
    """One line for the rows that agree in ``column``, type and number of threads."""
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row[column], row["dtype"], row["threads"]), []).append(row)
    for key, members in groups.items():
        print(line(key, members), file=sys.stderr)


def print_json(rows: Sequence[Row]) -> None:
    json.dump(rows, sys.stdout, indent=1)
    print()
